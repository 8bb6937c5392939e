import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { makeFile, makeFolder } from '../../files/new-file.js';
import { decodeOwner, encodeOwner } from '../../plants/stream.js';
import { type Position } from '../../ports/event-log.js';
import { type Report } from '../../ports/coordination.js';
import { type GenerationInfo, ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import {
  type Generation,
  type Healing,
  type LongPage,
  type Page,
  type ParkedOwner,
  type PartitionChanges,
  GenerationMissing,
  OwnerParked,
  PARTITIONS,
  ReadModel,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
  partitionOf,
} from '../../ports/read-model.js';
import { type ReadModelStore } from '../../ports/read-model-store.js';
import { PageCache } from '../page-cache.js';
import { BUSY_POLL_MS, Waiters } from '../waiters.js';
import {
  type Database,
  BUSY_TIMEOUT_MS,
  DatabaseSync,
  SQLITE,
  explainSqliteError,
  prepareColumns,
  sqliteCode,
} from './database.js';
import { FileNames, type FileFault } from './file-names.js';
import { PLANT_TEXTS, plantTextsOf, readLongList } from './long-list.js';
import { setAside } from './set-aside.js';

/** A call to the writer that is not answered by then has failed: twice what a statement waits for a lock. */
const CALL_DEADLINE_MS = 2 * BUSY_TIMEOUT_MS;

/**
 * More calls than this do not wait for the writer: a projector has one apply at a time, so that a longer queue
 * means a disk that hangs, and every entry may hold 500 rows.
 */
const MAX_QUEUED = 64;

/**
 * A failed open is not tried again before, in milliseconds: each try starts a thread, and callers come hundreds a
 * second. After a file was taken away, all processes that had it open must have closed it, so that none shares the
 * index of the old write-ahead log with the new one: longer than each of them takes to notice.
 */
const REOPEN_AFTER_MS = 1_000;

/** Readers of a WAL file hardly ever meet a lock, and this wait holds up the event loop, so it is short. */
const READ_BUSY_MS = 100;

/** Owners that one step looks up, each by its own way down the tree: the event loop waits for two milliseconds. */
const OWNERS_AT_ONCE = 300;

/** Parked owners that one step reads. */
const PARKED_AT_ONCE = 300;

/**
 * How often it is looked whether other files stand at the names, in milliseconds. Until then lists are answered from
 * those that were removed: they are right, for nothing else is written to them, and none is older than what its client
 * has seen.
 */
const LOOK_EVERY_MS = 100;

/** Less than every safe integer. */
const BEFORE_ALL_IDS = Number.MIN_SAFE_INTEGER - 1;

/** What the writer thread does, each in a transaction of its own, in the order in which it was asked. */
export type Work =
  | { readonly kind: 'open' }
  | { readonly kind: 'create' }
  | {
      readonly kind: 'promote';
      readonly generation: Generation;
      readonly replaces: Generation | 'none' | undefined;
      readonly logEnd: Position | undefined;
    }
  | { readonly kind: 'drop'; readonly generation: Generation }
  | { readonly kind: 'sweep' }
  | {
      readonly kind: 'apply';
      readonly generation: Generation;
      readonly partitions: readonly PartitionChanges[];
    }
  | { readonly kind: 'heal'; readonly generation: Generation; readonly healing: Healing }
  | { readonly kind: 'takeLease'; readonly holder: string; readonly forMs: number }
  | { readonly kind: 'returnLease'; readonly holder: string }
  | {
      readonly kind: 'report';
      readonly process: string;
      readonly text: string;
      readonly forMs: number;
    }
  | { readonly kind: 'close' };

/** What each kind of work answers with. */
export interface Answers {
  /** The identity of the files that the writer has open. */
  readonly open: string;
  readonly create: Generation;
  readonly promote: undefined;
  readonly drop: undefined;
  /** Whether nothing is left of dropped generations. */
  readonly sweep: boolean;
  readonly apply: Position[];
  readonly heal: boolean;
  readonly takeLease: boolean;
  readonly returnLease: undefined;
  readonly report: undefined;
  readonly close: undefined;
}

export interface WriterData {
  readonly file: string;
  readonly log: string;
}

/** `deadline`, of the monotonic clock that all threads share: work that nobody waits for any more is not begun. */
export interface Order {
  readonly call: number;
  readonly deadline: bigint;
  readonly work: Work;
}

/** What was thrown, as plain data: between threads, and from native code, an error loses its class. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly errcode: number | undefined;
}

export type Reply =
  | { readonly call: number; readonly answer: Answers[keyof Answers] }
  | { readonly call: number; readonly failure: Failure }
  /** One of the files was taken away: nothing is written any more. Said once, before the call fails that has found it. */
  | { readonly fault: FileFault };

/** That a file was taken away under an open read model. */
export const takenAway = ({ message }: FileFault): ReadModelUnavailable =>
  new ReadModelUnavailable(`${message}: the lists are built anew from the event log`);

/** What to do about a file of ours that cannot be used. It is never deleted by itself: it may be a mix-up. */
export const rebuildAdvice = (file: string): string =>
  `stop the service and delete ${file} (and ${file}-wal, ${file}-shm): it is rebuilt from the log`;

const PORT_ERRORS = [
  ReadModelUnavailable,
  ReadModelIncomplete,
  ActiveChanged,
  GenerationMissing,
  GenerationActive,
  NotAsFar,
] as const;

export const failureOf = (thrown: unknown): Failure => {
  const { name = '', message = String(thrown), errcode } = Object(thrown) as Partial<Failure>;
  return { name, message, errcode };
};

/** Whatever was thrown on the way to the file, as the port's error that it amounts to. */
const explained = (thrown: unknown, file: string): Error => {
  if (thrown instanceof OwnerParked) return thrown;
  if (thrown instanceof Error && PORT_ERRORS.some((known) => thrown instanceof known)) return thrown;
  const { name, message, errcode } = failureOf(thrown);
  const PortError = PORT_ERRORS.find((known) => known.name === name);
  if (PortError) return new PortError(message);
  const error = Object.assign(new Error(message), { errcode });
  switch (sqliteCode(error)) {
    case SQLITE.CORRUPT:
      return new ReadModelUnavailable(`${file} is damaged: ${rebuildAdvice(file)}`, { cause: error });
    case SQLITE.NOTADB:
      return new ReadModelUnavailable(
        `${file} is not an SQLite database: let READ_MODEL name another file; or, if it was this read model, ${rebuildAdvice(file)}`,
        { cause: error },
      );
    default:
      return new ReadModelUnavailable(explainSqliteError(error, file), { cause: error });
  }
};

/** Makes the file, which holds what owners keep to themselves, where it is missing. */
const createFile = (file: string): void => {
  try {
    makeFile(file);
  } catch {
    // It is there, or SQLite says better what is wrong.
  }
};

/** Not when the file is opened again: a folder that was moved away could not be put back then. */
const createFolder = (folder: string): void => {
  try {
    makeFolder(folder);
  } catch (error) {
    throw new ReadModelUnavailable(`the folder ${folder} cannot be made: ${(error as Error).message}`);
  }
};

interface Call {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

/** The thread that writes: neither a big apply nor the fsync of a checkpoint holds up the event loop. */
class Writer {
  readonly #file: string;
  readonly #worker: Worker;
  /** Calls that the thread has not answered, those whose caller has given up included. */
  readonly #calls = new Map<number, Call>();
  readonly #exited: Promise<void>;
  #lastCall = 0;
  #death: ReadModelUnavailable | undefined;
  #fault: FileFault | undefined;

  /** `onFault` is called when the thread finds that one of the files was taken away. */
  constructor(
    data: WriterData,
    private readonly onFault: () => void,
  ) {
    this.#file = data.file;
    this.#worker = new Worker(new URL('./read-model.worker.js', import.meta.url), {
      workerData: data,
      name: 'read model writer',
    });
    this.#worker.on('message', (reply: Reply) => {
      this.#settle(reply);
    });
    this.#worker.on('error', (error) => {
      this.#die(error);
    });
    this.#exited = new Promise((resolve) => {
      this.#worker.once('exit', (code) => {
        this.#die(new Error(`exit code ${code}`));
        resolve();
      });
    });
  }

  get isAlive(): boolean {
    return !this.#death;
  }

  /** What the thread has found to have happened to one of the files. */
  get fault(): FileFault | undefined {
    return this.#fault;
  }

  async call<W extends Work>(work: W): Promise<Answers[W['kind']]> {
    if (this.#calls.size >= MAX_QUEUED)
      throw new ReadModelUnavailable(`${this.#file}: ${MAX_QUEUED} writes are waiting for the disk already`);
    return this.#post(work);
  }

  /** Ends the thread once it has done what was asked of it before; gives up waiting at the deadline. */
  async close(): Promise<void> {
    try {
      await this.#post({ kind: 'close' });
    } catch {
      // Ending a thread that hangs inside SQLite would take the process with it. It ends when the disk is back.
      if (!this.#death) {
        this.#worker.unref();
        return;
      }
    }
    await this.#exited;
  }

  #post<W extends Work>(work: W): Promise<Answers[W['kind']]> {
    if (this.#death) return Promise.reject(this.#death);
    return new Promise((resolve, reject) => {
      const call = ++this.#lastCall;
      const timer = setTimeout(() => {
        reject(new ReadModelUnavailable(`${this.#file}: no answer within ${CALL_DEADLINE_MS} ms`));
      }, CALL_DEADLINE_MS);
      this.#calls.set(call, { resolve, reject, timer });
      const deadline = process.hrtime.bigint() + BigInt(CALL_DEADLINE_MS) * 1_000_000n;
      this.#worker.postMessage({ call, deadline, work } satisfies Order);
    });
  }

  #settle(reply: Reply): void {
    if ('fault' in reply) {
      this.#fault = reply.fault;
      this.onFault();
      return;
    }
    const call = this.#calls.get(reply.call);
    this.#calls.delete(reply.call);
    if (!call) return;
    clearTimeout(call.timer);
    if ('failure' in reply) call.reject(explained(reply.failure, this.#file));
    else call.resolve(reply.answer as never);
  }

  #die(cause: Error): void {
    this.#death ??= new ReadModelUnavailable(`${this.#file}: its writer thread died (${cause.message})`, {
      cause,
    });
    for (const { reject, timer } of this.#calls.values()) {
      clearTimeout(timer);
      reject(this.#death);
    }
    this.#calls.clear();
  }
}

