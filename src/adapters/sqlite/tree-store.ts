import { Worker } from 'node:worker_threads';
import { type Position } from '../../ports/event-log.js';
import {
  type Alarm,
  AlarmStands,
  type Mark,
  type SignedCheckpoint,
  type StateGrowth,
  type StateSnapshot,
  type StoredState,
  type StoredTree,
  type TreeGrowth,
  TreeMoved,
  TreeStore,
  TreeUnavailable,
} from '../../ports/tree-store.js';
import { DatabaseSync, explainSqliteError, prepareRows, SQLITE, sqliteCode } from './database.js';
import { countOfChanges } from '../../trie/packed-changes.js';
import { nodesOf, storedEntries } from '../../trie/read-trie.js';
import { FileNames, type FileFault } from './file-names.js';
import { createFile, createFolder, inTransaction } from './open-file.js';
import { nodeReader, stateReader } from './state-nodes.js';
import { keepAdvice, takenAway, type TreeAnswers, type TreeWork, type TreeWriterData } from './tree-work.js';
import { CALL_DEADLINE_MS, portErrorOf, WorkerCalls } from './worker-call.js';

/**
 * How long a read waits for a lock, in milliseconds: it blocks the event loop, and readers in WAL mode rarely meet a
 * lock.
 */
const READ_BUSY_MS = 100;

/** How much longer each change of the state may take, in milliseconds: ten times what it does on a busy machine. */
const CHANGE_MS = 1;

/** Most of what the writer makes is garbage at once: with V8's default a state of a million plants took 15 MB more. */
const YOUNG_MB = 8;

type TreeWriter = WorkerCalls<TreeWork, TreeAnswers, string, FileFault>;

const PORT_ERRORS = [TreeUnavailable, TreeMoved, AlarmStands] as const;

/** The port's error for what SQLite or the writer has thrown. */
const treeError = (thrown: unknown, file: string): Error =>
  portErrorOf(thrown, PORT_ERRORS, (cause) => {
    const code = sqliteCode(cause);
    if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB)
      return unavailable(`${file} is damaged, or no SQLite database: ${keepAdvice(file)}`, { cause });
    return unavailable(explainSqliteError(cause, file), { cause });
  });

const unavailable = (message: string, options?: ErrorOptions): TreeUnavailable =>
  new TreeUnavailable(message, options);

/** The read-only connection of the calling thread, and its queries, which throw whatever SQLite does. */
const openReader = (file: string) => {
  const db = new DatabaseSync(file, { readOnly: true });
  db.exec(`PRAGMA busy_timeout = ${READ_BUSY_MS}; PRAGMA cell_size_check = ON`);
  const checkpoints = 'SELECT size, root, note, signed_at AS signedAt FROM checkpoints';
  const marks = 'SELECT idx AS "index", before FROM marks';
  return {
    db,
    state: stateReader(db),
    node: nodeReader(db),
    tree: prepareRows(db, 'SELECT size, position, hashes FROM tree'),
    tile: prepareRows<{ hashes: Uint8Array }>(db, 'SELECT hashes FROM tiles WHERE level = ? AND idx = ?'),
    markOfIndex: prepareRows<Mark>(db, `${marks} WHERE idx <= ? ORDER BY idx DESC LIMIT 1`),
    markOfPosition: prepareRows<Mark>(db, `${marks} WHERE before < ? ORDER BY before DESC LIMIT 1`),
    latest: prepareRows<SignedCheckpoint>(db, `${checkpoints} ORDER BY size DESC LIMIT 1`),
    at: prepareRows<SignedCheckpoint>(db, `${checkpoints} WHERE size = ?`),
    from: prepareRows<SignedCheckpoint>(db, `${checkpoints} WHERE size >= ? ORDER BY size LIMIT 1`),
    scrubbed: prepareRows<{ erasures: number }>(db, 'SELECT erasures FROM scrubbed'),
    alarm: prepareRows<{ text: string }>(db, 'SELECT text FROM alarms WHERE lifted_at IS NULL'),
  };
};

type TreeReader = ReturnType<typeof openReader>;

class SqliteTreeStore extends TreeStore {
  #closing: Promise<void> | undefined;

  constructor(
    private readonly file: string,
    private readonly names: FileNames,
    private readonly writer: TreeWriter,
    private readonly reader: TreeReader,
    /** What the writer has found to have happened to a file. */
    private readonly writerFault: () => FileFault | undefined,
  ) {
    super();
  }

  tree(): Promise<StoredTree> {
    return this.#read(({ tree }) => tree.get() as StoredTree);
  }

  async append(growth: TreeGrowth): Promise<void> {
    await this.#write({ kind: 'append', growth });
  }

  state(): Promise<StoredState> {
    return this.readState(({ size, position, trie }) => ({ size, position, root: trie.hash }));
  }

