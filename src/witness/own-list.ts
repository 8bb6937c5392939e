import { jsonIn } from '../audit/bundle-format.js';
import { ProofRefused } from '../audit/merkle.js';
import { NoteRefused, quoted, type VerifierKey } from '../audit/note.js';
import { type ProvenList, verifyListProof } from '../audit/state-tree/list-proof.js';
import { type Answer } from './ask.js';
import { LogRefused, LogUnreachable } from './monitor.js';

/** Plants of a page: the most that a list with ids answers at once. */
const PAGE = 100;

/** How often a page is read that was written to between the list and its proof. */
const READS_OF_A_PAGE = 10;

/**
 * How often a page has to differ from its proof though it is the same before it and after it. Once would do, but for
 * an owner who creates a plant and deletes it again in between.
 */
const DIFFERENCES = 3;

/** What a look at one's own list needs. */
export interface OwnListOptions {
  /** Whose list it is. */
  readonly owner: string;
  readonly keys: readonly VerifierKey[];
  /** Asks the service for a path, with the owner's token. Rejects with one line where it cannot be reached. */
  readonly ask: (path: string, signal: AbortSignal) => Promise<Answer>;
  /** Verifies that a checkpoint is of the history that is followed, as `Monitor.follows`. */
  readonly follows: (note: string, signal: AbortSignal) => Promise<void>;
  /** Waits before a page is read again. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
}

/** A list as it was proven: the ids of plants, each with the id of the event that created it. */
export type OwnPlants = ReadonlyMap<number, string>;

/** A list that was verified. */
export interface OwnList {
  readonly plants: OwnPlants;
  /** False where the list has nothing, and its token may not have the proof of that. */
  readonly proven: boolean;
}

/** What differs between two looks. */
export interface OwnChanges {
  readonly added: readonly number[];
  readonly gone: readonly number[];
  /** There before and now, by another event: deleted and created in between. */
  readonly again: readonly number[];
}

/** A page as the service lists it. */
interface Page {
  readonly rows: readonly Row[];
  /** The cursor of the next page. */
  readonly next: string | undefined;
  readonly position: string | undefined;
}

interface Row {
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

/** The proof of a page; undefined where there is none to be had, of a list with nothing. */
type PageProof = ProvenList | undefined;

/**
 * Reads a whole list, page by page, and verifies that each page is the proven one: that it holds what the signed
 * history says, and nothing else. Throws LogRefused, with the first difference, and LogUnreachable.
 */
export const ownList = async (options: OwnListOptions, signal: AbortSignal): Promise<OwnList> => {
  const plants = new Map<number, string>();
  let cursor: string | undefined;
  let after: number | undefined;
  for (;;) {
    const { page, proof } = await samePage(options, cursor, after, signal);
    for (const { id, event } of proof?.plants ?? []) plants.set(id, event.id);
    if (page.next === undefined) return { plants, proven: proof !== undefined };
    cursor = page.next;
    after = page.rows.at(-1)?.id;
  }
};

/** What has changed since an earlier look. */
export const changesSince = (before: OwnPlants, now: OwnPlants): OwnChanges => ({
  added: [...now.keys()].filter((id) => !before.has(id)),
  gone: [...before.keys()].filter((id) => !now.has(id)),
  again: [...now].filter(([id, event]) => before.has(id) && before.get(id) !== event).map(([id]) => id),
});

/** A page that is what its proof says. */
const samePage = async (
  options: OwnListOptions,
  cursor: string | undefined,
  after: number | undefined,
  signal: AbortSignal,
): Promise<{ readonly page: Page; readonly proof: PageProof }> => {
  const query = `limit=${PAGE}${cursor === undefined ? '' : `&after=${encodeURIComponent(cursor)}`}`;
  let differences = 0;
  for (let read = 1; ; read++) {
    const before = await pageOf(options, query, after, signal);
    const proof = await proofOf(options, query, before, after, signal);
    const difference = differenceOf(before, proof);
    if (difference === undefined) return { page: before, proof };
    const now = await pageOf(options, query, after, signal);
    if (differenceOf(now, proof) === undefined) return { page: now, proof };
    if (JSON.stringify(now.rows) === JSON.stringify(before.rows)) differences += 1;
    if (differences === DIFFERENCES)
      throw new LogRefused(`the list of ${quoted(options.owner)}: ${difference}`);
    if (read === READS_OF_A_PAGE)
      throw new LogUnreachable(`the list of ${quoted(options.owner)} changes with each look`);
    await options.pause(signal);
  }
};

/** The first thing in which a page differs from its proof. */
const differenceOf = ({ rows, next }: Page, proof: PageProof): string | undefined => {
  const proven = proof?.plants ?? [];
  for (const [at, row] of rows.entries()) {
    const plant = proven[at];
    if (!plant || row.id < plant.id)
      return `it shows plant ${row.id}, which the signed history does not hold`;
    if (row.id > plant.id) return `plant ${plant.id} of the signed history is left out`;
    const { name, tag } = Object(plant.event.data) as Partial<Row>;
    if (row.name !== name || row.tag !== tag)
      return `it shows plant ${row.id} as ${shown(row.name, row.tag)}, and the signed history has ${shown(name, tag)}`;
  }
  const missing = proven[rows.length];
  if (missing) return `plant ${missing.id} of the signed history is left out`;
  if (proof && proof.isLast !== (next === undefined))
    return proof.isLast
      ? 'it says that more follows, and nothing does'
      : 'it says that nothing follows, and more does';
  return undefined;
};

const shown = (...texts: unknown[]): string =>
  texts.map((text) => (typeof text === 'string' ? quoted(text) : '?')).join(', ');

/** Throws LogUnreachable, also for another status than 200, and LogRefused for what is no page. */
const pageOf = async (
  options: OwnListOptions,
  query: string,
  after: number | undefined,
  signal: AbortSignal,
): Promise<Page> => {
  const path = `/plants?${query}&view=full`;
  const { headers, body } = expected(path, await asked(options, path, signal));
  const rows = rowsIn(body);
  if (!rows || rows.length > PAGE) throw new LogRefused(`its answer to ${path} is no list of plants`);
  for (const [at, { id }] of rows.entries()) {
    const last = at === 0 ? after : rows[at - 1]?.id;
    if (last !== undefined && id <= last)
      throw new LogRefused(`the list of ${quoted(options.owner)}: plant ${id} comes after plant ${last}`);
  }
  return { rows, next: nextIn(headers.get('link')), position: headers.get('plants-position') ?? undefined };
};

const rowsIn = (body: string): Row[] | undefined => {
  const rows = jsonIn(body);
  const isRow = (row: unknown): row is Row => {
    const { id, name, tag } = Object(row) as Partial<Row>;
    return Number.isSafeInteger(id) && typeof name === 'string' && typeof tag === 'string';
  };
  return Array.isArray(rows) && rows.every(isRow) ? rows : undefined;
};

/** The cursor in `Link: <…>; rel="next"`. */
const nextIn = (link: string | null): string | undefined => {
  const [, target] = /<([^>]*)>; rel="next"/.exec(link ?? '') ?? [];
  if (target === undefined || !URL.canParse(target, 'http://any')) return undefined;
  return new URL(target, 'http://any').searchParams.get('after') ?? undefined;
};

/** The verified proof of a page, of a history that holds all that `page` was made of. Throws LogRefused and LogUnreachable. */
const proofOf = async (
  options: OwnListOptions,
  query: string,
  { position }: Page,
  after: number | undefined,
  signal: AbortSignal,
): Promise<PageProof> => {
  const { owner, keys, follows } = options;
  const refused = (reason: string): LogRefused =>
    new LogRefused(`the proof of the list of ${quoted(owner)}: ${reason}`);
  const since = position === undefined ? '' : `&position=${encodeURIComponent(position)}`;
  const path = `/log/list?${query}${since}`;
  const answer = await asked(options, path, signal);
  // The owner has nothing, and the proof of that takes the scope plants:audit.
  if (answer.status === 404 && after === undefined) return undefined;
  const { body } = expected(path, answer);
  try {
    const proof = verifyListProof(body, keys);
    if (proof.owner !== owner) throw refused(`it is of ${quoted(proof.owner)}`);
    if (proof.after !== after)
      throw refused(`it is of the page after ${proof.after}, and not after ${after}`);
    if (!proof.isLast && proof.plants.length !== PAGE)
      throw refused(`its page has ${proof.plants.length} plants, and not ${PAGE}`);
    await follows((JSON.parse(body) as { readonly checkpoint: string }).checkpoint, signal);
    return proof;
  } catch (error) {
    if (error instanceof ProofRefused || error instanceof NoteRefused) throw refused(error.message);
    throw error;
  }
};

const asked = async ({ ask }: OwnListOptions, path: string, signal: AbortSignal): Promise<Answer> => {
  try {
    return await ask(path, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw new LogUnreachable(`the service: ${(error as Error).message}`, { cause: error });
  }
};

/** Throws LogUnreachable for another status than 200: that proves nothing. */
const expected = (path: string, answer: Answer): Answer => {
  if (answer.status === 200) return answer;
  const { detail } = Object(jsonIn(answer.body)) as { detail?: unknown };
  const why = quoted(typeof detail === 'string' ? detail : answer.body.trimEnd());
  throw new LogUnreachable(`the service answers ${answer.status} to ${path}: ${why}`);
};