/** A parked owner as the file holds it. */
type ParkedRow = Omit<ParkedOwner, 'owner'> & { readonly owner: string; readonly partition: number };

interface At {
  readonly generation: Generation;
  readonly position: Position;
}

/** The read-only connection of the calling thread. Its methods throw whatever SQLite does. */
class Reader {
  readonly #db: Database;
  readonly #file: string;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #generations;
  readonly #positions;
  readonly #activePositions;
  readonly #activeAt;
  readonly #generationAt;
  readonly #rows;
  readonly #plantTexts;
  readonly #owners;
  readonly #parkedOwner;
  readonly #countParked;
  readonly #parked;
  readonly #reports;
  readonly #kept = new PageCache<Generation>();
  readonly #keptLong = new PageCache<Generation, LongPage>();
  /** Where partitions of the active generation stood since it was last told to look anew. */
  readonly #seen = new Map<number, At>();

  constructor({ file, log }: WriterData) {
    this.#file = file;
    this.#db = new DatabaseSync(file, { readOnly: true });
    // A page whose cells do not fit is an error rather than rows that nobody stored.
    this.#db.exec(`PRAGMA busy_timeout = ${READ_BUSY_MS}; PRAGMA cell_size_check = ON`);
    const prepare = (sql: string) => this.#db.prepare(sql);
    this.#begin = prepare('BEGIN');
    this.#commit = prepare('COMMIT');
    this.#rollback = prepare('ROLLBACK');
    const generations = prepare(
      `SELECT generation, state = 'active' AS active FROM generations
       WHERE log = ? AND state <> 'dropped' ORDER BY generation`,
    );
    this.#generations = () => generations.all(log) as { generation: Generation; active: number }[];
    const positions = prepare(
      `SELECT position FROM generations JOIN positions USING (generation)
       WHERE generation = ? AND log = ? AND state <> 'dropped' ORDER BY partition`,
    );
    this.#positions = (generation: Generation) => positions.all(generation, log) as { position: Position }[];
    const activePositions = prepare(
      `SELECT partition, position FROM generations JOIN positions USING (generation)
       WHERE log = ? AND state = 'active' AND partition IN (SELECT value FROM json_each(?))`,
    );
    this.#activePositions = (partitions: readonly number[]) =>
      activePositions.all(log, JSON.stringify(partitions)) as { partition: number; position: Position }[];
    const activeAt = prepareColumns(
      this.#db,
      `SELECT generation, position FROM generations LEFT JOIN positions USING (generation)
       WHERE log = ? AND state = 'active' AND partition = ?`,
    );
    this.#activeAt = (partition: number) =>
      activeAt.get(log, partition) as [generation: Generation, position: Position] | undefined;
    const generationAt = prepare(
      `SELECT position FROM generations
       LEFT JOIN positions ON positions.generation = generations.generation AND partition = ?
       WHERE generations.generation = ? AND log = ? AND state <> 'dropped'`,
    );
    this.#generationAt = (partition: number, generation: Generation) =>
      generationAt.get(partition, generation, log) as { position: Position | null } | undefined;
    const rows = prepareColumns(
      this.#db,
      'SELECT id, row FROM plants WHERE generation = ? AND owner = ? AND id > ? ORDER BY id LIMIT ?',
    );
    this.#rows = (generation: Generation, owner: string, after: number, limit: number) =>
      rows.all(generation, owner, after, limit) as [id: number, row: string][];
    const plantTexts = prepareColumns(this.#db, PLANT_TEXTS);
    this.#plantTexts = (generation: Generation, owner: string, after: number, limit: number) =>
      plantTextsOf(plantTexts.get(generation, owner, after, limit));
    // One look-up in the tree for each owner: DISTINCT would read all of their plants.
    const owners = prepare(
      `WITH RECURSIVE found (owner) AS (
         SELECT min(owner) FROM plants WHERE generation = ?1 AND owner >= ?2
         UNION ALL
         SELECT (SELECT min(owner) FROM plants WHERE generation = ?1 AND owner > found.owner)
         FROM found WHERE found.owner IS NOT NULL
         LIMIT ?3
       )
       SELECT owner FROM found WHERE owner IS NOT NULL`,
    );
    this.#owners = (generation: Generation, from: string, limit: number) =>
      owners.all(generation, from, limit) as { owner: string }[];
    const columns = 'owner, partition, position, stream, revision, kind, reason, applied';
    const parkedOwner = prepare(
      `SELECT ${columns} FROM parked WHERE generation = ? AND partition = ? AND owner = ?`,
    );
    this.#parkedOwner = (generation: Generation, partition: number, owner: string) =>
      parkedOwner.get(generation, partition, owner) as ParkedRow | undefined;
    const countParked = prepare('SELECT count(*) AS count FROM parked WHERE generation = ?');
    this.#countParked = (generation: Generation) => countParked.get(generation) as { count: number };
    const parked = prepare(
      `SELECT ${columns} FROM parked WHERE generation = ? AND (partition, owner) > (?, ?)
       ORDER BY partition, owner LIMIT ${PARKED_AT_ONCE}`,
    );
    this.#parked = (generation: Generation, partition: number, owner: string) =>
      parked.all(generation, partition, owner) as unknown as ParkedRow[];
    const reports = prepare('SELECT process, text FROM reports WHERE log = ? AND until > ?');
    this.#reports = () => reports.all(log, Date.now()) as unknown as Report[];
  }

  generations(): GenerationInfo[] {
    return this.#generations().map(({ generation, active }) => ({ generation, active: active === 1 }));
  }

  positions(generation: Generation): Position[] {
    const rows = this.#positions(generation);
    if (rows.length === 0) throw missing(generation);
    if (rows.length !== PARTITIONS) throw this.#lacksPositions();
    return rows.map(({ position }) => position);
  }

  activePositions(partitions: readonly number[]): ReadonlyMap<number, Position> {
    return new Map(this.#activePositions(partitions).map(({ partition, position }) => [partition, position]));
  }

  /** Lists from now on are as the file is now, or later. */
  lookAnew(): void {
    this.#seen.clear();
  }

  list(owner: string, after: number | undefined, limit: number): Page {
    const partition = partitionOf(owner);
    let now = this.#seen.get(partition);
    if (!now) this.#seen.set(partition, (now = this.#active(partition)));
    const kept = this.#kept.get(owner, after, limit);
    if (kept?.copy === now.generation && kept.page.position === now.position) return kept.page;
    return this.#snapshot(() => {
      const at = this.#active(partition);
      const { generation, position } = at;
      const page = this.#page(generation, position, owner, after, limit);
      if (page.parked) throw new OwnerParked(page.parked);
      this.#seen.set(partition, at);
      this.#kept.keep(generation, owner, after, limit, page);
      return page;
    });
  }

