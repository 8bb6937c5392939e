import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { makeFile, makeFolder } from '../../files/new-file.js';
import { type Position } from '../../ports/event-log.js';
import {
  type Alarm,
  AlarmStands,
  type Mark,
  type SignedCheckpoint,
  type StoredTree,
  type TreeGrowth,
  TreeMoved,
  TreeStore,
  TreeUnavailable,
} from '../../ports/tree-store.js';
import {
  BUSY_TIMEOUT_MS,
  type Database,
  DatabaseSync,
  explainSqliteError,
  SQLITE,
  sqliteCode,
} from './database.js';
import { FileNames, type FileFault } from './file-names.js';
import { type Failure, failureOf } from './read-model.js';

/** A call to the writer that is not answered by then has failed: twice what a statement waits for a lock. */
const CALL_DEADLINE_MS = 2 * BUSY_TIMEOUT_MS;

/** Readers of a WAL file hardly ever meet a lock, and this wait holds up the event loop, so it is short. */
const READ_BUSY_MS = 100;

/** What the writer thread does, each in a transaction of its own, in the order in which it was asked. */
export type TreeWork =
  | { readonly kind: 'open' }
  | { readonly kind: 'append'; readonly growth: TreeGrowth }
  | { readonly kind: 'save'; readonly checkpoint: SignedCheckpoint }
  | { readonly kind: 'raise'; readonly alarm: Alarm }
  | { readonly kind: 'lift'; readonly by: string; readonly reason: string }
  | { readonly kind: 'close' };

export interface TreeWriterData {
  readonly file: string;
  readonly log: string;
}

export interface TreeOrder {
  readonly call: number;
  readonly work: TreeWork;
}

export type TreeReply =
  | { readonly call: number; readonly answer: string | undefined }
  | { readonly call: number; readonly failure: Failure }
  /** One of the files was cut. No answer to a call. */
  | { readonly fault: FileFault };

interface Call {
  readonly resolve: (answer: string | undefined) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

const PORT_ERRORS = [TreeUnavailable, TreeMoved, AlarmStands] as const;

/** What to do about a file that cannot be used: it holds signatures that cannot be made again. */
export const keepAdvice = (file: string): string =>
  `keep a copy of ${file}, which holds the checkpoints that were signed, and see docs/audit.md`;

/**
 * That a file was taken away under an open tree, and what to do. Signed checkpoints cannot be made again, so that no new
 * tree is begun by itself.
 */
export const takenAway = (file: string, { path, kind, message }: FileFault): TreeUnavailable =>
  new TreeUnavailable(`${message}, and nothing is signed any more: ${adviceOn(file, path, kind)}`);

const adviceOn = (file: string, path: string, kind: FileFault['kind']): string => {
  if (kind === 'truncated' || kind === 'overwritten')
    return `stop the service, keep copies of ${file} and ${file}-wal, put both back from a backup, or move both aside, for a new tree to be built from the event log (docs/audit.md), then start again`;
  if (path.endsWith('-wal') || path.endsWith('-shm'))
    return `stop the service in order (SIGTERM, not SIGKILL), by which everything that was signed comes into ${file}; move aside what stands at ${path}, then start again`;
  return `keep ${file}-wal; stop the service in order (SIGTERM, not SIGKILL), put ${file} back from where it was moved or from a backup, then start again`;
};

/** Whatever was thrown on the way to the file, as the port's error that it amounts to. */
const explained = (thrown: unknown, file: string): Error => {
  if (thrown instanceof Error && PORT_ERRORS.some((known) => thrown instanceof known)) return thrown;
  const { name, message, errcode } = failureOf(thrown);
  const PortError = PORT_ERRORS.find((known) => known.name === name);
  if (PortError) return new PortError(message);
  const error = Object.assign(new Error(message), { errcode });
  const code = sqliteCode(error);
  if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB)
    return new TreeUnavailable(`${file} is damaged, or no SQLite database: ${keepAdvice(file)}`, {
      cause: error,
    });
  return new TreeUnavailable(explainSqliteError(error, file), { cause: error });
};

/** The thread that writes: no fsync of a checkpoint holds up the event loop. */
class TreeWriter {
  readonly #file: string;
  readonly #worker: Worker;
  readonly #calls = new Map<number, Call>();
  readonly #exited: Promise<void>;
  #lastCall = 0;
  #death: TreeUnavailable | undefined;
  #fault: FileFault | undefined;

