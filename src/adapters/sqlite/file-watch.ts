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
const WAL_MAGIC = [0x377f0682, 0x377f0683];
/** Where in the header the salts are, which are others after each restart of the write-ahead log: 8 bytes. */
const WAL_SALTS = 16;
/** Where in the header the size of a page is. */
const WAL_PAGE_SIZE = 8;
/** Where in the header of each frame the salts are. */
const FRAME_SALTS = 8;

/**
 * How much of FILE is compared: its header (https://www.sqlite.org/fileformat.html#the_database_header), and the pages
 * behind it, for headers of young databases are the same.
 */
const BEGINNING_BYTES = 64 * 1024;

/** How long that header is, and where in it the size of a page and the number of pages are. */
const DATABASE_HEADER_BYTES = 100;
const PAGE_SIZE = 16;
const PAGES = 28;

/** No database is smaller. */
const LEAST_DATABASE_BYTES = 512n;

/** How often a look is begun again while other processes write: then what is read does not fit together. */
const MAX_LOOKS = 20;

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
  /** Undefined where the system does not show SQLite's handles. */
  readonly #index: WalIndex | undefined;
  /** What the index said at the last look. */
  #lastIndex: WalIndexState | undefined;
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
    const indexHandle = handlesOf(this.#names.shm.seen)[0];
    this.#index = indexHandle === undefined ? undefined : new WalIndex(indexHandle);
    this.#beginning = this.#beginningOf(this.#names.database.seen);
    this.look(); // so that the next one has something to compare with
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
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const found = this.#lookOnce();
      if (found !== 'moving') return found;
    }
    return undefined; // the next look is soon
  }

  /** `moving` where another process has written between the parts of the look: they do not fit together. */
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

  /** FILE gets shorter where it was vacuumed, and is then as long as its header says. */
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
   * FILE is written by checkpoints only, which leave their mark in the index before they write. Whatever else writes it,
   * such as `cp` of another database, is somebody else; unless it has only touched it.
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

  /** How FILE begins; undefined where it cannot be read. */
  #beginningOf(database: BigIntStats): Buffer | undefined {
    if (this.#databaseHandle === undefined || !isOf(this.#databaseHandle, database))
      [this.#databaseHandle] = handlesOf(database);
    if (this.#databaseHandle === undefined) return undefined;
    const beginning = Buffer.alloc(BEGINNING_BYTES);
    return beginning.subarray(0, readSync(this.#databaseHandle, beginning, 0, BEGINNING_BYTES, 0));
  }

  /**
   * The write-ahead log has all frames that its index counts, behind a header with the salts of the index; SQLite makes
   * it shorter only where none of them is needed. One that was cut from outside and written to again since the last look
   * has no header, or zeros where the last frame was.
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

  /** Whether a frame stands where the last one did, with these salts, or any without them. */
  #hasLastFrame(of?: bigint): boolean {
    if (this.#lastFrame === undefined) return true;
    const salts = this.#frameSaltsAt(this.#lastFrame);
    return of === undefined ? salts !== undefined && salts !== 0n : salts === of;
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

  /** The salts of the write-ahead log, undefined where it has no header. */
  #saltsNow(): bigint | undefined {
    const read = readSync(this.#walHandle, this.#header, 0, WAL_HEADER_BYTES, 0);
    if (read < WAL_HEADER_BYTES || !WAL_MAGIC.includes(this.#header.readUInt32BE(0))) return undefined;
    return this.#header.readBigUInt64BE(WAL_SALTS);
  }
}

/** Where the last frame of the log begins; undefined where it has none. */
const lastOf = ({ frames, offsetOf }: WalIndexState): number | undefined =>
  frames > 0 ? offsetOf(frames) : undefined;

const truncated = (path: string, before: bigint, now: bigint): FileFault => ({
  path,
  kind: 'truncated',
  bytes: now,
  message: `${path} was truncated while it was in use (${now} bytes, not ${before})`,
});

/** How many bytes a database has by its header. */
const bytesBy = (beginning: Buffer): number => {
  if (beginning.length < DATABASE_HEADER_BYTES) return Infinity;
  const pageSize = beginning.readUInt16BE(PAGE_SIZE);
  return beginning.readUInt32BE(PAGES) * (pageSize === 1 ? 65_536 : pageSize);
};

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
