import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  type BigIntStats,
} from 'node:fs';
import { FileNames, isSame, standingAt, type FileFault } from './file-names.js';

/** What the open connection knows, by which a truncation of SQLite's own is told from one by somebody else. */
export interface DatabaseSizes {
  /** How many bytes the database has by its own header, at the last commit. May throw. */
  readonly bytes: () => number;
  /** How many frames the write-ahead log has by its index. May throw, above all where they are not in the file. */
  readonly frames: () => number;
}

/** How often the files are looked at while nothing is written, in milliseconds: a look takes 15 µs. */
export const LOOK_EVERY_MS = 250;

/** The header of a write-ahead log, https://www.sqlite.org/fileformat.html#the_write_ahead_log */
const WAL_HEADER_BYTES = 32;
const WAL_MAGIC = [0x377f0682, 0x377f0683];
/** Where in the header the salts are, which are others after each restart of the write-ahead log: 8 bytes. */
const WAL_SALTS = 16;
/** Where in the header the size of a page is. */
const WAL_PAGE_SIZE = 8;
/** Before the page in each frame; the salts are at 8. */
const FRAME_HEADER_BYTES = 24;
const FRAME_SALTS = 8;

/**
 * How much of FILE is compared: its header (https://www.sqlite.org/fileformat.html#the_database_header), and the pages
 * behind it, for headers of young databases are the same.
 */
const BEGINNING_BYTES = 64 * 1024;

/** No database is smaller. */
const LEAST_DATABASE_BYTES = 512n;

/**
 * In FILE-shm, https://www.sqlite.org/walformat.html#the_wal_index_file_format: from where the salts are, up to how many
 * frames a checkpoint has brought, or is bringing, into the database.
 */
const INDEX_SALTS = 32;
const INDEX_SALTS_BYTES = 8;
const INDEX_BACKFILLED = 96;
const INDEX_ATTEMPTED = 128;
const INDEX_BYTES = INDEX_ATTEMPTED + 4;

/**
 * Watches the files of an open database in write-ahead-log mode: FILE, FILE-wal and FILE-shm. SQLite goes on reading
 * and writing files that were removed or replaced, and what it writes then is gone when the process ends
 * (https://www.sqlite.org/howtocorrupt.html, sections 2.4 and 4.4).
 *
 * To be made when the connection has read or written the database: all three files exist from then on, until the last
 * connection is closed. FILE and FILE-shm are looked at by name and never opened: closing them again would drop the
 * locks that SQLite holds on them for the whole process. What is in them is read through SQLite's own handles, where the
 * system shows them: only Linux does. One look takes about 15 µs.
 */
export class FileWatch {
  readonly #names: FileNames;
  readonly #walHandle: number;
  readonly #header = Buffer.alloc(WAL_HEADER_BYTES);
  #salts: bigint | undefined;
  readonly #frameHeader = Buffer.alloc(FRAME_HEADER_BYTES);
  /** Where the last frame of the file stood at the last look. */
  #lastFrame: number | undefined;
  readonly #index = Buffer.alloc(INDEX_BYTES);
  #indexHandle: number | undefined;
  /** What the index said of checkpoints at the last look; undefined where that cannot be read. */
  #checkpoints: string | undefined;
  #databaseHandle: number | undefined;
  /** How FILE began after the last checkpoint that was seen. */
  #beginning: Buffer | undefined;

  /** Throws where the files cannot be looked at. */
  constructor(
    file: string,
    private readonly sizes: DatabaseSizes,
  ) {
    this.#names = new FileNames(file);
    this.#walHandle = openSync(this.#names.wal.path, 'r'); // SQLite takes no locks on this one
    this.#salts = this.#saltsNow();
    this.#lastFrame = this.#frameBefore(this.#names.wal.seen.size);
    this.#indexHandle = handlesOf(this.#names.shm.seen)[0];
    this.#checkpoints = this.#checkpointsNow();
    this.#beginning = this.#beginningOf(this.#names.database.seen);
  }

  /** Which three files these are: equal for names that lead to the same ones. */
  get identity(): string {
    return this.#names.identity;
  }

  /** The name of the database, without symbolic links. */
  get path(): string {
    return this.#names.database.path;
  }

  /** The write-ahead log as it was opened, for reading: good also after its name has gone. */
  get walHandle(): number {
    return this.#walHandle;
  }

  /** The name of the write-ahead log. */
  get walPath(): string {
    return this.#names.wal.path;
  }

