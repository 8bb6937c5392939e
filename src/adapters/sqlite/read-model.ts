import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { decodeOwner } from '../../plants/stream.js';
import { type Report } from '../../ports/coordination.js';
import { type Position } from '../../ports/event-log.js';
import { type GenerationInfo } from '../../ports/generations.js';
import {
  type Generation,
  type Healing,
  type LongPage,
  type Page,
  type ParkedOwner,
  type PartitionChanges,
  ReadModel,
  ReadModelTampered,
  ReadModelUnavailable,
} from '../../ports/read-model.js';
import { type ReadModelStore } from '../../ports/read-model-store.js';
import { BUSY_POLL_MS, Waiters } from '../waiters.js';
import { type FileNames, type FileFault } from './file-names.js';
import { createFolder } from './open-file.js';
import { PARKED_AT_ONCE, parkedOwnerOf, type ParkedRow, type ReadModelReader } from './read-model-reader.js';
import { ReadModelSession } from './read-model-session.js';
import { type Answers, readModelError, unavailable, type Work, type WriterData } from './read-model-work.js';
import { setAside } from './set-aside.js';

/**
 * A failed open is not tried again before, in milliseconds: each try starts a thread, and callers come hundreds a
 * second. After a file was taken away, all processes that had it open must have closed it, so that none shares the
 * index of the old write-ahead log with the new one: longer than each of them takes to notice.
 */
const REOPEN_AFTER_MS = 1_000;

/** Owners that one step looks up, each by its own way down the tree: the event loop waits for two milliseconds. */
const OWNERS_AT_ONCE = 300;