  /**
   * A long list, in steps between which the event loop goes on. All of them see one state of the file, so nothing else
   * may be asked of this reader before it has ended.
   */
  async longList(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    this.#begin.run();
    try {
      const partition = partitionOf(owner);
      const { generation, position } = this.#active(partition);
      const kept = this.#keptLong.get(owner, after, limit);
      if (kept?.copy === generation && kept.page.position === position) return kept.page;
      const encoded = encodeOwner(owner);
      const parked = this.#parkedOwner(generation, partition, encoded);
      if (parked) throw new OwnerParked(parkedOwnerOf(parked, owner));
      const list = await readLongList(
        (from, most) => this.#plantTexts(generation, encoded, from ?? BEFORE_ALL_IDS, most),
        after,
        limit,
      );
      const page = { ...list, position };
      this.#keptLong.keep(generation, owner, after, limit, page);
      return page;
    } finally {
      this.#rollBack(); // nothing was written
    }
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Page {
    return this.#snapshot(() => {
      const at = this.#generationAt(partitionOf(owner), generation);
      if (!at) throw missing(generation);
      if (at.position === null) throw this.#lacksPositions();
      return this.#page(generation, at.position, owner, after, limit);
    });
  }

  /** The first owners from that encoded one on, encoded, in ascending order. */
  owners(generation: Generation, from: string, limit: number): string[] {
    return this.#snapshot(() => {
      this.positions(generation); // throws where there is no such generation
      return this.#owners(generation, from, limit).map(({ owner }) => owner);
    });
  }

  countParked(generation: Generation): number {
    return this.#snapshot(() => {
      this.positions(generation); // throws where there is no such generation
      return this.#countParked(generation).count;
    });
  }

  /** The first parked owners after that one, encoded, of a partition. */
  parked(generation: Generation, after: { readonly partition: number; readonly owner: string }): ParkedRow[] {
    return this.#snapshot(() => {
      this.positions(generation); // throws where there is no such generation
      return this.#parked(generation, after.partition, after.owner);
    });
  }

  reports(): Report[] {
    return this.#reports()
      .map(({ process, text }) => ({ process, text }))
      .sort((a, b) => (a.process < b.process ? -1 : 1));
  }

  #active(partition: number): At {
    const at = this.#activeAt(partition);
    if (!at) throw new ReadModelIncomplete('no generation is active yet');
    const [generation, position] = at;
    return { generation, position };
  }

  #lacksPositions(): ReadModelUnavailable {
    return new ReadModelUnavailable(`${this.#file} lacks positions: ${rebuildAdvice(this.#file)}`);
  }

  #page(
    generation: Generation,
    position: Position,
    owner: string,
    after: number | undefined,
    limit: number,
  ): Page {
    const encoded = encodeOwner(owner);
    const parked = this.#parkedOwner(generation, partitionOf(owner), encoded);
    const rows = this.#rows(generation, encoded, after ?? BEFORE_ALL_IDS, limit + 1);
    const more = rows.length > limit;
    if (more) rows.length = limit;
    const page = { rows: rows.map(([id, row]) => ({ id, row })), more, position };
    return parked ? { ...page, parked: parkedOwnerOf(parked, owner) } : page;
  }

  /** One state of the file: a switch of generations or an apply in between is not seen. */
  #snapshot<T>(read: () => T): T {
    this.#begin.run();
    try {
      const answer = read();
      this.#commit.run();
      return answer;
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  #rollBack(): void {
    try {
      this.#rollback.run();
    } catch {
      // some errors have rolled back by themselves
    }
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
  }
}