  /**
   * What has happened to a file since it was opened; undefined where all are in place. Sizes are compared with those
   * at the last look. Throws an error of the file system where a name cannot be looked at, such as EACCES.
   */
  look(): FileFault | undefined {
    const fault = this.#lookOnce();
    // Another process may have written between the parts of a look: what was cut from outside stays so.
    return fault?.kind === 'truncated' ? this.#lookOnce() : fault;
  }

  #lookOnce(): FileFault | undefined {
    const checkpoints = this.#checkpointsNow();
    const now = this.#names.look();
    if ('kind' in now) return now;
    const fault =
      this.#overwritten(now.database, checkpoints) ??
      this.#databaseCut(now.database) ??
      this.#walCut(now.wal) ??
      this.#shmCut(now.shm);
    if (fault) return fault;
    this.#names.database.seen = now.database;
    this.#names.wal.seen = now.wal;
    this.#names.shm.seen = now.shm;
    return undefined;
  }

  /** Whether FILE is as it was at the last look without a fault: the same file, and not written since. */
  databaseIsUntouched(): boolean {
    const { path, seen } = this.#names.database;
    const now = standingAt(path);
    return now !== undefined && isSame(now, seen) && now.size === seen.size && now.mtimeNs === seen.mtimeNs;
  }

  /** Whether nothing stands at the name of the write-ahead log. */
  walNameIsFree(): boolean {
    return standingAt(this.#names.wal.path) === undefined;
  }

  /** Whether the folder is not at its name: it was moved or removed, or another file system is mounted over it. */
  folderIsAnother(): boolean {
    return this.#names.folderIsAnother();
  }

  /**
   * Where FILE or FILE-wal is now, by the open files of this process: a path, or 'removed' where it has no name any
   * more. Undefined where the system does not tell: only Linux does.
   */
  whereabouts(path: string): string | undefined {
    const one = [this.#names.database, this.#names.wal].find((watched) => watched.path === path);
    const handle = one && handlesOf(one.seen)[0];
    if (handle === undefined) return undefined;
    try {
      return fstatSync(handle).nlink === 0 ? 'removed' : readlinkSync(`${HANDLES}/${handle}`);
    } catch {
      return undefined; // closed meanwhile
    }
  }

  close(): void {
    closeSync(this.#walHandle);
  }

  #databaseCut({ size }: BigIntStats): FileFault | undefined {
    const { path, seen } = this.#names.database;
    if (size >= seen.size || size >= orElse(this.sizes.bytes, Infinity)) return undefined; // or somebody ran VACUUM
    return truncated(path, seen.size, size);
  }

  /**
   * FILE is written by checkpoints only, which leave their mark in the index before they write. Whatever else writes it,
   * such as `cp` of another database, is somebody else; unless it has only touched it. `before`: what the index said
   * before FILE was looked at.
   */
  #overwritten(database: BigIntStats, before: string | undefined): FileFault | undefined {
    const { path, seen } = this.#names.database;
    const after = this.#checkpointsNow();
    if (database.mtimeNs !== seen.mtimeNs && database.size >= LEAST_DATABASE_BYTES) {
      const beginning = this.#beginningOf(database);
      const isNoCheckpoint = before !== undefined && before === after && before === this.#checkpoints;
      if (isNoCheckpoint && !before.startsWith('unfinished') && !beginAlike(beginning, this.#beginning))
        return {
          path,
          kind: 'overwritten',
          message: `${path} was written over by something else than this service while it was in use`,
        };
      this.#beginning = beginning;
    }
    this.#checkpoints = after;
    return undefined;
  }

  /** How FILE begins; undefined where it cannot be read. */
  #beginningOf(database: BigIntStats): Buffer | undefined {
    if (this.#databaseHandle === undefined || !isOf(this.#databaseHandle, database))
      [this.#databaseHandle] = handlesOf(database);
    if (this.#databaseHandle === undefined) return undefined;
    const beginning = Buffer.alloc(BEGINNING_BYTES);
    return beginning.subarray(0, readSync(this.#databaseHandle, beginning, 0, BEGINNING_BYTES, 0));
  }

  /** Changes with each checkpoint, before it writes. Undefined where it cannot be read. */
  #checkpointsNow(): string | undefined {
    if (this.#indexHandle === undefined) return undefined;
    try {
      if (readSync(this.#indexHandle, this.#index, 0, INDEX_BYTES, 0) < INDEX_BYTES) return undefined;
    } catch {
      this.#indexHandle = undefined; // SQLite has closed it
      return undefined;
    }
    const salts = this.#index.toString('hex', INDEX_SALTS, INDEX_SALTS + INDEX_SALTS_BYTES);
    const attempted = this.#index.readUInt32LE(INDEX_ATTEMPTED);
    const backfilled = this.#index.readUInt32LE(INDEX_BACKFILLED);
    return `${attempted === backfilled ? '' : 'unfinished '}${salts} ${attempted} ${backfilled}`;
  }

  /**
   * The write-ahead log gets shorter only where SQLite has brought all of it into the database: its index is then
   * empty, or it has begun anew with other salts. One that was cut from outside and written to again since the last
   * look has no header, or zeros where the last frame was.
   */
  #walCut({ size }: BigIntStats): FileFault | undefined {
    const { path, seen } = this.#names.wal;
    const salts = size === 0n ? undefined : this.#saltsNow();
    const isCut =
      size === 0n
        ? seen.size > 0n && orElse(this.sizes.frames, 1) > 0
        : salts === undefined || (size < seen.size ? salts === this.#salts : !this.#hasLastFrame());
    if (isCut) return truncated(path, seen.size, size);
    this.#salts = salts;
    this.#lastFrame = this.#frameBefore(size);
    return undefined;
  }

  /**
   * Whether a frame stands where the last one did: the same, or one that was written over it since, by whatever
   * process. Its salts are those of any run of the log since then, of which a busy one begins several between two looks.
   */
  #hasLastFrame(): boolean {
    if (this.#lastFrame === undefined) return true;
    const salts = this.#frameSaltsAt(this.#lastFrame);
    return salts !== undefined && salts !== 0n;
  }

  /** Where the last frame of a file of that size begins. */
  #frameBefore(size: bigint): number | undefined {
    const frame = FRAME_HEADER_BYTES + this.#header.readUInt32BE(WAL_PAGE_SIZE);
    const frames = Math.floor((Number(size) - WAL_HEADER_BYTES) / frame);
    return frames < 1 ? undefined : WAL_HEADER_BYTES + (frames - 1) * frame;
  }

  #frameSaltsAt(at: number): bigint | undefined {
    const read = readSync(this.#walHandle, this.#frameHeader, 0, FRAME_HEADER_BYTES, at);
    return read === FRAME_HEADER_BYTES ? this.#frameHeader.readBigUInt64BE(FRAME_SALTS) : undefined;
  }

  #shmCut({ size }: BigIntStats): FileFault | undefined {
    const { path, seen } = this.#names.shm;
    return size < seen.size ? truncated(path, seen.size, size) : undefined;
  }

  /** The salts of the write-ahead log, undefined where it has no header. */
  #saltsNow(): bigint | undefined {
    const read = readSync(this.#walHandle, this.#header, 0, WAL_HEADER_BYTES, 0);
    if (read < WAL_HEADER_BYTES || !WAL_MAGIC.includes(this.#header.readUInt32BE(0))) return undefined;
    return this.#header.readBigUInt64BE(WAL_SALTS);
  }
}

const truncated = (path: string, before: bigint, now: bigint): FileFault => ({
  path,
  kind: 'truncated',
  bytes: now,
  message: `${path} was truncated while it was in use (${now} bytes, not ${before})`,
});

/** As far as both go: what was only cut begins as before. */
const beginAlike = (one: Buffer | undefined, other: Buffer | undefined): boolean => {
  if (!one || !other) return true;
  const length = Math.min(one.length, other.length);
  return one.subarray(0, length).equals(other.subarray(0, length));
};

const orElse = (ask: () => number, otherwise: number): number => {
  try {
    return ask();
  } catch {
    return otherwise;
  }
};

/** Where Linux shows the open files of a process. */
const HANDLES = '/proc/self/fd';

/** The handles by which this process has a file open; none where the system does not show them. */
const handlesOf = (file: BigIntStats): number[] => {
  try {
    return readdirSync(HANDLES)
      .map(Number)
      .filter((handle) => isOf(handle, file));
  } catch {
    return []; // no Linux
  }
};

const isOf = (handle: number, file: BigIntStats): boolean => {
  try {
    return isSame(fstatSync(handle, { bigint: true }), file);
  } catch {
    return false; // closed meanwhile
  }
};
