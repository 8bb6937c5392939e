import {
  closeSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  truncateSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { makeFile, makeFolder, syncFile, syncFolder } from '../../runtime/new-file.js';
import { type Database, DatabaseSync, explainSqliteError, sqliteCode } from '../../sqlite/database.js';
import { type FileFault, FileNames, type Standing, standingAt } from '../../sqlite/file-names.js';

/** Less free space is a full disk, in bytes: a commit and a checkpoint may need as much. */
const LEAST_FREE_BYTES = 1_048_576;

/** True if the disk of a file has room for commits, or the system does not report it. */
export const hasRoom = (file: string): boolean => {
  try {
    const { bavail, bsize } = statfsSync(dirname(file));
    return bavail * bsize >= LEAST_FREE_BYTES;
  } catch {
    return true;
  }
};

const MARK = '.rescued-';

/** The copies beside an event log that were saved, oldest first. */
export const rescuedBeside = (file: string): string[] => {
  const folder = dirname(file);
  try {
    return readdirSync(folder)
      .filter((name) => name.startsWith(`${basename(file)}${MARK}`) && !name.endsWith('.partial'))
      .sort()
      .map((name) => join(folder, name));
  } catch {
    return []; // no folder, no copies
  }
};

/** A frame of the write-ahead log with its page, in bytes: its header is never all zeros. */
const FRAME_BYTES = 24 + 4096;

/** Bytes of FILE that are compared where its time has changed: the first pages, as headers of young logs are the same. */
const BEGINNING_BYTES = 64 * 1024;

/**
 * The files of an open event log, which nobody else writes: FILE, FILE-wal and FILE-shm. SQLite continues to use files
 * that were removed or replaced, and what it writes is lost when the process ends
 * (https://www.sqlite.org/howtocorrupt.html, sections 2.4 and 4.4). A look takes some 15 µs.
 */
export class LogFiles {
  readonly #names: FileNames;
  /** For syncs. Closing the one of FILE would drop SQLite's locks of this process: not before SQLite has closed it. */
  readonly wal: number;
  readonly database: number;
  #beginning: Buffer;
  /** The end of FILE-wal, where that is where the last commit ended; undefined where it ended before. */
  #end: Buffer | undefined;
  #fault: FileFault | undefined;
  #saved: Saved | undefined;

  /** To be constructed after the connection has written. Throws an error of the file system. */
  constructor(
    private readonly db: Database,
    private readonly file: string,
  ) {
    this.#names = new FileNames(file);
    this.wal = openSync(this.#names.wal.path, 'r+');
    this.database = openSync(this.#names.database.path, 'r+');
    this.#beginning = this.#beginningNow();
  }

  /**
   * The fault of a file, in one clause; undefined where there is none. A fault stays. `committed`: whether a commit of
   * ours came after the last look. Throws an error of the file system where it cannot be examined.
   */
  look(committed: boolean): string | undefined {
    if (this.#fault) return this.#fault.message;
    const found = this.#names.look();
    if ('kind' in found) this.#fault = found;
    else {
      this.#fault = this.#overwritten(found) ?? this.#cut(found);
      if (!this.#fault && committed) {
        const isLonger = found.wal.size > this.#names.wal.seen.size;
        this.#end = isLonger ? this.#walUpTo(found.wal.size) : undefined;
        this.#names.accept(found);
      }
    }
    return this.#fault?.message;
  }

  /** To be called after a checkpoint or a VACUUM of ours: sizes and content have changed. */
  accept(): void {
    const found = this.#names.look();
    if ('kind' in found) return; // the next look says so
    this.#end = undefined;
    this.#names.accept(found);
    this.#beginning = this.#beginningNow();
  }

  /** True once a file was taken away. */
  get isAtFault(): boolean {
    return this.#fault !== undefined;
  }

  /** True while the content has to be saved, and no attempt was made. */
  get hasWork(): boolean {
    return this.#fault !== undefined && this.#saved === undefined;
  }

  /**
   * Saves what the open files hold. Returns one line: what has happened, which files to keep, what to do. Blocks for as
   * long as a copy takes; never throws. `last`: the number of the last event that was acknowledged.
   */
  save(last: number): string {
    const fault = this.#fault;
    if (!fault) return '';
    try {
      this.#saved ??= this.#rescue(fault, last);
    } catch (error) {
      const reason =
        sqliteCode(error) === undefined ? (error as Error).message : explainSqliteError(error, this.file);
      const advice = `what the open files hold could not be saved (${reason}); keep ${this.file}, ${this.file}-wal, the read model and tree.db, delete none of them, for they may be the only copies; put the file back or restore the log from a backup, then start again`;
      this.#saved = { advice, isWhole: false };
    }
    const now = this.#whereabouts(fault);
    return `${fault.message}${now === undefined ? '' : ` (it is now ${now})`}: ${this.#saved.advice}`;
  }

  /** True if a start would find all acknowledged events: nothing is in the way, or the files are in place again. */
  get restartHelps(): boolean {
    if (!this.#fault || !this.#saved) return false;
    const { path, kind } = this.#fault;
    if (this.#saved.isWhole) return !isInTheWay(path);
    try {
      return (kind === 'missing' || kind === 'replaced') && this.#names.fault() === undefined;
    } catch {
      return false;
    }
  }

  close(): void {
    closeSync(this.wal);
    closeSync(this.database);
  }

  /** The new path of a file that was moved; only Linux says so. */
  #whereabouts({ path }: FileFault): string | undefined {
    const handle = path === this.#names.database.path ? this.database : this.wal;
    if (path.endsWith('-shm') || fstatSync(handle).nlink === 0) return undefined;
    try {
      const now = readlinkSync(`/proc/self/fd/${handle}`);
      return now === path ? undefined : now;
    } catch {
      return undefined;
    }
  }

  /** A file that is shorter than it was, also where a commit has written behind its end since. */
  #cut({ database, wal, shm }: Standing): FileFault | undefined {
    const { path, seen } = this.#names.shm;
    if (shm.size < seen.size) {
      // SQLite has it mapped, and the system would end a process that reads behind its end (SIGBUS).
      truncateSync(path, Number(seen.size));
      return truncated(path, seen.size, shm.size);
    }
    const { wal: before, database: file } = this.#names;
    if (database.size < file.seen.size) return truncated(file.path, file.seen.size, database.size);
    if (wal.size < before.seen.size || (wal.size > before.seen.size && this.#hasHole(before.seen.size)))
      return truncated(before.path, before.seen.size, wal.size);
    return undefined;
  }

  /** True if zeros stand where the write-ahead log ended before a commit that has made it longer. */
  #hasHole(end: bigint): boolean {
    const now = this.#walUpTo(end);
    return this.#end ? !now.equals(this.#end) : now.length > 0 && now.every((byte) => byte === 0);
  }

  #walUpTo(end: bigint): Buffer {
    const bytes = Buffer.alloc(FRAME_BYTES);
    const from = Math.max(0, Number(end) - FRAME_BYTES);
    return bytes.subarray(0, readSync(this.wal, bytes, 0, Math.min(FRAME_BYTES, Number(end)), from));
  }

  /** FILE is written by our checkpoints alone. That only its times have changed is no fault. */
  #overwritten({ database }: Standing): FileFault | undefined {
    const { path, seen } = this.#names.database;
    if (database.mtimeNs === seen.mtimeNs && database.size === seen.size) return undefined;
    const now = this.#beginningNow();
    const isAlike = this.#beginning.subarray(0, now.length).equals(now);
    if (isAlike && database.size <= seen.size) return undefined;
    return {
      path,
      kind: 'overwritten',
      message: `${path} was written over by something else than this service while it was in use`,
    };
  }

  #beginningNow(): Buffer {
    const beginning = Buffer.alloc(BEGINNING_BYTES);
    return beginning.subarray(0, readSync(this.database, beginning, 0, BEGINNING_BYTES, 0));
  }

  #rescue(fault: FileFault, last: number): Saved {
    const { file } = this;
    const { path, kind } = fault;
    const startAgain = isInTheWay(path)
      ? `move what stands at ${path} aside, then start again`
      : 'start again';
    if (path.endsWith('-shm'))
      return whole(`nothing is lost, for ${file} and ${file}-wal hold everything; ${startAgain}`);
    if (this.#isWrittenOver(fault)) throw new Error(this.#setWalAside());
    if (this.#names.folderIsAnother() && kind === 'missing' && fstatSync(this.wal).nlink > 0)
      return copied(
        `the folder ${dirname(file)} was moved, or another file system was mounted over it; put it back, then start again`,
      );
    if (path === this.#names.wal.path && kind !== 'truncated' && this.#checkpoint())
      return whole(`nothing is lost, for what it held was brought into ${file}; ${startAgain}`);
    const [target, events] = this.#copy(fault, last);
    return copied(
      `the whole log, ${events} events, was saved in ${target}; keep that file; to go on, stop the service, move what is left of ${file}, ${file}-wal and ${file}-shm aside, rename the saved file to ${file}, and start again`,
    );
  }

  /** Brings all of the write-ahead log into FILE. Returns whether it did; a strange file of its name is renamed. */
  #checkpoint(): boolean {
    const { path } = this.#names.wal;
    const moved = this.db.prepare('PRAGMA wal_checkpoint(PASSIVE)').get() as {
      readonly busy: number;
      readonly log: number;
      readonly checkpointed: number;
    };
    if (moved.busy !== 0 || moved.log !== moved.checkpointed || this.#names.fault()?.path !== path)
      return false;
    fsyncSync(this.database);
    if (standingAt(path)?.isFile()) this.#setAside();
    return true;
  }

  /** True if what was written over FILE and what is in memory cannot be told apart any more. */
  #isWrittenOver({ path, kind, bytes }: FileFault): boolean {
    if (path !== this.#names.database.path) return false;
    return kind === 'overwritten' || (kind === 'truncated' && standingAt(path)?.size !== bytes);
  }

  /** Renames the write-ahead log, which a start would apply to a file that it does not fit. Returns its new name. */
  #setAside(): string {
    const { path } = this.#names.wal;
    const aside = `${path}.kept-${stampNow()}`;
    renameSync(path, aside);
    syncFolder(dirname(path));
    return aside;
  }

  #setWalAside(): string {
    return `something else was written over ${this.file}, which the write-ahead log with the newest events does not fit: that is ${this.#setAside()} now`;
  }

  /** Copies what the connection reads into a new file. Returns its name and the number of events. */
  #copy(fault: FileFault, last: number): [target: string, events: number] {
    const target = `${this.file}${MARK}${stampNow()}`;
    const partial = `${target}.partial`;
    makeFolder(dirname(partial));
    makeFile(partial);
    try {
      const { bytes } = this.db
        .prepare('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size')
        .get() as { bytes: number };
      const { bavail, bsize } = statfsSync(dirname(partial));
      if (bavail * bsize < bytes + LEAST_FREE_BYTES)
        throw new Error(`a copy takes ${bytes + LEAST_FREE_BYTES} bytes, and ${bavail * bsize} are free`);
      this.db.prepare('VACUUM INTO ?').run(partial);
      if (this.#isWrittenOver(fault)) throw new Error(this.#setWalAside());
      const events = eventsIn(partial, last);
      syncFile(partial);
      renameSync(partial, target);
      syncFolder(dirname(target));
      return [target, events];
    } finally {
      for (const left of [partial, `${partial}-journal`]) rmSync(left, { force: true });
    }
  }
}

/** `isWhole`: FILE holds all of it. */
interface Saved {
  readonly advice: string;
  readonly isWhole: boolean;
}

const whole = (advice: string): Saved => ({ advice, isWhole: true });
const copied = (advice: string): Saved => ({ advice, isWhole: false });

/** True if SQLite could not create a file of this name. */
const isInTheWay = (path: string): boolean => !(lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? true);

/** The number of events of a copy. Throws where some are missing. */
const eventsIn = (partial: string, last: number): number => {
  const copy = new DatabaseSync(partial, { readOnly: true });
  try {
    const { events, end } = copy
      .prepare('SELECT count(*) AS events, coalesce(max(seq), 0) AS end FROM events')
      .get() as { events: number; end: number };
    if (events !== end || end < last)
      throw new Error(`the copy would lack events: it holds ${events}, and the log ${Math.max(end, last)}`);
    return events;
  } finally {
    copy.close();
  }
};

/** A part of a file's name: the time and the process. */
const stampNow = (): string => {
  const time = new Date()
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(':', '-');
  return `${time}-${process.pid}`;
};

const truncated = (path: string, before: bigint, now: bigint): FileFault => ({
  path,
  kind: 'truncated',
  bytes: now,
  message: `${path} was truncated while it was in use (${now} bytes, not ${before})`,
});