const parkedOwnerOf = (
  { position, stream, revision, kind, reason, applied }: ParkedRow,
  owner: string,
): ParkedOwner => ({ owner, position, stream, revision, kind, reason, applied });

/** The connections to one file, from when it was found until it is closed, taken away or its writer dies. */
class Session {
  /** Once a page was found damaged, no list can be trusted: the others may lack rows. */
  #damage: Error | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  /** The last long list that was asked for: the next one begins after it. Never rejects. */
  #lastLongList: Promise<unknown> = Promise.resolve();
  /** When it was opened, in milliseconds of `performance.now()`. */
  readonly since = performance.now();
  #fault: FileFault | undefined;
  #lookedAt = -Infinity;

  private constructor(
    private readonly file: string,
    readonly names: FileNames,
    private readonly writer: Writer,
    private readonly reader: Reader,
    /** For long lists, one at a time: its view of the file stands still while others are read. */
    private readonly longReader: Reader,
  ) {}

  /** `onFault` is called where a file is taken away while nobody asks for anything. */
  static async open(data: WriterData, onFault: () => void): Promise<Session> {
    const { file } = data;
    createFile(file);
    const writer = new Writer(data, onFault);
    const readers: Reader[] = [];
    try {
      const identity = await writer.call({ kind: 'open' });
      const [reader, longReader] = [new Reader(data), new Reader(data)];
      readers.push(reader, longReader);
      const names = new FileNames(file);
      if (names.identity !== identity)
        throw new ReadModelUnavailable(`${file} was replaced while it was being opened`);
      const session = new Session(file, names, writer, reader, longReader);
      session.#sweeping = session.#sweep();
      return session;
    } catch (error) {
      for (const reader of readers) reader.close();
      await writer.close();
      throw explained(error, file);
    }
  }