  constructor(data: TreeWriterData) {
    this.#file = data.file;
    this.#worker = new Worker(new URL('./tree-store.worker.js', import.meta.url), {
      workerData: data,
      name: 'tree writer',
    });
    this.#worker.on('message', (reply: TreeReply) => {
      this.#settle(reply);
    });
    this.#worker.on('error', (error) => {
      this.#die(error.message);
    });
    this.#exited = new Promise((resolve) => {
      this.#worker.once('exit', (code) => {
        this.#die(`exit code ${code}`);
        resolve();
      });
    });
  }

  /** That a file was cut, as the thread has found. */
  get fault(): FileFault | undefined {
    return this.#fault;
  }

  call(work: TreeWork): Promise<string | undefined> {
    if (this.#death) return Promise.reject(this.#death);
    return new Promise((resolve, reject) => {
      const call = ++this.#lastCall;
      const timer = setTimeout(() => {
        reject(new TreeUnavailable(`${this.#file}: no answer within ${CALL_DEADLINE_MS} ms`));
      }, CALL_DEADLINE_MS);
      this.#calls.set(call, { resolve, reject, timer });
      this.#worker.postMessage({ call, work } satisfies TreeOrder);
    });
  }

  /** Ends the thread once it has done what was asked of it before; gives up waiting at the deadline. */
  async close(): Promise<void> {
    try {
      await this.call({ kind: 'close' });
    } catch {
      // Ending a thread that hangs inside SQLite would take the process with it. It ends when the disk is back.
      if (!this.#death) {
        this.#worker.unref();
        return;
      }
    }
    await this.#exited;
  }

  #settle(reply: TreeReply): void {
    if ('fault' in reply) {
      this.#fault = reply.fault;
      return;
    }
    const call = this.#calls.get(reply.call);
    this.#calls.delete(reply.call);
    if (!call) return;
    clearTimeout(call.timer);
    if ('failure' in reply) call.reject(explained(reply.failure, this.#file));
    else call.resolve(reply.answer);
  }

  #die(reason: string): void {
    this.#death ??= new TreeUnavailable(`${this.#file}: its writer thread died (${reason})`);
    for (const { reject, timer } of this.#calls.values()) {
      clearTimeout(timer);
      reject(this.#death);
    }
    this.#calls.clear();
  }
}

/** The read-only connection of the calling thread. Its methods throw whatever SQLite does. */
class TreeReader {
  readonly #db: Database;
  readonly #get;

  constructor(file: string) {
    this.#db = new DatabaseSync(file, { readOnly: true });
    this.#db.exec(`PRAGMA busy_timeout = ${READ_BUSY_MS}; PRAGMA cell_size_check = ON`);
    const prepared = (sql: string) => {
      const statement = this.#db.prepare(sql);
      return (...values: (string | number)[]): unknown => statement.get(...values);
    };
    const checkpoints = 'SELECT size, root, note, signed_at AS signedAt FROM checkpoints';
    this.#get = {
      tree: prepared('SELECT size, position, hashes FROM tree'),
      tile: prepared('SELECT hashes FROM tiles WHERE level = ? AND idx = ?'),
      markOfIndex: prepared(
        'SELECT idx AS "index", before FROM marks WHERE idx <= ? ORDER BY idx DESC LIMIT 1',
      ),
      markOfPosition: prepared(
        'SELECT idx AS "index", before FROM marks WHERE before < ? ORDER BY before DESC LIMIT 1',
      ),
      latest: prepared(`${checkpoints} ORDER BY size DESC LIMIT 1`),
      at: prepared(`${checkpoints} WHERE size = ?`),
      from: prepared(`${checkpoints} WHERE size >= ? ORDER BY size LIMIT 1`),
      alarm: prepared('SELECT text FROM alarms WHERE lifted_at IS NULL'),
    };
  }

  tree(): StoredTree {
    return this.#get.tree() as StoredTree;
  }

  tile(level: number, index: number): Uint8Array {
    return (this.#get.tile(level, index) as { hashes: Uint8Array } | undefined)?.hashes ?? new Uint8Array();
  }

  markOfIndex(index: number): Mark | undefined {
    return this.#get.markOfIndex(index) as Mark | undefined;
  }

  markOfPosition(position: Position): Mark | undefined {
    return this.#get.markOfPosition(position) as Mark | undefined;
  }

  latestCheckpoint(): SignedCheckpoint | undefined {
    return this.#get.latest() as SignedCheckpoint | undefined;
  }

  checkpoint(size: number): SignedCheckpoint | undefined {
    return this.#get.at(size) as SignedCheckpoint | undefined;
  }

  checkpointFrom(size: number): SignedCheckpoint | undefined {
    return this.#get.from(size) as SignedCheckpoint | undefined;
  }

  alarm(): Alarm | undefined {
    const row = this.#get.alarm() as { text: string } | undefined;
    return row && (JSON.parse(row.text) as Alarm);
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }
}

class SqliteTreeStore extends TreeStore {
  #closing: Promise<void> | undefined;

  constructor(
    private readonly file: string,
    private readonly names: FileNames,
    private readonly writer: TreeWriter,
    private readonly reader: TreeReader,
  ) {
    super();
  }

  tree(): Promise<StoredTree> {
    return this.#read((reader) => reader.tree());
  }

  async append(growth: TreeGrowth): Promise<void> {
    await this.#write({ kind: 'append', growth });
  }

  tile(level: number, index: number): Promise<Uint8Array> {
    return this.#read((reader) => reader.tile(level, index));
  }

  markOfIndex(index: number): Promise<Mark | undefined> {
    return this.#read((reader) => reader.markOfIndex(index));
  }

  markOfPosition(position: Position): Promise<Mark | undefined> {
    return this.#read((reader) => reader.markOfPosition(position));
  }

  async saveCheckpoint(checkpoint: SignedCheckpoint): Promise<void> {
    await this.#write({ kind: 'save', checkpoint });
  }

  latestCheckpoint(): Promise<SignedCheckpoint | undefined> {
    return this.#read((reader) => reader.latestCheckpoint());
  }

  checkpoint(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read((reader) => reader.checkpoint(size));
  }

  checkpointFrom(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read((reader) => reader.checkpointFrom(size));
  }

  async raise(alarm: Alarm): Promise<void> {
    await this.#write({ kind: 'raise', alarm });
  }

  alarm(): Promise<Alarm | undefined> {
    return this.#read((reader) => reader.alarm());
  }

  async lift(by: string, reason: string): Promise<Alarm | undefined> {
    const text = await this.#write({ kind: 'lift', by, reason });
    return text === undefined ? undefined : (JSON.parse(text) as Alarm);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.writer.fault) {
      // The last to be closed would bring a cut write-ahead log into the file. The reader cannot write.
      await this.writer.close();
      this.reader.close();
      return;
    }
    this.reader.close(); // before the writer, which can then bring everything into the one file
    await this.writer.close();
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async #read<T>(ask: (reader: TreeReader) => T): Promise<T> {
    this.#assertUsable();
    try {
      return ask(this.reader);
    } catch (error) {
      throw explained(error, this.file);
    }
  }

  async #write(work: TreeWork): Promise<string | undefined> {
    this.#assertUsable();
    return this.writer.call(work);
  }

  /** SQLite goes on with files that were deleted: what is signed then would be lost without a trace. */
  #assertUsable(): void {
    if (this.#closing) throw new TreeUnavailable(`the tree in ${this.file} has been closed`);
    const fault = this.writer.fault ?? this.#nameFault();
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

const createFile = (file: string): void => {
  const folder = dirname(file);
  try {
    makeFolder(folder);
  } catch (error) {
    throw new TreeUnavailable(`the folder ${folder} cannot be made: ${(error as Error).message}`);
  }
  try {
    makeFile(file);
  } catch {
    // It is there, or SQLite says better what is wrong.
  }
};

/**
 * The tree of the log with that identity in one SQLite file; the file and its folder are made if missing. Throws
 * TreeUnavailable, in one line that says what to do, where the file cannot be used or is of another log.
 */
export const openSqliteTreeStore = async (file: string, logIdentity: string): Promise<TreeStore> => {
  createFile(file);
  const writer = new TreeWriter({ file, log: logIdentity });
  let reader: TreeReader | undefined;
  try {
    const identity = await writer.call({ kind: 'open' });
    reader = new TreeReader(file);
    const names = new FileNames(file);
    if (names.identity !== identity)
      throw new TreeUnavailable(`${file} was replaced while it was being opened`);
    return new SqliteTreeStore(file, names, writer, reader);
  } catch (error) {
    reader?.close();
    await writer.close();
    throw explained(error, file);
  }
};
