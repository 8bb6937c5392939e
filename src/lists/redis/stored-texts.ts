import { type Anchor, type Position, START } from '../../log/event-log.js';
import { type Page, type BlockedOwner, type RowChange } from '../read-model.js';

/** The field of the hash of blocked owners with their number; no owner is encoded so. */
export const BLOCKED_COUNT = '#';

/**
 * A field that keeps the hash in existence while no owner is blocked: while a cluster moves a slot, a script is refused
 * (TRYAGAIN) unless all of its keys exist on one server. No owner is encoded so.
 */
export const BLOCKED_KEPT = '#kept';

/**
 * The last change of each plant. Those before and after a refused event of the owner are kept apart, as the later ones
 * may have to be left out.
 */
export const lastOfEachPlant = (
  changes: readonly RowChange[],
  refused: readonly BlockedOwner[],
): Iterable<RowChange> => {
  const last = new Map<string, RowChange>();
  for (const change of changes) {
    const { id, owner, position } = change;
    const refusedBefore =
      refused.length === 0
        ? 0
        : refused.filter((event) => event.owner === owner && event.position < position).length;
    last.set(`${id} ${refusedBefore} ${owner}`, change);
  }
  return last.values();
};

/** The text of a blocked owner, which begins with the position of its event. */
export const blockedText = ({ position, stream, revision, kind, reason, applied }: BlockedOwner): string =>
  `${position}|${JSON.stringify({ stream, revision, kind, reason, applied })}`;

/** Parses a field of the hash of blocked owners. */
export const blockedOwnerOf = (owner: string, text: string): BlockedOwner => {
  const bar = text.indexOf('|');
  return {
    owner,
    position: text.slice(0, bar) as Position,
    ...(JSON.parse(text.slice(bar + 1)) as Omit<BlockedOwner, 'owner' | 'position'>),
  };
};

/** The text of an anchor: the position and the event's id, or nothing at the start. */
export const anchorText = ({ position, event }: Anchor): string =>
  position === START ? '' : `${position} ${event}`;

export const anchorOf = (text: string): Anchor => {
  const [position = START, event = ''] = text.split(' ');
  return { position: position as Position, event };
};

/**
 * A row in a sorted set: the id, since two plants of an owner may have the same row; and the row's length in UTF-16
 * units, which separates rows in one text.
 */
export const memberOf = (id: number, row: string): string => `${id}:${row.length}:${row}`;

/** A page, but for the generation that it is of. */
type ParsedPage = Omit<Page, 'generation'>;

export const pageOf = (text: string, owner: string, limit: number): ParsedPage => {
  const rows: { id: number; row: string }[] = [];
  const lineEnd = text.indexOf('\n');
  let at = lineEnd + 1;
  while (at < text.length && rows.length < limit) {
    const afterId = text.indexOf(':', at);
    const afterLength = text.indexOf(':', afterId + 1);
    const id = Number(text.slice(at, afterId));
    at = afterLength + 1 + Number(text.slice(afterId + 1, afterLength));
    rows.push({ id, row: text.slice(afterLength + 1, at) });
  }
  return { rows, more: at < text.length, ...headOf(text.slice(0, lineEnd), owner) };
};

/** Parses an anchor, and the blocked owner after it, if any. */
const headOf = (head: string, owner: string): Pick<Page, 'position' | 'event' | 'blocked'> => {
  const tab = head.indexOf('\t');
  if (tab === -1) return anchorOf(head);
  return { ...anchorOf(head.slice(0, tab)), blocked: blockedOwnerOf(owner, head.slice(tab + 1)) };
};

/**
 * As `pageOf`, of members and scores. A member that does not have its score's id is returned whole, as a row that the
 * projection never writes; a further member of the last score belongs to the page, as the next one begins after it.
 */
export const scoredPageOf = (
  [head, found]: [head: string, members: string[]],
  owner: string,
  limit: number,
): ParsedPage => {
  const rows: { id: number; row: string }[] = [];
  for (let at = 0; at < found.length; at += 2) {
    const [member = '', score = ''] = found.slice(at, at + 2);
    const id = Number(score);
    if (rows.length >= limit && rows.at(-1)?.id !== id) return { rows, more: true, ...headOf(head, owner) };
    const [, of, row] = /^([^:]*):\d*:(.*)$/s.exec(member) ?? [];
    rows.push({ id, row: row === undefined || of !== score ? member : row });
  }
  return { rows, more: false, ...headOf(head, owner) };
};