  growState(growth: StateGrowth): Promise<StoredState> {
    const deadlineMs = CALL_DEADLINE_MS + countOfChanges(growth.changes) * CHANGE_MS;
    return this.#write({ kind: 'state', growth }, deadlineMs);
  }

  readState<T>(read: (snapshot: StateSnapshot) => T): Promise<T> {
    return this.#read(({ db, state, node }) =>
      inTransaction(db, 'BEGIN', () => {
        const found = state();
        return read({ ...found, node: nodesOf(node), entries: () => storedEntries(node, found.trie) });
      }),
    );
  }

  tile(level: number, index: number): Promise<Uint8Array> {
    return this.#read(({ tile }) => tile.get(level, index)?.hashes ?? new Uint8Array());
  }

  markOfIndex(index: number): Promise<Mark | undefined> {
    return this.#read(({ markOfIndex }) => markOfIndex.get(index));
  }

  markOfPosition(position: Position): Promise<Mark | undefined> {
    return this.#read(({ markOfPosition }) => markOfPosition.get(position));
  }

  async saveCheckpoint(checkpoint: SignedCheckpoint): Promise<void> {
    await this.#write({ kind: 'save', checkpoint });
  }

  latestCheckpoint(): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ latest }) => latest.get());
  }

  checkpoint(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ at }) => at.get(size));
  }

  checkpointFrom(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ from }) => from.get(size));
  }

  async raise(alarm: Alarm): Promise<void> {
    await this.#write({ kind: 'raise', alarm });
  }

  alarm(): Promise<Alarm | undefined> {
    return this.#read(({ alarm }) => alarmOf(alarm.get()?.text));
  }

  async lift(by: string, reason: string): Promise<Alarm | undefined> {
    const text = await this.#write({ kind: 'lift', by, reason });
    return alarmOf(text);
  }

  async scrub(erasures: number): Promise<void> {
    await this.#write({ kind: 'scrub', erasures }, Infinity);
  }

  scrubbed(): Promise<number> {
    return this.#read(({ scrubbed }) => scrubbed.get()?.erasures ?? 0);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.writerFault()) {
      // The last to be closed would bring a cut write-ahead log into the file. The reader cannot write.
      await this.writer.close();
      this.reader.db.close();
      return;
    }
    this.reader.db.close(); // before the writer, which can then bring everything into the one file
    await this.writer.close();
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async #read<T>(ask: (reader: TreeReader) => T): Promise<T> {
    this.#assertUsable();
    try {
      return ask(this.reader);
    } catch (error) {
      throw treeError(error, this.file);
    }
  }

  async #write<W extends TreeWork>(work: W, deadlineMs?: number): Promise<TreeAnswers[W['kind']]> {
    this.#assertUsable();
    return this.writer.call(work, deadlineMs);
  }

  /** SQLite continues to use deleted files: what is signed then would be lost. */
  #assertUsable(): void {
    if (this.#closing) throw new TreeUnavailable(`the tree in ${this.file} has been closed`);
    const fault = this.writerFault() ?? this.#nameFault();
    if (fault) throw takenAway(this.file, fault);
  }

  #nameFault(): FileFault | undefined {
    try {
      return this.names.fault();
    } catch (error) {
      throw new TreeUnavailable(
        `${this.file} cannot be looked at (${(error as Error).message}): let the user of this process search its folder`,
        { cause: error },
      );
    }
  }
}

const alarmOf = (text: string | undefined): Alarm | undefined =>
  text === undefined ? undefined : (JSON.parse(text) as Alarm);

/**
 * Opens the tree of a log in one SQLite file; the file and its folder are created if missing. Throws TreeUnavailable,
 * in one line that says what to do, also for the tree of another log.
 */
export const openSqliteTreeStore = async (file: string, logIdentity: string): Promise<TreeStore> => {
  createFolder(file, unavailable);
  createFile(file);
  const workerData: TreeWriterData = { file, log: logIdentity };
  let fault: FileFault | undefined;
  const writer: TreeWriter = new WorkerCalls(
    new Worker(new URL('./tree-store.worker.js', import.meta.url), {
      workerData,
      name: 'tree writer',
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    }),
    {
      file,
      maxQueued: Infinity, // one auditor has one call at a time
      unavailable,
      explain: (thrown) => treeError(thrown, file),
      deadlineMs: CALL_DEADLINE_MS,
      onNotice: (found) => {
        fault ??= found;
      },
    },
  );
  let reader: TreeReader | undefined;
  try {
    const identity = await writer.open();
    reader = openReader(file);
    const names = new FileNames(file);
    if (names.identity !== identity)
      throw new TreeUnavailable(`${file} was replaced while it was being opened`);
    return new SqliteTreeStore(file, names, writer, reader, () => fault);
  } catch (error) {
    reader?.db.close();
    await writer.close();
    throw treeError(error, file);
  }
};
