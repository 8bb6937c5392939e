import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Position, START } from '../../log/event-log.js';
import { type CatchUp, type Generation, type LongPage, type PartitionChanges } from '../read-model.js';
import { type Database } from '../../sqlite/database.js';
import { faultOf, FileNames, standingAt, watched } from '../../sqlite/file-names.js';
import { removeLists, syncNames } from './lists-folder.js';
import { ListsQueries } from './lists-queries.js';
import { type About, openLists } from './lists-schema.js';
import { ListsWrites } from './lists-writes.js';
import { upkeep } from '../../log/sqlite/upkeep.js';

/**
 * The size of the write-ahead log at which it is emptied, in bytes: moving its pages and cutting it take a millisecond each.
 * While somebody reads an old state it cannot be emptied, and is tried again after as much more.
 */
const WAL_BYTES = 1024 * 1024;

/** A generation whose file this process only reads. */
export class SeenFile {
  readonly queries: ListsQueries;
  protected readonly seen;
  /** The connection of long lists, which read one state over many turns of the event loop. */
  #longReader: ReturnType<typeof readerOf> | undefined;
  /** The last of them. Never rejects. */
  #lastLongPage: Promise<unknown> = Promise.resolve();

  constructor(
    readonly path: string,
    readonly about: About,
    protected readonly db: Database,
  ) {
    this.seen = watched(path);
    this.queries = new ListsQueries(db, about.generation);
  }

  /** Throws NoLists, what SQLite throws, and an error of the file system. */
  static open(path: string): SeenFile {
    const { db, about } = openLists(path, true);
    return new SeenFile(path, about, db);
  }

  get generation(): Generation {
    return this.about.generation;
  }

  /** Says in a clause what has happened to its files; undefined where nothing has. Throws an error of the file system. */
  change(): string | undefined {
    return faultOf(this.seen);
  }

  /** As ReadModel.longList. One after the other. */
  longPage(...of: Parameters<ListsQueries['longPage']>): Promise<LongPage> {
    const reading = this.#lastLongPage.then(() => {
      this.#longReader ??= readerOf(this.path);
      return this.#longReader.queries.longPage(...of);
    });
    this.#lastLongPage = reading.catch(() => undefined);
    return reading;
  }

  /** Closes it after the long lists that were begun. */
  async close(): Promise<void> {
    await this.#lastLongPage;
    this.#longReader?.db.close();
    this.db.close();
  }
}

const readerOf = (path: string): { readonly db: Database; readonly queries: ListsQueries } => {
  const { db, about } = openLists(path, true);
  return { db, queries: new ListsQueries(db, about.generation) };
};

/**
 * A generation whose file this process owns. All is read and written on the calling thread, and no commit waits for the
 * disk: SQLite runs with `synchronous = OFF`. So it is `settle` that moves pages from the write-ahead log into the
 * file, and no commit: the log is durable before its pages are moved, the file before the log is emptied, and the
 * emptiness before the log is written again, each by a sync in libuv's pool. Whenever a machine stops, either the log
 * holds all pages that are half moved, or it is empty and the file is whole. What is lost then are the last commits, in
 * their order; the projector finds its positions and goes on from there.
 */
export class OwnedFile extends SeenFile {
  /** Of each partition, as committed. */
  readonly reached: Position[];
  readonly #writes: ListsWrites;
  #handles: readonly FileHandle[] = [];
  readonly #names: FileNames;
  /** The last time that it was settled. Never rejects, as the next. */
  #lastSettled: Promise<unknown> = Promise.resolve();
  /** Resolves when applies may go on; undefined where they may. */
  #held: Promise<void> | undefined;
  #settleAt = WAL_BYTES;
  #isClosed = false;

  private constructor(path: string, about: About, db: Database) {
    super(path, about, db);
    this.#writes = new ListsWrites(db);
    this.reached = this.queries.anchors().map(({ position }) => position);
    this.#names = new FileNames(path);
  }

  /** Opens the file of a generation; `isNew` where nothing of it is durable. Throws as SeenFile.open. */
  static async own(path: string, isNew: boolean): Promise<OwnedFile> {
    const { db, about } = openLists(path, false);
    let file: OwnedFile | undefined;
    try {
      db.exec('PRAGMA synchronous = OFF');
      file = new OwnedFile(path, about, db);
      // Kept until SQLite has closed its own: closing any handle of a file drops all locks that the process has on it.
      for (const one of [path, `${path}-wal`]) file.#handles = [...file.#handles, await open(one, 'r+')];
      // A file of which pages are moved is damaged without the log that has them: first its name is made durable.
      await syncNames(dirname(path));
      // Another process may have left it with pages that are moved and not durable.
      if (isNew || file.#walBytes > 0n) await file.settle();
      return file;
    } catch (error) {
      if (file) await file.#end();
      else db.close();
      throw error;
    }
  }

  get #walBytes(): bigint {
    return this.#names.wal.seen.size;
  }