  /** Whether this is still a session with the files that stand there, as far as its last call could tell. */
  get isCurrent(): boolean {
    return this.writer.isAlive && !this.fault;
  }

  /** What has happened to one of its files; it answers nothing from then on. */
  get fault(): FileFault | undefined {
    return this.#fault ?? this.writer.fault;
  }

  read<T>(ask: (reader: Reader) => T): T {
    try {
      if (this.#damage) throw this.#damage;
      const answer = ask(this.reader);
      this.#assertSameFiles();
      return answer;
    } catch (error) {
      throw this.#readFailure(error);
    }
  }

  async longList(...of: Parameters<Reader['longList']>): Promise<LongPage> {
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

  async write<W extends Work>(work: W): Promise<Answers[W['kind']]> {
    try {
      if (this.#damage) throw this.#damage;
      return await this.writer.call(work);
    } catch (error) {
      throw this.#reasonOf(error as Error);
    }
  }

  async end(): Promise<void> {
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
      // Nobody sees what is left; the next drop or open goes on with it.
    }
  }

  /** To be called after a read: files that are still the same now were so when they were read. */
  #assertSameFiles(): void {
    if (performance.now() - this.#lookedAt > LOOK_EVERY_MS) this.#look();
    if (this.fault) throw takenAway(this.fault);
  }

  #readFailure(error: unknown): Error {
    const known = explained(error, this.file);
    return this.#reasonOf(
      sqliteCode(known.cause) === SQLITE.BUSY
        ? new ReadModelUnavailable(`${this.file} is locked by another process`, { cause: known.cause })
        : known,
    );
  }

