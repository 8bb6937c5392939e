import { statSync } from 'node:fs';
import { START } from '../log/event-log.js';
import { DatabaseSync } from '../sqlite/database.js';
import { generationsIn, oldFormatOf, pathOf, readPointer } from '../lists/sqlite/lists-folder.js';
import { rescuedBeside } from '../log/sqlite/log-files.js';

/** Files that are derived from an event log, and may hold the only copy of what it has lost. */
export interface Beside {
  /** The folder of embedded lists. */
  readonly lists: string | undefined;
  readonly tree: string;
}

/**
 * Why a service must not start on this event log, in one line that says what to do; undefined where it may. No new log
 * is created where the file is missing or empty while its write-ahead log, or what is `beside` it, has content of an
 * older one; nor is a log opened that lacks events of a copy that was saved of it.
 */
export const whyNotToStart = (file: string, { lists, tree }: Beside): string | undefined => {
  // In this order: another process may be creating the files, the log first.
  const derived = [
    ...(lists === undefined ? [] : listsIn(lists)),
    ...(hasContent(tree) || hasContent(`${tree}-wal`) ? [tree] : []),
  ];
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
 * Why a service must not use this empty event log, in one line that says what to do; undefined where it may: a read
 * model or tree `beside` it was made from another log.
 */
export const whyNotToBegin = (
  file: string,
  identity: string,
  { lists, tree }: Beside,
): string | undefined => {
  const pointer = lists === undefined ? undefined : readPointer(lists);
  const [listed] =
    lists === undefined || pointer?.active === undefined
      ? []
      : (rowsOf(pathOf(lists, pointer.active), LOG_OF_LISTS) as { log: string }[]);
  const [signed] = hasContent(tree) ? (rowsOf(tree, LOG_OF_TREE) as { log: string }[]) : [];
  for (const [other, log, all] of [
    [lists, listed?.log, lists],
    [tree, signed?.log, `${tree}, ${tree}-wal and ${tree}-shm`],
  ] as const)
    if (log !== undefined && log !== identity)
      return `the event log ${file} is empty and is the log ${identity}, but ${other ?? ''} was made from the log ${log}: bring that log back from where it was moved or mounted, or restore it from a backup (plants restore); delete nothing, for ${other ?? ''} may hold the only copy; to begin with a new log, move ${all ?? ''} aside`;
  return undefined;
};

/** The folder where it has lists, else the one file of them that older versions had, where that is there. */
const listsIn = (folder: string): string[] => {
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  const old = oldFormatOf(folder);
  return isFolder && generationsIn(folder).length > 0 ? [folder] : old === undefined ? [] : [old];
};

/** The number of leaves of a tree; undefined where the file is missing or no tree. */
export const leavesIn = (tree: string): number | undefined =>
  hasContent(tree)
    ? (rowsOf(tree, 'SELECT size FROM tree')[0] as { size: number } | undefined)?.size
    : undefined;

/** The log of lists with content. */
const LOG_OF_LISTS = `SELECT log FROM about WHERE EXISTS (SELECT 1 FROM anchors WHERE position <> '${START}')`;

const LOG_OF_TREE = 'SELECT identity AS log FROM log, tree WHERE size > 0';

/** Why not to start without the saved copy; undefined where the log has all of its events. */
const whyNotWithout = (saved: string, file: string): string | undefined => {
  const [last] = rowsOf(saved, 'SELECT seq, id FROM events ORDER BY seq DESC LIMIT 1') as {
    seq: number;
    id: string;
  }[];
  if (!last || rowsOf(file, 'SELECT 1 FROM events WHERE seq = ? AND id = ?', last.seq, last.id).length > 0)
    return undefined;
  return `${saved} was saved when files of the event log were taken away, and ${file} lacks events of it, the last of which is number ${last.seq}: ${putInPlace(file)}; or move it elsewhere, to go on without them`;
};

const putInPlace = (file: string): string =>
  `move what is left of ${file}, ${file}-wal and ${file}-shm aside, and rename that copy to ${file}`;

/** None where the file cannot be read or has no such table: opening it reports why. */
const rowsOf = (file: string, sql: string, ...parameters: (string | number)[]): unknown[] => {
  let db;
  try {
    db = new DatabaseSync(file, { readOnly: true });
    return db.prepare(sql).all(...parameters);
  } catch {
    return [];
  } finally {
    db?.close();
  }
};

const hasContent = (file: string): boolean => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
