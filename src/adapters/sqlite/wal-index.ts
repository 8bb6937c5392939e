import { fstatSync, ftruncateSync, readSync, type BigIntStats } from 'node:fs';
import { isSame } from './file-names.js';

/**
 * Offsets in FILE-shm, https://www.sqlite.org/walformat.html#the_wal_index_file_format: its header, twice, and behind
 * it how many frames were moved, and are being moved, into the database.
 */
const HEADER_BYTES = 48;
const IS_INITIALIZED = 12;
const PAGE_SIZE = 14;
const FRAMES = 16;
const SALTS = 32;
const BACKFILLED = 96;
const ATTEMPTED = 128;
const BYTES = ATTEMPTED + 4;

/** Before the first frame of a write-ahead log, and before the page in each frame. */
export const WAL_HEADER_BYTES = 32;
export const FRAME_HEADER_BYTES = 24;

/** The index of a write-ahead log at one moment. */
export interface WalIndexState {
  /** Changes with each commit, and with each checkpoint before and after it writes. */
  readonly version: string;
  /** Changes with each checkpoint, before and after it writes. */
  readonly checkpoints: string;
  /** Whether a checkpoint is running, or was interrupted. */
  readonly isUnfinished: boolean;
  /** Frames of the log that were committed and are needed. */
  readonly frames: number;
  /** The offset of a frame in the log; the first frame is 1. */
  readonly offsetOf: (frame: number) => number;
  /** As in the header of the log; others after each restart of it. */
  readonly salts: bigint;
}

/** Reads the index of a write-ahead log through SQLite's own handle; numbers have this machine's byte order. */
export class WalIndex {
  readonly #bytes = Buffer.alloc(BYTES);
  readonly #view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, BYTES);

  constructor(private readonly handle: number) {}

  /**
   * Restores the size of FILE-shm after a truncation: SQLite has it mapped, and the system ends a process that reads a
   * page beyond the file's end (SIGBUS). SQLite finds zeros instead, and rebuilds the index from the write-ahead log.
   */
  restoreSize(seen: BigIntStats): void {
    try {
      // The handle may be of another file once SQLite has closed its own.
      if (isSame(fstatSync(this.handle, { bigint: true }), seen))
        ftruncateSync(this.handle, Number(seen.size));
    } catch {
      // SQLite has closed it, and its mapping with it.
    }
  }

  /** Undefined while it is being written, and once SQLite has closed it. */
  now(): WalIndexState | undefined {
    try {
      if (readSync(this.handle, this.#bytes, 0, BYTES, 0) < BYTES) return undefined;
    } catch {
      return undefined;
    }
    const bytes = this.#bytes;
    if (bytes.compare(bytes, HEADER_BYTES, 2 * HEADER_BYTES, 0, HEADER_BYTES) !== 0) return undefined;
    if (bytes[IS_INITIALIZED] === 0) return undefined;
    const size = this.#view.getUint16(PAGE_SIZE, LITTLE);
    const frameBytes = FRAME_HEADER_BYTES + (size === 1 ? 65_536 : size);
    const salts = bytes.readBigUInt64BE(SALTS); // the bytes of the log's header as they are
    const backfilled = this.#view.getUint32(BACKFILLED, LITTLE);
    const attempted = this.#view.getUint32(ATTEMPTED, LITTLE);
    const checkpoints = `${salts} ${attempted} ${backfilled}`;
    return {
      version: `${bytes.toString('latin1', 0, HEADER_BYTES)} ${checkpoints}`,
      checkpoints,
      isUnfinished: attempted !== backfilled,
      frames: this.#view.getUint32(FRAMES, LITTLE),
      offsetOf: (frame) => WAL_HEADER_BYTES + (frame - 1) * frameBytes,
      salts,
    };
  }
}

/** Whether this machine is little-endian. */
const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
