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
import { FRAME_HEADER_BYTES, WAL_HEADER_BYTES, WalIndex, type WalIndexState } from './wal-index.js';

/** Read through the open connection, to distinguish a truncation by SQLite from one by another program. */
export interface DatabaseSizes {
  /** The size of the database by its header, at the last commit, in bytes. May throw. */
  readonly bytes: () => number;
  /** The number of frames of the write-ahead log by its index. May throw, above all where the file lacks them. */
  readonly frames: () => number;
}

/** Time between two examinations while nothing is written, in milliseconds: each takes 15 µs. */
export const LOOK_EVERY_MS = 250;

/** The header of a write-ahead log, https://www.sqlite.org/fileformat.html#the_write_ahead_log */
const WAL_MAGIC = [0x377f0682, 0x377f0683];
/** Offset of the salts, 8 bytes, in that header; each restart of the write-ahead log changes them. */
const WAL_SALTS = 16;
/** Offset of the page size in that header. */
const WAL_PAGE_SIZE = 8;
/** Offset of the salts in the header of a frame. */
const FRAME_SALTS = 8;

/**
 * How much of FILE is compared, in bytes: its header (https://www.sqlite.org/fileformat.html#the_database_header) and
 * the pages behind it, as headers of young databases are the same.
 */
const BEGINNING_BYTES = 64 * 1024;

/** The length of that header, and offsets of the page size and the number of pages. */
const DATABASE_HEADER_BYTES = 100;
const PAGE_SIZE = 16;
const PAGES = 28;

/** The smallest page of a database. */
const LEAST_DATABASE_BYTES = 512n;

/**
 * Attempts to examine the files while other processes write: what is read between their writes does not fit together.
 */
const MAX_LOOKS = 20;

/**
 * Watches the files of an open database in write-ahead-log mode: FILE, FILE-wal and FILE-shm. SQLite continues to use
 * files that were removed or replaced, and what it writes is lost when the process ends
 * (https://www.sqlite.org/howtocorrupt.html, sections 2.4 and 4.4). To be constructed after the connection has read or
 * written the database: all three files exist from then until the last connection is closed. FILE and FILE-shm are
 * never opened here, since closing them would drop SQLite's locks of the process. Their content is read through
 * SQLite's own handles, which only Linux exposes.
 */
export class FileWatch {
  readonly #names: FileNames;
  readonly #walHandle: number;
  readonly #header = Buffer.alloc(WAL_HEADER_BYTES);
  #salts: bigint | undefined;
  readonly #frameHeader = Buffer.alloc(FRAME_HEADER_BYTES);
  /** Offset of the last frame at the last examination. */
  #lastFrame: number | undefined;
  /** Undefined where the system does not expose SQLite's handles. */
  readonly #index: WalIndex | undefined;
  #lastIndex: WalIndexState | undefined;
  #databaseHandle: number | undefined;
  /** The beginning of FILE after the last checkpoint that was seen. */
  #beginning: Buffer | undefined;

  /** Throws an error of the file system. */
  constructor(
    file: string,
    private readonly sizes: DatabaseSizes,
  ) {
    this.#names = new FileNames(file);
    this.#walHandle = openSync(this.#names.wal.path, 'r'); // SQLite takes no locks on this one
    const indexHandle = handlesOf(this.#names.shm.seen)[0];
    this.#index = indexHandle === undefined ? undefined : new WalIndex(indexHandle);
    this.#beginning = this.#beginningOf(this.#names.database.seen);
    this.look(); // the state that the next one compares with
  }

  /** The device and inode of the three files. */
  get identity(): string {
    return this.#names.identity;
  }

  /** The path of the database, without symbolic links. */
  get path(): string {
    return this.#names.database.path;
  }

  /** A handle of the write-ahead log, valid also without its name. */
  get walHandle(): number {
    return this.#walHandle;
  }

  get walPath(): string {
    return this.#names.wal.path;
  }

  /**
   * The fault of a file; undefined where there is none. Sizes are compared with those of the last examination. Throws
   * an error of the file system, such as EACCES.
   */
  look(): FileFault | undefined {
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const found = this.#lookOnce();
      if (found !== 'moving') return found;
    }
    return undefined; // until the next examination
  }

