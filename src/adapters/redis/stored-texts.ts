import { type Position } from '../../ports/event-log.js';
import { type Page, type ParkedOwner, type RowChange } from '../../ports/read-model.js';

/** The field of a partition's hash of parked owners that says how many there are: no owner is encoded so. */
export const PARKED_COUNT = '#';

/**
 * A field that keeps the hash there while no owner is parked: while a cluster moves a slot, a script is refused
 * (TRYAGAIN) unless all of its keys exist where it runs. No owner is encoded so.
 */
export const PARKED_KEPT = '#kept';

/**
 * The earlier changes of a plant leave nothing behind. But those before and after a refused event of the owner are kept
 * apart: what follows that may have to be left out.
 */
export const lastOfEachPlant = (
  changes: readonly RowChange[],
  refused: readonly ParkedOwner[],
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

/** Where an owner is parked, as the hash of parked owners holds it after `applied|missed|`. */
export const parkedText = ({ position, stream, revision, kind, reason }: ParkedOwner): string =>
  JSON.stringify({ position, stream, revision, kind, reason });

/** The parked owner that a field of the hash stands for. */
export const parkedOwnerOf = (owner: string, text: string): ParkedOwner => {
  const [, applied = '', event = ''] = /^([^|]*)\|[^|]*\|(.*)$/s.exec(text) ?? [];
  return {
    owner,
    ...(JSON.parse(event) as Omit<ParkedOwner, 'owner' | 'applied'>),
    applied: applied as Position,
  };
};

/**
 * A row as a sorted set holds it: the id, since two plants of an owner may have the same row; and the row's length
 * (in UTF-16 units), by which many of them are taken from one text, whatever a row contains.
 */
export const memberOf = (id: number, row: string): string => `${id}:${row.length}:${row}`;

export const pageOf = (text: string, owner: string, limit: number): Page => {
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

/** A position, and where the owner is parked if so. */
const headOf = (head: string, owner: string): Pick<Page, 'position' | 'parked'> => {
  const space = head.indexOf(' ');
  if (space === -1) return { position: head as Position };
  const parked = parkedOwnerOf(owner, head.slice(space + 1));
  return { position: head.slice(0, space) as Position, parked };
};

/**
 * The same of members and their scores. A member that is not the one of its score stands there whole, as a row that the
 * projection never writes; a member more of the last score belongs to the page, which would not be met again.
 */
export const scoredPageOf = (
  [head, found]: [head: string, members: string[]],
  owner: string,
  limit: number,
): Page => {
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
