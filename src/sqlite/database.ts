import { lstatSync } from 'node:fs';
import type * as Sqlite from '@photostructure/sqlite';

type DatabaseClass = typeof Sqlite.DatabaseSync;

/** Node's own SQLite, without the warning of Node 22 in each thread that loads it. */
const builtinSqlite = (): DatabaseClass | undefined => {
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => undefined;
  try {
    return (process.getBuiltinModule('node:sqlite') as typeof Sqlite | undefined)?.DatabaseSync;
  } finally {
    process.emitWarning = emitWarning;
  }
};

/**
 * The drop-in for Node 20. Where it cannot be loaded, opening a file throws, since a service on EventStoreDB and Redis
 * needs neither.
 */
const packagedSqlite = async (): Promise<DatabaseClass> => {
  try {
    return (await import('@photostructure/sqlite')).DatabaseSync;
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n', 1)[0] : String(error);
    const refuse = function (): never {
      throw new Error(
        `Node ${process.version} has no SQLite of its own (22.13 and newer have), and the package @photostructure/sqlite cannot be loaded: install it, or use a newer Node (${reason})`,
      );
    };
    return refuse as unknown as DatabaseClass;
  }
};

/** Node's own SQLite (from 22.13 without a flag), else its drop-in, which runs on 20. */
export const DatabaseSync = builtinSqlite() ?? (await packagedSqlite());
export type Database = InstanceType<DatabaseClass>;

/** The value of a pragma; `name` may be an assignment. */
export const pragma = (db: Database, name: string): unknown => {
  const row = db.prepare(`PRAGMA ${name}`).get() as Record<string, unknown> | undefined;
  return row && Object.values(row)[0];
};

type Statement = ReturnType<Database['prepare']>;

/** A value of a parameter. */
type Value = string | number | bigint | null;

/** A query; the caller states the type of its rows. */
interface Query<Row> {
  get(...parameters: Value[]): Row | undefined;
  all(...parameters: Value[]): Row[];
}

/** Prepares a query whose rows are objects. */
export const prepareRows = <Row = unknown>(db: Database, sql: string): Query<Row> => db.prepare(sql);

/**
 * Prepares a query of many or hot rows, as arrays of their columns: each takes half the time of an object. Node has
 * them from 22.16 and 24 on, https://nodejs.org/api/sqlite.html#statementsetreturnarraysenabled
 */
export const prepareColumns = <Row extends readonly unknown[]>(db: Database, sql: string): Query<Row> => {
  const statement: Omit<Statement, 'setReturnArrays'> & Partial<Statement> = db.prepare(sql);
  if (statement.setReturnArrays) {
    statement.setReturnArrays(true);
    return statement;
  }
  const columnsOf = (row: object) => Object.values(row) as unknown as Row;
  return {
    get: (...parameters) => {
      const row = statement.get(...parameters) as object | undefined;
      return row && columnsOf(row);
    },
    all: (...parameters) => (statement.all(...parameters) as object[]).map(columnsOf),
  };
};

/** Limit of a statement for another process's lock: longer than any transaction, shorter than a client waits. */
export const BUSY_TIMEOUT_MS = 5_000;

/** Primary result codes, https://www.sqlite.org/rescode.html */
export const SQLITE = {
  BUSY: 5,
  LOCKED: 6,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  CONSTRAINT: 19,
  NOTADB: 26,
} as const;

/** Messages of the drop-in without a code, for a row that cannot be read. */
const WITHOUT_CODE: readonly (readonly [RegExp, number])[] = [
  [/malformed/, SQLITE.CORRUPT],
  [/disk I\/O error/, SQLITE.IOERR],
];

/** The primary result code of SQLite's error; undefined for other errors. */
export const sqliteCode = (error: unknown): number | undefined => {
  // Not `instanceof Error`: an error of native code may come from another realm.
  if (typeof error !== 'object' || error === null) return undefined;
  if ('errcode' in error && typeof error.errcode === 'number') return error.errcode & 0xff;
  const message = 'message' in error ? String(error.message) : '';
  return WITHOUT_CODE.find(([words]) => words.test(message))?.[1];
};

/** True if SQLite's error passes by itself, and nothing was written: a full disk, or another process's lock. */
export const isPassing = (error: unknown): boolean =>
  [SQLITE.FULL, SQLITE.BUSY].some((code) => code === sqliteCode(error));

/** Says in one line what an operator can do about SQLite's error on a file. */
export const explainSqliteError = (error: unknown, file: string): string => {
  switch (sqliteCode(error)) {
    case SQLITE.BUSY:
    case SQLITE.LOCKED:
      return `${file} is locked by another process: find out which one holds it`;
    case SQLITE.READONLY:
      return `${file} is read-only: let the user of this process write the file and its folder`;
    case SQLITE.IOERR:
      return `reading or writing ${file} failed: check the disk and the system's log, then start again`;
    case SQLITE.CORRUPT:
      return `${file} is damaged: keep a copy of it, and restore it from a backup`;
    case SQLITE.NOTADB:
      return `${file} is not an SQLite database, or is damaged from its first bytes on`;
    case SQLITE.FULL:
      return `the disk of ${file} is full: free some space`;
    case SQLITE.CANTOPEN: {
      const beside = [`${file}-wal`, `${file}-shm`].find(isNoFile);
      if (beside !== undefined)
        return `${beside} is a symbolic link or a folder, and SQLite opens only a file there: put the file that it leads to in its place, or move it aside where there is none`;
      return `${file} cannot be opened: check that its folder exists and that the user of this process may write there`;
    }
    default:
      return `${file}: ${error instanceof Error ? error.message : String(error)}`;
  }
};

/** True for anything but a regular file. */
const isNoFile = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isFile() === false;
