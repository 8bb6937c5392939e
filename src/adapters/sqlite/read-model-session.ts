import { Worker } from 'node:worker_threads';
import { monotonicMs } from '../../async/runtime.js';
import {
  type Generation,
  type LongPage,
  type PartitionChanges,
  ReadModelUnavailable,
} from '../../ports/read-model.js';
import { SQLITE, sqliteCode } from './database.js';
import { DirectApplies } from './direct-applies.js';
import { FileNames, type FileFault } from './file-names.js';
import { createFile } from './open-file.js';
import { ReadModelReader } from './read-model-reader.js';
import {
  type Answers,
  type Applied,
  readModelError,
  takenAway,
  unavailable,
  type Work,
  type WriterData,
} from './read-model-work.js';
import { CALL_DEADLINE_MS, WorkerCalls } from './worker-call.js';

/**
 * The most calls in the writer's queue: a projector has one apply at a time, so that more mean a disk that hangs, and
 * each may hold 500 rows.
 */
const MAX_QUEUED = 64;

/**
 * Time between two examinations of the files' names, in milliseconds. Meanwhile lists may come from removed files: they
 * are right, as nothing else is written there, and none is older than what its client has seen.
 */
const LOOK_EVERY_MS = 100;

type Writer = WorkerCalls<Work, Answers, string, FileFault>;

/** The connections to one file, until it is closed or taken away, or its writer dies. */
export class ReadModelSession {
  /** Once a damaged page was found, no list is trusted: rows may be missing. */
  #damage: Error | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  /** The last long list, after which the next one begins. Never rejects. */
  #lastLongList: Promise<unknown> = Promise.resolve();
  /** When it was opened, in milliseconds of `monotonicMs()`. */
  readonly since = monotonicMs();
  #fault: FileFault | undefined;
  #lookedAt = -Infinity;

  private constructor(
    private readonly file: string,
    readonly names: FileNames,
    private readonly writer: Writer,
    private readonly reader: ReadModelReader,
    private readonly direct: DirectApplies,
    /** For long lists, one at a time, each in one transaction. */
    private readonly longReader: ReadModelReader,
    /** What the writer has found to have happened to a file. */
    private readonly writerFault: () => FileFault | undefined,
  ) {}

  /** `onFault` is called where a file is taken away between calls. */
  static async open(data: WriterData, onFault: () => void): Promise<ReadModelSession> {
    const { file } = data;
    createFile(file);
    let fault: FileFault | undefined;
    const writer: Writer = new WorkerCalls(
      new Worker(new URL('./read-model.worker.js', import.meta.url), {
        workerData: data,
        name: 'read model writer',
      }),
      {
        file,
        maxQueued: MAX_QUEUED,
        unavailable,
        explain: (thrown) => readModelError(thrown, file),
        deadlineMs: CALL_DEADLINE_MS,
        onNotice: (found) => {
          fault ??= found;
          onFault();
        },
      },
    );
    const opened: { close: () => void }[] = [];
    try {
      const identity = await writer.open();
      const open = <C extends { close: () => void }>(connection: C): C => (
        opened.push(connection),
        connection
      );
      const [reader, longReader] = [open(new ReadModelReader(data)), open(new ReadModelReader(data))];
      const direct = open(new DirectApplies(data));
      const names = new FileNames(file);
      if (names.identity !== identity)
        throw new ReadModelUnavailable(`${file} was replaced while it was being opened`);
      const session = new ReadModelSession(file, names, writer, reader, direct, longReader, () => fault);
      session.#sweeping = session.#sweep();
      return session;
    } catch (error) {
      for (const connection of opened) connection.close();
      await writer.close();
      throw readModelError(error, file);
    }
  }

  /** Whether the writer lives and no fault of the files is known. */
  get isCurrent(): boolean {
    return this.writer.isAlive && !this.fault;
  }

  /** The fault of one of its files, after which no call succeeds. */
  get fault(): FileFault | undefined {
    return this.#fault ?? this.writerFault();
  }

  read<T>(ask: (reader: ReadModelReader) => T): T {
    try {
      if (this.#damage) throw this.#damage;
      const answer = ask(this.reader);
      this.#assertSameFiles();
      return answer;
    } catch (error) {
      throw this.#readFailure(error);
    }
  }

  async longList(...of: Parameters<ReadModelReader['longList']>): Promise<LongPage> {
    const reading = this.#lastLongList.then(() => this.longReader.longList(...of));
    this.#lastLongList = reading.catch(() => undefined);
    try {
      const page = await reading;
      if (this.#damage) throw this.#damage;
      this.#assertSameFiles();
      return page;
    } catch (error) {
      throw this.#readFailure(error);
    }
  }

  async write<W extends Work>(work: W, deadlineMs?: number): Promise<Answers[W['kind']]> {
    try {
      if (this.#damage) throw this.#damage;
      return await this.writer.call(work, deadlineMs);
    } catch (error) {
      throw this.#reasonOf(error as Error);
    }
  }

  /** As ReadModel.apply: few changes at once, others by the writer thread. */
  async apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Applied> {
    if (this.#damage) throw this.#damage;
    const { isIdle } = this.writer;
    if (this.direct.checkpointDue(partitions))
      this.writer.call({ kind: 'checkpoint' }).catch(() => undefined); // the thread's next call fails as well
    else if (isIdle) {
      const applied = this.direct.apply(generation, partitions);
      if (applied) {
        this.#assertUntouched();
        return applied;
      }
    }
    return this.write({ kind: 'apply', generation, partitions });
  }

  async end(): Promise<void> {
    this.direct.close();
    this.longReader.close();
    this.reader.close(); // before the writer, which can then bring everything into the one file
    await this.writer.close();
    await this.#sweeping;
  }

  /** Removes what is left of generations whose drop was interrupted. */
  async #sweep(): Promise<void> {
    try {
      while (!(await this.writer.call({ kind: 'sweep' })));
    } catch {
      // What is left is invisible; the next drop or open removes it.
    }
  }

  /** Called after a read: files that are unchanged now were so when they were read. */
  #assertSameFiles(): void {
    if (monotonicMs() - this.#lookedAt > LOOK_EVERY_MS) this.#look();
    if (this.fault) throw takenAway(this.fault);
  }

  /** Called after a direct apply: what was written into files that were taken away is lost. */
  #assertUntouched(): void {
    try {
      this.#look();
    } catch (error) {
      throw readModelError(error, this.file);
    }
    if (this.fault) throw takenAway(this.fault);
  }

  #readFailure(error: unknown): Error {
    const known = readModelError(error, this.file);
    return this.#reasonOf(
      sqliteCode(known.cause) === SQLITE.BUSY
        ? new ReadModelUnavailable(`${this.file} is locked by another process`, { cause: known.cause })
        : known,
    );
  }

  /** Throws an error of the file system. */
  #look(): void {
    this.#fault ??= this.names.fault();
    this.#lookedAt = monotonicMs();
  }

  /** The reason of a failed call: a fault of the files explains all other errors. */
  #reasonOf(error: Error): Error {
    try {
      this.#look();
    } catch (cause) {
      return readModelError(cause, this.file);
    }
    if (this.fault) return takenAway(this.fault);
    const code = error instanceof ReadModelUnavailable ? sqliteCode(error.cause) : undefined;
    if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB) this.#damage = error;
    return error;
  }
}