  /** Throws an error of the file system where the files cannot be looked at. */
  #look(): void {
    this.#fault ??= this.names.fault();
    this.#lookedAt = performance.now();
  }

  /** Why a call has failed: that a file was taken away explains every other error. */
  #reasonOf(error: Error): Error {
    try {
      this.#look();
    } catch (cause) {
      return explained(cause, this.file);
    }
    if (this.fault) return takenAway(this.fault);
    const code = error instanceof ReadModelUnavailable ? sqliteCode(error.cause) : undefined;
    if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB) this.#damage = error;
    return error;
  }
}

class SqliteReadModel extends ReadModel implements ReadModelStore {
  readonly #data: WriterData;
  readonly #waiters = new Waiters(
    (partitions) => this.#read((reader) => reader.activePositions(partitions)),
    BUSY_POLL_MS,
  );
  /** The end of the present turn of the event loop, where lists wait for it. */
  #turn: Promise<void> | undefined;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
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
    createFolder(dirname(this.#data.file));
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

  async #read<T>(ask: (reader: Reader) => T): Promise<T> {
    return (await this.#current()).read(ask);
  }

  async #write<W extends Work>(work: W): Promise<Answers[W['kind']]> {
    return (await this.#current()).write(work);
  }

  /** The session with the files that stand there now; a new one where they were taken away or its writer died. */
  async #current(): Promise<Session> {
    if (this.#closing) throw closed(this.#data.file);
    if (this.#session?.isCurrent) return this.#session;
    if (this.#refusal && performance.now() < this.#refusal.until) throw this.#refusal.error;
    this.#opening ??= this.#reopen();
    return this.#opening;
  }

  async #reopen(): Promise<Session> {
    try {
      const last = this.#session;
      this.#session = undefined;
      await last?.end();
      if (last?.fault) throw this.#setAside(last.names, last.fault);
      if (this.#names?.folderIsAnother()) throw this.#lacksFolder();
      this.#session = await Session.open(this.#data, () => {
        this.#current().catch(() => undefined); // whoever asks next is told
      });
      this.#names = this.#session.names;
      return this.#session;
    } catch (error) {
      this.#refusal = {
        error: explained(error, this.#data.file),
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

const missing = (generation: Generation): GenerationMissing =>
  new GenerationMissing(`there is no generation ${generation}`);

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
