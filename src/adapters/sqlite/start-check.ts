import { statSync } from 'node:fs';
import { START } from '../../ports/event-log.js';
import { DatabaseSync } from './database.js';
import { rescuedBeside } from './file-rescue.js';

/**
 * Why a service must not start on this event log, in one line that says what to do; undefined where nothing speaks
 * against it. A new log is not made where the file is missing or empty and `beside` it, or in its write-ahead log,
 * stands what comes from an older one; nor is a log opened that lacks events of a copy that was saved of it.
 */
export const whyNotToStart = (file: string, beside: readonly string[]): string | undefined => {
  // In this order: the service makes the log before the others, and another process may be making all of them now.
  const derived = beside.filter((other) => hasContent(other) || hasContent(`${other}-wal`));
  const saved = rescuedBeside(file).at(-1);
  if (hasContent(file)) return saved === undefined ? undefined : whyNotWithout(saved, file);
  const left = [...(hasContent(`${file}-wal`) ? [`${file}-wal`] : []), ...derived];
  if (left.length === 0 && saved === undefined) return undefined;
  const what = statSync(file, { throwIfNoEntry: false })
    ? `the event log ${file} is empty`
    : `there is no event log ${file}`;
  if (saved !== undefined)
    return `${what}, and ${saved} was saved when its files were taken away: ${putInPlace(file)}`;
  return `${what}, but ${left.join(' and ')} ${left.length === 1 ? 'is' : 'are'} there, so it was not always so: bring it back from where it was moved or mounted, or restore it from a backup (plants restore); delete none of the others, for they may hold the only copy; to begin with a new log, move them aside`;
};

/**
 * Why a service must not go on with this event log, which has no events and that identity, in one line that says what to
 * do; undefined where nothing speaks against it. It is not the one where one of `beside`, read models and trees, holds
 * what comes from another log.
 */
export const whyNotToBegin = (
  file: string,
  identity: string,
  beside: readonly string[],
): string | undefined => {
  for (const other of beside.filter(hasContent)) {
    const logs = [...rowsOf(other, LOGS_OF_READ_MODEL), ...rowsOf(other, LOG_OF_TREE)] as { log: string }[];
    const [first] = logs;
    if (first && !logs.some(({ log }) => log === identity))
      return `the event log ${file} is empty and is the log ${identity}, but ${other} was made from the log ${first.log}: bring that log back from where it was moved or mounted, or restore it from a backup (plants restore); delete nothing, for ${other} may hold the only copy; to begin with a new log, move ${other}, ${other}-wal and ${other}-shm aside`;
  }
  return undefined;
};

/** How many events a tree was made from; undefined where there is no such file, or it is no tree. */
export const leavesIn = (tree: string): number | undefined =>
  hasContent(tree)
    ? (rowsOf(tree, 'SELECT size FROM tree')[0] as { size: number } | undefined)?.size
    : undefined;

/** The logs of lists that contain something. */
const LOGS_OF_READ_MODEL = `SELECT DISTINCT log FROM generations JOIN positions USING (generation)
  WHERE state = 'active' AND position <> '${START}'`;

const LOG_OF_TREE = 'SELECT identity AS log FROM log, tree WHERE size > 0';

/** Why not to start without the copy that was saved; undefined where the log holds all of its events. */
const whyNotWithout = (saved: string, file: string): string | undefined => {
  const last = lastEvent(saved);
  if (last === undefined || isSame(eventAt(file, last.seq), last)) return undefined;
  return `${saved} was saved when files of the event log were taken away, and ${file} lacks events of it, the last of which is number ${last.seq}: ${putInPlace(file)}; or move it elsewhere, to go on without them`;
};

const putInPlace = (file: string): string =>
  `move what is left of ${file}, ${file}-wal and ${file}-shm aside, and rename that copy to ${file}`;

interface Numbered {
  readonly seq: number;
  readonly id: string;
}

const isSame = (one: Numbered | undefined, other: Numbered): boolean =>
  one?.seq === other.seq && one.id === other.id;

const lastEvent = (file: string): Numbered | undefined =>
  rowsOf(file, 'SELECT seq, id FROM events ORDER BY seq DESC LIMIT 1')[0] as Numbered | undefined;

const eventAt = (file: string, seq: number): Numbered | undefined =>
  rowsOf(file, `SELECT seq, id FROM events WHERE seq = ${seq}`)[0] as Numbered | undefined;

/** None also where the file cannot be read, or has no such table: opening it says better why. */
const rowsOf = (file: string, sql: string): unknown[] => {
  let db;
  try {
    db = new DatabaseSync(file, { readOnly: true });
    return db.prepare(sql).all();
  } catch {
    return [];
  } finally {
    db?.close();
  }
};

const hasContent = (file: string): boolean => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