  /** True if the write-ahead log has become so long that it is to be emptied. */
  get isDue(): boolean {
    return Number(this.#walBytes) >= this.#settleAt;
  }

  override change(): string | undefined {
    const now = this.#names.look();
    if ('kind' in now) return now.message;
    for (const name of ['database', 'wal', 'shm'] as const) {
      const { path, seen } = this.#names[name];
      // The file itself is written only where pages are moved; the other two grow.
      const isChanged = now[name].size !== seen.size || now[name].mtimeNs !== seen.mtimeNs;
      if (name === 'database' ? isChanged : now[name].size < seen.size)
        return `${path} was cut or written over by something else while it was in use`;
    }
    this.#names.accept(now);
    return undefined;
  }

  /** Resolves when an apply may be made. */
  async mayApply(): Promise<void> {
    while (this.#held) await this.#held;
  }

  /** As ReadModel.apply. Not before `mayApply`. */
  apply(partitions: readonly PartitionChanges[]): Position[] {
    const positions = this.#writes.apply(partitions);
    for (const [index, { partition }] of partitions.entries())
      this.reached[partition] = positions[index] ?? START;
    return positions;
  }

  /** As ReadModel.catchUp. Not before `mayApply`. */
  catchUp(catchUp: CatchUp): boolean {
    return this.#writes.catchUp(catchUp);
  }

  /**
   * Makes all that was applied durable, and empties the write-ahead log into the file. Returns whether it is empty:
   * somebody may be reading an older state. Throws an error of the file system, after which nothing of this file can be
   * trusted, and what SQLite throws.
   */
  settle(before?: () => Promise<void>): Promise<boolean> {
    const settled = this.#lastSettled.then(() => this.#settle(before));
    this.#lastSettled = settled.catch(() => undefined);
    return settled;
  }

  async #settle(before = (): Promise<void> => Promise.resolve()): Promise<boolean> {
    if (this.#isClosed) return true;
    const [file, wal] = this.#handles;
    this.#settleAt = Infinity;
    await wal?.sync(); // most of it, while applies go on
    let release = (): void => undefined;
    this.#held = new Promise((resolve) => {
      release = resolve;
    });
    try {
      await before();
      await wal?.sync();
      const isMoved = this.#checkpoint('PASSIVE');
      await file?.sync();
      const isEmpty = isMoved && this.#checkpoint('TRUNCATE');
      if (isEmpty) await wal?.sync();
      // A reader may let SQLite restart the write-ahead log later: that restart has to be durable first.
      this.db.exec(`PRAGMA synchronous = ${isEmpty ? 'OFF' : 'NORMAL'}`);
      return isEmpty;
    } finally {
      this.#settleAt = Number(this.#walBytes) + WAL_BYTES;
      this.#held = undefined;
      release();
    }
  }

  /** Moves pages without a sync. Returns whether all were moved and, for TRUNCATE, the log is empty. */
  #checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): boolean {
    this.db.exec('PRAGMA synchronous = OFF');
    const { busy, log, checkpointed } = this.db.prepare(`PRAGMA wal_checkpoint(${mode})`).get() as Record<
      string,
      number
    >;
    const now = this.#names.look();
    if (!('kind' in now)) this.#names.accept(now);
    return busy === 0 && log === checkpointed;
  }

  /** Removes what deleted rows have left in its files. Returns whether nothing is left. Throws as `settle`. */
  scrub(): Promise<boolean> {
    return this.settle(() => vacuum(this.path));
  }

  /** Closes it after all that was handed over is done and durable. */
  override async close(): Promise<void> {
    const isEmpty = await this.settle().catch(() => false);
    if (!isEmpty) this.db.exec('PRAGMA synchronous = NORMAL'); // closing it may move pages
    await this.#end();
  }

  /** Closes it and removes its files. Those that others have put in their place stay. */
  async discard(): Promise<void> {
    await this.#end();
    const isOurs = standingAt(this.path) === undefined || faultOf(this.seen) === undefined;
    if (isOurs) removeLists(this.path);
  }

  async #end(): Promise<void> {
    this.#isClosed = true;
    await this.#lastSettled;
    await super.close();
    for (const handle of this.#handles) await handle.close();
  }
}

const vacuum = async (path: string): Promise<void> => {
  const outcome = await upkeep(path, { kind: 'vacuum' });
  if ('failed' in outcome) throw new Error(outcome.failed);
};
