import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { monotonicMs } from '../../async/runtime.js';
import { decodeOwner } from '../../plants/stream.js';
import { type Report } from '../../ports/coordination.js';
import { type Position, START } from '../../ports/event-log.js';
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
 * Pause after a failed open, in milliseconds: each attempt starts a thread. After a file was taken away all processes
 * must have closed it, so that none shares the old write-ahead log's index with the new one: longer than each takes to
 * notice.
 */
const REOPEN_AFTER_MS = 1_000;

/** Owners of one step, each looked up in the index: two milliseconds of the event loop. */
const OWNERS_AT_ONCE = 300;

class SqliteReadModel extends ReadModel implements ReadModelStore {
  readonly #data: WriterData;
  readonly #waiters = new Waiters(
    (partitions) => this.#read((reader) => reader.activePositions(partitions)),
    BUSY_POLL_MS,
  );
  /** Resolves at the end of this turn of the event loop, where lists wait for it. */
  #turn: Promise<void> | undefined;
  #session: ReadModelSession | undefined;
  #opening: Promise<ReadModelSession> | undefined;
  #refusal: { readonly error: unknown; readonly until: number } | undefined;
  #closing: Promise<void> | undefined;
  /** Of the last session. */
  #names: FileNames | undefined;

  constructor(
    data: WriterData,
    private readonly onWarning: (message: string) => void,
  ) {
    super();
    this.#data = data;
  }

  async open(): Promise<void> {
    // Only now: a folder that was moved later could not be put back if it were created again.
    createFolder(this.#data.file, unavailable);
    await this.#current();
  }

  get steadySince(): number {
    return this.#session?.since ?? monotonicMs();
  }

  async generations(): Promise<GenerationInfo[]> {
    const session = await this.#current();
    const { dev, ino } = session.names.database.seen; // a new file gives numbers again
    const generations = session.read((reader) => reader.generations());
    return generations.map((one) => ({ ...one, key: `${one.generation} in ${dev}:${ino}` }));
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
    // Each step queues behind applies that were called meanwhile.
    while (!(await this.#write({ kind: 'sweep' })));
  }

  async sync(): Promise<void> {
    await this.#write({ kind: 'sync' });
  }

  async scrub(): Promise<void> {
    await this.#write({ kind: 'scrub' }, Infinity);
  }

  positions(generation: Generation): Promise<Position[]> {
    return this.#read((reader) => reader.positions(generation));
  }

  async apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]> {
    const { positions, active } = await (await this.#current()).apply(generation, partitions);
    if (active)
      this.#waiters.committed(
        new Map(partitions.map(({ partition }, index) => [partition, positions[index] ?? START])),
      );
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

  /** All lists of a turn of the event loop share one read of the positions, at its end. */
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
      // The next step begins with the last one.
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
    await this.#opening?.catch(() => undefined); // its callers have the error
    await this.#session?.end();
  }

  async #read<T>(ask: (reader: ReadModelReader) => T): Promise<T> {
    return (await this.#current()).read(ask);
  }

  async #write<W extends Work>(work: W, deadlineMs?: number): Promise<Answers[W['kind']]> {
    return (await this.#current()).write(work, deadlineMs);
  }

  /** The current session; a new one after a file was taken away or the writer died. */
  async #current(): Promise<ReadModelSession> {
    if (this.#closing) throw closed(this.#data.file);
    if (this.#session?.isCurrent) return this.#session;
    if (this.#refusal && monotonicMs() < this.#refusal.until) throw this.#refusal.error;
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
        this.#current().catch(() => undefined); // the next caller has the error
      });
      this.#names = this.#session.names;
      return this.#session;
    } catch (error) {
      this.#refusal = {
        error: readModelError(error, this.#data.file),
        until: monotonicMs() + REOPEN_AFTER_MS,
      };
      throw this.#refusal.error;
    } finally {
      this.#opening = undefined;
    }
  }

  /** Sets the remaining files aside after one was taken away, and returns the error for the callers. */
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
 * Opens the read model of a log in one SQLite file; the file and its folder are created if missing. Generations of
 * another log in the file are ignored and kept: another process may be using them. Where one of the files is taken
 * away, the rest is set aside and an empty read model is created; `onWarning` receives one line about it. Throws
 * ReadModelUnavailable, in one line that says what to do.
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