class SqliteReadModel extends ReadModel implements ReadModelStore {
  readonly #data: WriterData;
  readonly #waiters = new Waiters(
    (partitions) => this.#read((reader) => reader.activePositions(partitions)),
    BUSY_POLL_MS,
  );
  /** The end of the present turn of the event loop, where lists wait for it. */
  #turn: Promise<void> | undefined;
  #session: ReadModelSession | undefined;
  #opening: Promise<ReadModelSession> | undefined;
  #refusal: { readonly error: unknown; readonly until: number } | undefined;
  #closing: Promise<void> | undefined;
  /** Those of the last session. */
  #names: FileNames | undefined;

  constructor(
    data: WriterData,
    private readonly onWarning: (message: string) => void,
  ) {
    super();
    this.#data = data;
  }

  async open(): Promise<void> {
    // Not when it is opened again: a folder that was moved could not be put back then.
    createFolder(this.#data.file, unavailable);
    await this.#current();
  }

  get steadySince(): number {
    return this.#session?.since ?? performance.now();
  }

  generations(): Promise<GenerationInfo[]> {
    return this.#read((reader) => reader.generations());
  }

  createGeneration(): Promise<Generation> {
    return this.#write({ kind: 'create' });
  }

  async promote(generation: Generation, replaces?: Generation | 'none', logEnd?: Position): Promise<void> {
    await this.#write({ kind: 'promote', generation, replaces, logEnd });
    this.#waiters.wake();
  }

  async drop(generation: Generation): Promise<void> {
    await this.#write({ kind: 'drop', generation });
    // Each step queues up behind the applies that came meanwhile.
    while (!(await this.#write({ kind: 'sweep' })));
  }

  positions(generation: Generation): Promise<Position[]> {
    return this.#read((reader) => reader.positions(generation));
  }

  async apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]> {
    const positions = await this.#write({ kind: 'apply', generation, partitions });
    this.#waiters.wake();
    return positions;
  }

  async heal(generation: Generation, healing: Healing): Promise<boolean> {
    return this.#write({ kind: 'heal', generation, healing });
  }

  countParked(generation: Generation): Promise<number> {
    return this.#read((reader) => reader.countParked(generation));
  }

  async *parked(generation: Generation): AsyncGenerator<ParkedOwner, void, undefined> {
    let after: { readonly partition: number; readonly owner: string } | undefined = {
      partition: -1,
      owner: '',
    };
    while (after) {
      const from: { readonly partition: number; readonly owner: string } = after;
      const found: ParkedRow[] = await this.#read((reader) => reader.parked(generation, from));
      after = found[PARKED_AT_ONCE - 1];
      for (const row of found) {
        const owner = decodeOwner(row.owner);
        if (owner !== undefined) yield parkedOwnerOf(row, owner);
      }
      await nextTurn();
    }
  }

  /** All lists that came in the same turn of the event loop look together, once they are all there. */
  async list(owner: string, after: number | undefined, limit: number): Promise<Page> {
    this.#turn ??= nextTurn().then(async () => {
      this.#turn = undefined;
      await this.#read((reader) => {
        reader.lookAnew();
      });
    });
    await this.#turn;
    return this.#read((reader) => reader.list(owner, after, limit));
  }

  async longList(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    return (await this.#current()).longList(owner, after, limit);
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Promise<Page> {
    return this.#read((reader) => reader.page(generation, owner, after, limit));
  }

  async *owners(generation: Generation): AsyncGenerator<string, void, undefined> {
    let from: string | undefined = '';
    while (from !== undefined) {
      const first: string = from;
      const found: string[] = await this.#read((reader) =>
        reader.owners(generation, first, OWNERS_AT_ONCE + 1),
      );
      // One too many: the next step begins with it.
      from = found[OWNERS_AT_ONCE];
      for (const encoded of found.slice(0, OWNERS_AT_ONCE)) {
        const owner = decodeOwner(encoded);
        if (owner === undefined)
          throw new ReadModelTampered(
            `generation ${generation} in ${this.#data.file} has plants of ${JSON.stringify(encoded)}, which stands for no owner: somebody else has written them; a rebuild makes it good`,
          );
        yield owner;
      }
      await nextTurn();
    }
  }

  reached(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    return this.#waiters.wait(partition, position, signal);
  }

  takeLease(holder: string, forMs: number): Promise<boolean> {
    return this.#write({ kind: 'takeLease', holder, forMs });
  }

  async returnLease(holder: string): Promise<void> {
    await this.#write({ kind: 'returnLease', holder });
  }

  async report(process: string, text: string, forMs: number): Promise<void> {
    await this.#write({ kind: 'report', process, text, forMs });
  }

  reports(): Promise<Report[]> {
    return this.#read((reader) => reader.reports());
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#waiters.close(closed(this.#data.file));
    await this.#opening?.catch(() => undefined); // its callers are told
    await this.#session?.end();
  }

  async #read<T>(ask: (reader: ReadModelReader) => T): Promise<T> {
    return (await this.#current()).read(ask);
  }

  async #write<W extends Work>(work: W): Promise<Answers[W['kind']]> {
    return (await this.#current()).write(work);
  }

  /** The session with the files that stand there now; a new one where they were taken away or its writer died. */
  async #current(): Promise<ReadModelSession> {
    if (this.#closing) throw closed(this.#data.file);
    if (this.#session?.isCurrent) return this.#session;
    if (this.#refusal && performance.now() < this.#refusal.until) throw this.#refusal.error;
    this.#opening ??= this.#reopen();
    return this.#opening;
  }

  async #reopen(): Promise<ReadModelSession> {
    try {
      const last = this.#session;
      this.#session = undefined;
      await last?.end();
      if (last?.fault) throw this.#setAside(last.names, last.fault);
      if (this.#names?.folderIsAnother()) throw this.#lacksFolder();
      this.#session = await ReadModelSession.open(this.#data, () => {
        this.#current().catch(() => undefined); // whoever asks next is told
      });
      this.#names = this.#session.names;
      return this.#session;
    } catch (error) {
      this.#refusal = {
        error: readModelError(error, this.#data.file),
        until: performance.now() + REOPEN_AFTER_MS,
      };
      throw this.#refusal.error;
    } finally {
      this.#opening = undefined;
    }
  }

  /** Why nothing is answered, and what becomes of the files, of which one was taken away. */
  #setAside(names: FileNames, fault: FileFault): ReadModelUnavailable {
    if (names.folderIsAnother()) return this.#lacksFolder();
    const message = setAside(this.#data.file, names, fault);
    this.onWarning(message);
    return new ReadModelUnavailable(message);
  }

  #lacksFolder(): ReadModelUnavailable {
    return new ReadModelUnavailable(
      `the folder ${dirname(this.#data.file)} was moved or removed, or another file system was mounted over it: put it back, and lists are answered again, or start the service again, which makes a new one`,
    );
  }
}

const closed = (file: string): ReadModelUnavailable =>
  new ReadModelUnavailable(`the read model in ${file} has been closed`);

/**
 * The read model in one SQLite file, for the log with that identity; the file and its folder are made if missing.
 *
 * Generations of another log may stand in the same file. They are ignored and left alone: another process, set
 * to that log, may be answering lists from them. To be rid of them, delete the file while nothing runs.
 *
 * Where one of its files is taken away while it is open, what is left is set aside and a new one is made, which is to
 * be filled from the log; `onWarning` is told so in one line.
 *
 * Throws ReadModelUnavailable, in one line that says what to do, where the file cannot be used.
 */
export const openSqliteReadModel = async (
  file: string,
  logIdentity: string,
  onWarning: (message: string) => void = () => undefined,
): Promise<ReadModelStore> => {
  const model = new SqliteReadModel({ file, log: logIdentity }, onWarning);
  await model.open();
  return model;
};
