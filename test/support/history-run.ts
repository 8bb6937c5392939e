import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { type Database, DatabaseSync } from '../../src/sqlite/database.js';
import { type Position, type RecordedEvent, START } from '../../src/log/event-log.js';
import { activeLists } from './damaged-lists.js';
import { type Operation, type Outcome, type Wish } from './history.js';
import { type Answer, codeOf, Connection, nextPage } from './history-client.js';
import { type TestService } from './service.js';

export interface RunOptions {
  readonly seed: number;
  readonly clients: number;
  /** All clients share them, so that those of one owner race for the same plants. */
  readonly owners: readonly string[];
  /** Each owner's plants have the ids 1 to this. */
  readonly ids: number;
  /** About: every client finishes its last one. */
  readonly operations: number;
  /** With -9, at moments chosen by the seed. */
  readonly kills: number;
  /** Locks of the read model for a while, so that lists fall behind. */
  readonly locks: number;
  /** The operations go on until this is true: up to ten times as many. */
  readonly happened?: () => boolean;
}

export interface Run {
  readonly operations: readonly Operation[];
  readonly log: readonly RecordedEvent[];
  /** By outcome, and by code of a 503. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Numbers from 0 up to 1 that look random and are the same for the same seed (mulberry32). */
export const randomBy = (seed: number): (() => number) => {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

/**
 * Runs clients against a service that is killed and started again meanwhile, and gives all that happened.
 * `afterwards` is awaited before the service is stopped.
 */
export const runHistory = async (
  service: TestService,
  options: RunOptions,
  afterwards: () => Promise<void> = () => Promise.resolve(),
): Promise<Run> => {
  const history = new History(service, options);
  const tokens = await Promise.all(options.owners.map((owner) => service.token(owner)));
  const clients = Array.from({ length: options.clients }, (_, number) => {
    const at = number % options.owners.length;
    return new HistoryClient(history, options.owners[at] ?? '', tokens[at] ?? '', options.seed + number + 1);
  });
  try {
    await Promise.all(clients.map((client) => client.run()));
    await history.settled();
    history.unlock();
    await service.ready();
    await Promise.all(clients.map((client) => client.list(options.ids, START)));
  } finally {
    history.unlock();
    for (const client of clients) client.close();
  }
  await afterwards();
  await service.stop();
  return { operations: history.operations, log: await service.events(), counts: history.counts };
};

/** Removes the read model of a service that does not run. */
export const removeReadModel = (dataDir: string): void => {
  rmSync(join(dataDir, 'lists'), { recursive: true, force: true });
};

/** Counted for each request of a key whose outcome is not known yet. */
export const TRIED_AGAIN = 'tried again with its key';

export interface Stage {
  /** The ids of each owner's plants are 1 to this. */
  readonly ids: number;
  /** Clients send back the positions that they were given, with half of their lists. */
  readonly sendsPositions: boolean;
  /** Resolves when there is another operation to do, or with false. */
  next(): Promise<boolean>;
  /** The next moment of the one clock. */
  tick(): number;
  count(what: string): void;
  /** The process that a client is to ask now. */
  target(): { readonly life: number; readonly url: string };
  /** Resolves when there is a process to ask. */
  settled(): Promise<void>;
  record(operation: Operation): void;
}

/** The service as its clients see it, and what they have done. */
class History implements Stage {
  readonly sendsPositions = true;
  readonly operations: Operation[] = [];
  readonly counts: Record<string, number> = {};
  url: string;
  life = 1;
  #clock = 0;
  #begun = 0;
  #ended = 0;
  #kills = 0;
  #nextKill: number;
  readonly #random: () => number;
  #restarting: Promise<void> | undefined;
  #lock: Database | undefined;
  #nextLock: number;

  constructor(
    private readonly service: TestService,
    private readonly options: RunOptions,
  ) {
    this.url = service.url;
    this.#random = randomBy(options.seed);
    this.#nextKill = this.#pause();
    this.#nextLock = this.#lockPause();
  }

  get ids(): number {
    return this.options.ids;
  }

  target() {
    return { life: this.life, url: this.url };
  }

  /**
   * Operations go on until the last kill has happened, too, and until a lock has made a list late
   * (up to three times as many: where locks refuse no list, the run ends, and its counts say so).
   */
  next(): Promise<boolean> {
    this.#begun += 1;
    const { operations, kills } = this.options;
    const { happened = () => true } = this.options;
    const goesOn =
      (this.#awaitsLateList && this.#begun <= 3 * operations) ||
      (!happened() && this.#begun <= 10 * operations);
    return Promise.resolve(this.#begun <= operations || this.#kills < kills || goesOn);
  }

  get #awaitsLateList(): boolean {
    return this.options.locks > 0 && this.counts['503 not_fresh_yet'] === undefined;
  }

  tick(): number {
    return ++this.#clock;
  }

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  async settled(): Promise<void> {
    await this.#restarting;
  }

  /** Ends the last lock. */
  unlock(): void {
    this.#lock?.close();
    this.#lock = undefined;
  }

  record(operation: Operation): void {
    this.operations.push(operation);
    this.count(operation.outcome.kind);
    this.#ended += 1;
    if (this.#restarting) return;
    if (this.#ended >= this.#nextLock) this.#toggleLock();
    if (this.#kills === this.options.kills || this.#ended < this.#nextKill) return;
    this.#kills += 1;
    this.#restarting = this.#restart();
  }

  #lockPause(): number {
    if (this.options.locks === 0) return Infinity;
    return Math.ceil((this.#random() * 2 * this.options.operations) / (this.options.locks + 1));
  }

  /** Holds the read model's write lock, as another process may, while each client does a few operations. */
  #toggleLock(): void {
    if (this.#lock) {
      if (this.#awaitsLateList && !this.#restarting) return;
      this.unlock();
      this.#nextLock = this.#ended + this.#lockPause();
      return;
    }
    const lists = activeLists(this.service.dataDir);
    if (lists === undefined) return; // they were taken away, and none are built yet: after the next operation
    const database = new DatabaseSync(lists);
    try {
      database.exec('BEGIN IMMEDIATE');
    } catch {
      database.close(); // the service is writing just now: after the next operation
      return;
    }
    this.#lock = database;
    this.#nextLock = this.#ended + 3 * this.options.clients;
  }

  /** Operations that end before the next kill: sometimes next to none. */
  #pause(): number {
    const { operations, kills, clients } = this.options;
    if (this.#random() < 0.2) return clients + 1; // as many as the last kill has cut, and one more
    return (
      clients + Math.ceil((this.#random() * 2 * Math.max(operations - kills * clients, kills)) / (kills + 1))
    );
  }

  async #restart(): Promise<void> {
    await this.service.kill();
    if (this.#lock) this.#toggleLock();
    if (this.#kills === Math.ceil(this.options.kills / 2)) removeReadModel(this.service.dataDir);
    if (this.#random() < 0.25) await this.#killWhileStarting();
    await this.service.start();
    this.url = this.service.url;
    this.life += 1;
    this.#nextKill = this.#ended + this.#pause();
    this.#restarting = undefined;
  }

  /** Kills a process somewhere between its first lines in the log and its listening. */
  async #killWhileStarting(): Promise<void> {
    const { logged } = this.service;
    const enough = logged.length + 1 + Math.floor(this.#random() * 40);
    const started = new AbortController();
    const stopWaiting = (): void => {
      started.abort();
    };
    // It is killed before it listens, or just after.
    const starting = this.service.start().then(stopWaiting, stopWaiting);
    while (logged.length < enough && !started.signal.aborted) await setImmediate();
    await this.service.kill();
    await starting;
    this.count('killed while starting');
  }
}

type Tried = Outcome & { readonly cut?: true };

/** One client with one connection. It does one thing at a time, and remembers the positions that it was given. */
export class HistoryClient {
  readonly #connection = new Connection();
  readonly #random: () => number;
  #position = START;

  constructor(
    private readonly history: Stage,
    private readonly owner: string,
    private readonly token: string,
    private readonly seed: number,
  ) {
    this.#random = randomBy(seed);
  }

  async run(): Promise<void> {
    for (let number = 1; await this.history.next(); number++) await this.#one(`op-${this.seed}-${number}`);
  }

  /** Lists once more. */
  async list(limit: number, atLeast: Position): Promise<void> {
    await this.#perform(`op-${this.seed}-last`, { kind: 'list', limit, atLeast });
  }

  close(): void {
    this.#connection.close();
  }

  async #one(id: string): Promise<void> {
    const wish = this.#wish(id);
    const cut = await this.#perform(id, wish);
    // Most clients wait for the next process; the others find the port closed.
    if (cut && this.#random() < 0.7) await this.history.settled();
  }

  #wish(id: string): Wish {
    const plant = 1 + Math.floor(this.#random() * this.history.ids);
    const key = this.#random() < 0.25 ? { key: `key-${id}` } : {};
    const kind = this.#random();
    if (kind < 0.45)
      return {
        kind: 'create',
        id: plant,
        name: `${id} 🌵`,
        tag: kind < 0.1 ? '' : `"${plant}" \\ ü`,
        ...key,
      };
    if (kind < 0.75) return { kind: 'delete', id: plant, ...key };
    const limit = kind < 0.9 ? this.history.ids : plant;
    return {
      kind: 'list',
      limit,
      atLeast: this.history.sendsPositions && this.#random() < 0.5 ? this.#position : START,
    };
  }

  /** Does it, and where it has an Idempotency-Key, until it is known what became of it. */
  async #perform(id: string, wish: Wish): Promise<boolean> {
    const started = this.history.tick();
    for (;;) {
      const { life, url } = this.history.target();
      const { cut, ...outcome } = await this.#try(url, id, wish);
      const again = 'key' in wish && (outcome.kind === 'unknown' || outcome.kind === 'nothing');
      if (again) {
        this.history.count(TRIED_AGAIN);
        await this.history.settled();
        continue;
      }
      if (outcome.kind === 'acknowledged' || outcome.kind === 'listed')
        if (outcome.position > this.#position) this.#position = outcome.position;
      const ended = this.history.tick();
      this.history.record({ id, owner: this.owner, wish, started, ended, life, outcome });
      return cut ?? false;
    }
  }

  async #try(url: string, id: string, wish: Wish): Promise<Tried> {
    let answer: Answer;
    try {
      answer = await this.#send(url, id, wish);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      this.history.count(`connection: ${code ?? String(error)}`);
      const kind = code === 'ECONNREFUSED' || wish.kind === 'list' ? 'nothing' : 'unknown';
      return { kind, cut: true };
    }
    if (answer.status === 503) this.history.count(`503 ${codeOf(answer)}`);
    if (answer.headers['plants-lists'] === 'behind') this.history.count('acknowledged, lists behind');
    return outcomeOf(wish, answer);
  }

  #send(url: string, id: string, wish: Wish): Promise<Answer> {
    const headers = { authorization: `Bearer ${this.token}`, 'x-correlation-id': id };
    if (wish.kind === 'list')
      return this.#connection.send(url, {
        method: 'GET',
        path: `/plants?limit=${wish.limit}`,
        headers: { ...headers, ...(wish.atLeast === START ? {} : { 'plants-position': wish.atLeast }) },
      });
    const named = wish.key === undefined ? headers : { ...headers, 'idempotency-key': wish.key };
    if (wish.kind === 'delete')
      return this.#connection.send(url, { method: 'DELETE', path: `/plants/${wish.id}`, headers: named });
    const { id: plant, name, tag } = wish;
    return this.#connection.send(url, {
      method: 'POST',
      path: '/plants',
      headers: { ...named, 'content-type': 'application/json' },
      body: JSON.stringify({ id: plant, name, tag }),
    });
  }
}

/** Reads an answer, if it is one that the API has. */
const outcomeOf = (wish: Wish, answer: Answer): Outcome => {
  const { status, headers, body } = answer;
  const unexpected: Outcome = {
    kind: 'unexpected',
    answer: `${status} ${JSON.stringify(headers)} ${body}`,
  };
  if (status === 503) return headers['retry-after'] === undefined ? unexpected : unavailable(wish, answer);
  const code = codeOf(answer);
  if (wish.kind === 'create' && status === 409 && code === 'plant_exists')
    return { kind: 'refused', because: 'present' };
  if (wish.kind === 'delete' && status === 404 && code === 'plant_not_found')
    return { kind: 'refused', because: 'absent' };
  // Only a list of a log without an event has no position.
  const none = wish.kind === 'list' && body === '[]' ? START : undefined;
  const position = (headers['plants-position'] as Position | undefined) ?? none;
  if (position === undefined) return unexpected;
  switch (wish.kind) {
    case 'list':
      return status === 200
        ? { kind: 'listed', position, body, more: nextPage(answer, '/plants') !== undefined }
        : unexpected;
    case 'create':
      return status === 201 && body === JSON.stringify({ name: wish.name, tag: wish.tag })
        ? { kind: 'acknowledged', position }
        : unexpected;
    case 'delete':
      return status === 204 && body === '' ? { kind: 'acknowledged', position } : unexpected;
  }
};

const LIST_CODES = ['read_model_incomplete', 'read_model_unavailable', 'not_fresh_yet'];

const unavailable = (wish: Wish, answer: Answer): Outcome => {
  const code = codeOf(answer);
  if (wish.kind === 'list' ? LIST_CODES.includes(code) : code === 'log_unavailable')
    return { kind: 'nothing' };
  if (wish.kind !== 'list' && code === 'outcome_unknown') return { kind: 'unknown' };
  return { kind: 'unexpected', answer: `503 ${code}` };
};