  /** `moving` where another process has written during the examination. */
  #lookOnce(): FileFault | 'moving' | undefined {
    const index = this.#index?.now();
    const now = this.#names.look();
    if ('kind' in now) return now;
    const { database, wal, shm } = now;
    if (shm.size < this.#names.shm.seen.size) {
      this.#index?.restoreSize(this.#names.shm.seen);
      return truncated(this.#names.shm.path, this.#names.shm.seen.size, shm.size);
    }
    const isWritten = database.mtimeNs !== this.#names.database.seen.mtimeNs;
    const beginning = isWritten ? this.#beginningOf(database) : this.#beginning;
    const salts = this.#saltsNow();
    const fault =
      this.#overwritten(database, index, beginning) ??
      this.#databaseCut(database, index, beginning) ??
      this.#walCut(wal, index, salts);
    if (this.#index && (index === undefined || index.version !== this.#index.now()?.version)) return 'moving';
    if (fault) return fault;
    this.#beginning = beginning;
    this.#salts = salts;
    this.#lastFrame = index ? lastOf(index) : this.#frameBefore(wal.size);
    this.#lastIndex = index;
    this.#names.database.seen = database;
    this.#names.wal.seen = wal;
    this.#names.shm.seen = shm;
    return undefined;
  }

  /** Whether FILE is unchanged since the last examination without a fault. */
  databaseIsUntouched(): boolean {
    const { path, seen } = this.#names.database;
    const now = standingAt(path);
    return now !== undefined && isSame(now, seen) && now.size === seen.size && now.mtimeNs === seen.mtimeNs;
  }

  walNameIsFree(): boolean {
    return standingAt(this.#names.wal.path) === undefined;
  }

  /** Whether the folder was moved or removed, or another file system was mounted over it. */
  folderIsAnother(): boolean {
    return this.#names.folderIsAnother();
  }

  /**
   * The path of FILE or FILE-wal by the open files of this process, 'removed' where it has none; undefined where the
   * system does not report it: only Linux does.
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

  /** A vacuum shortens FILE, to the size in its header. */
  #databaseCut(
    { size }: BigIntStats,
    index: WalIndexState | undefined,
    beginning: Buffer | undefined,
  ): FileFault | undefined {
    const { path, seen } = this.#names.database;
    if (size >= seen.size || index?.isUnfinished) return undefined;
    if (size >= (beginning ? bytesBy(beginning) : orElse(this.sizes.bytes, Infinity))) return undefined;
    return truncated(path, seen.size, size);
  }

  /**
   * FILE is written by checkpoints only, which change the index before. Other changes, such as by `cp`, are foreign,
   * unless only the times have changed.
   */
  #overwritten(
    { mtimeNs, size }: BigIntStats,
    index: WalIndexState | undefined,
    beginning: Buffer | undefined,
  ): FileFault | undefined {
    const { path, seen } = this.#names.database;
    if (mtimeNs === seen.mtimeNs || size < LEAST_DATABASE_BYTES) return undefined;
    if (!index || index.isUnfinished || index.checkpoints !== this.#lastIndex?.checkpoints) return undefined;
    if (beginAlike(beginning, this.#beginning)) return undefined;
    return {
      path,
      kind: 'overwritten',
      message: `${path} was written over by something else than this service while it was in use`,
    };
  }

  /** The beginning of FILE; undefined where it cannot be read. */
  #beginningOf(database: BigIntStats): Buffer | undefined {
    if (this.#databaseHandle === undefined || !isOf(this.#databaseHandle, database))
      [this.#databaseHandle] = handlesOf(database);
    if (this.#databaseHandle === undefined) return undefined;
    const beginning = Buffer.alloc(BEGINNING_BYTES);
    return beginning.subarray(0, readSync(this.#databaseHandle, beginning, 0, BEGINNING_BYTES, 0));
  }

  /**
   * Whether the write-ahead log lacks frames that its index counts, or the header with the index's salts; SQLite
   * shortens it only where no frame is needed. A log that was truncated and written again has no header, or zeros in
   * place of the last frame.
   */
  #walCut(
    { size }: BigIntStats,
    index: WalIndexState | undefined,
    salts: bigint | undefined,
  ): FileFault | undefined {
    const { path, seen } = this.#names.wal;
    const isCut = index
      ? index.frames > 0 &&
        (Number(size) < index.offsetOf(index.frames + 1) ||
          salts !== index.salts ||
          (salts === this.#salts && !this.#hasLastFrame(salts)))
      : size === 0n
        ? seen.size > 0n && orElse(this.sizes.frames, 1) > 0
        : salts === undefined || (size < seen.size ? salts === this.#salts : !this.#hasLastFrame());
    return isCut ? truncated(path, seen.size, size) : undefined;
  }

  /** Whether the last frame is still there, with these salts, or any without them. */
  #hasLastFrame(of?: bigint): boolean {
    if (this.#lastFrame === undefined) return true;
    const salts = this.#frameSaltsAt(this.#lastFrame);
    return of === undefined ? salts !== undefined && salts !== 0n : salts === of;
  }

  /** Offset of the last frame of a file of that size. */
  #frameBefore(size: bigint): number | undefined {
    const frame = FRAME_HEADER_BYTES + this.#header.readUInt32BE(WAL_PAGE_SIZE);
    const frames = Math.floor((Number(size) - WAL_HEADER_BYTES) / frame);
    return frames < 1 ? undefined : WAL_HEADER_BYTES + (frames - 1) * frame;
  }

  #frameSaltsAt(at: number): bigint | undefined {
    const read = readSync(this.#walHandle, this.#frameHeader, 0, FRAME_HEADER_BYTES, at);
    return read === FRAME_HEADER_BYTES ? this.#frameHeader.readBigUInt64BE(FRAME_SALTS) : undefined;
  }

  /** The salts of the write-ahead log; undefined without a header. */
  #saltsNow(): bigint | undefined {
    const read = readSync(this.#walHandle, this.#header, 0, WAL_HEADER_BYTES, 0);
    if (read < WAL_HEADER_BYTES || !WAL_MAGIC.includes(this.#header.readUInt32BE(0))) return undefined;
    return this.#header.readBigUInt64BE(WAL_SALTS);
  }
}

/** Offset of the last frame; undefined where there is none. */
const lastOf = ({ frames, offsetOf }: WalIndexState): number | undefined =>
  frames > 0 ? offsetOf(frames) : undefined;

const truncated = (path: string, before: bigint, now: bigint): FileFault => ({
  path,
  kind: 'truncated',
  bytes: now,
  message: `${path} was truncated while it was in use (${now} bytes, not ${before})`,
});

/** The size of a database by its header, in bytes. */
const bytesBy = (beginning: Buffer): number => {
  if (beginning.length < DATABASE_HEADER_BYTES) return Infinity;
  const pageSize = beginning.readUInt16BE(PAGE_SIZE);
  return beginning.readUInt32BE(PAGES) * (pageSize === 1 ? 65_536 : pageSize);
};

/** Compared up to the shorter: what was only truncated begins as before. */
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

/** The open files of the process on Linux. */
const HANDLES = '/proc/self/fd';

/** The handles of a file in this process; none where the system does not expose them. */
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
