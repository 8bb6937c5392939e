import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import { effectOf, type Plant } from '../domain/plant.js';
import { encodeOwner, ERASURE_STREAMS, ERASURES_STREAM, PLANT_STREAMS } from '../domain/stream.js';
import {
  type EventLog,
  type LogBatch,
  LogUnavailable,
  type Position,
  type RecordedEvent,
} from '../log/event-log.js';
import { pause } from '../runtime/pause.js';
import { monotonicMs } from '../runtime/runtime.js';
import { readHistory } from './read.js';

/** Events that wait for a slow follower: one that is further behind reads the log for itself, and then goes on. */
const MAX_WAITING = 500;

/** The time to read the log for what a follower has missed, in milliseconds; it lists again after that. */
const CATCH_UP_MS = 2_000;

/** The interval at which followers are told the position up to which the log was read, in milliseconds. */
const TICK_MS = 1_000;

/** The pause before the next attempt to follow a log that cannot be reached, in milliseconds. */
const AGAIN_MS = 1_000;

/** A change of an owner's list. */
export type ListChange = Readonly<{ position: Position }> &
  (
    | { readonly type: 'added'; readonly plant: Plant }
    | { readonly type: 'deleted'; readonly id: number }
    /** It may have changed in a way that cannot be told here: it has to be listed again. */
    | { readonly type: 'reload' }
  );

/** The changes for a follower, perhaps none, and the position up to which the log was read. */
export interface ListChanges {
  readonly changes: readonly ListChange[];
  /** All changes at or before this position were given. */
  readonly position: Position;
  /** Why nothing comes at present: the log cannot be reached, and is tried again. */
  readonly waiting: string | undefined;
}

/** One reading of the log, for all followers. */
interface Reading {
  readonly ending: AbortController;
  /** By the encoded owner. */
  readonly followers: Map<string, Set<Follower>>;
  position: Position;
  waiting: string | undefined;
  /** Why it has ended, where it was no failure that passes. */
  failure: unknown;
}

/** The queue of one follower. */
class Follower {
  #events: RecordedEvent[] = [];
  #wake: () => void = () => undefined;
  /** True if events were dropped, since too many waited. */
  isBehind = false;
  /** The owner is being erased. */
  isOver = false;

  add(event: RecordedEvent): void {
    if (this.isBehind) return;
    this.#events.push(event);
    if (this.#events.length <= MAX_WAITING) return;
    this.isBehind = true;
    this.#events = [];
  }

  /** All that waits. */
  take(): readonly RecordedEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }

  /** Begins again, with nothing that waits. */
  restart(): void {
    this.isBehind = false;
    this.#events = [];
  }

  readonly wake = (): void => {
    this.#wake();
  };

  /** Resolves when it is woken, or `signal` aborts; at once where there is something to do already. */
  async next(signal: AbortSignal): Promise<void> {
    if (this.#events.length > 0 || this.isBehind || this.isOver || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      signal.addEventListener('abort', this.wake, { once: true });
    });
    signal.removeEventListener('abort', this.wake);
  }
}

/**
 * The changes of owners' lists as the log grows, for any number of followers: the log is read once for all of them, and
 * only while there are any. Nobody waits for a follower.
 */
export class ChangesOfLists {
  #begun: Promise<Reading> | undefined;
  #followers = 0;

  constructor(
    private readonly log: EventLog,
    private readonly catchUpMs = CATCH_UP_MS,
  ) {}

  /**
   * The changes of an owner's list after a position (from now on, without it), until `signal` aborts or the owner is
   * being erased. At once comes from where on they are given, without a change; and then something every few seconds at
   * least. The position must be known to be of this log. Throws LogUnavailable where the log cannot be reached at the beginning.
   */
  async *follow(
    owner: string,
    after: Position | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<ListChanges, void, undefined> {
    this.#followers += 1;
    const follower = new Follower();
    let detach = (): void => undefined;
    try {
      const reading = await this.#reading();
      detach = attach(reading, encodeOwner(owner), follower);
      let position = after ?? reading.position;
      follower.isBehind = position < reading.position;
      yield { changes: [], position, waiting: undefined };
      while (!signal.aborted && !follower.isOver) {
        if (reading.failure !== undefined) throw reading.failure as Error;
        if (follower.isBehind) {
          follower.restart();
          const upTo = reading.position;
          for await (const missed of this.#missed(owner, position, upTo, signal)) yield missed;
          position = upTo;
        }
        await follower.next(signal);
        if (follower.isBehind) continue;
        const changes = follower
          .take()
          .flatMap((event) => (event.position > position ? [changeOf(event)] : []));
        if (reading.position > position) ({ position } = reading);
        yield { changes, position, waiting: reading.waiting };
      }
    } finally {
      detach();
      this.#followers -= 1;
      if (this.#followers === 0) await this.#end();
    }
  }

  /** The changes after a position, up to another; or that this is too much, or is not known any more. */
  async *#missed(
    owner: string,
    after: Position,
    upTo: Position,
    signal: AbortSignal,
  ): AsyncGenerator<ListChanges, void, undefined> {
    const reload: ListChanges = {
      changes: [{ type: 'reload', position: upTo }],
      position: upTo,
      waiting: undefined,
    };
    // An erased owner's events are gone, also those that deleted the plants.
    const erasure = await this.log.readLast(ERASURES_STREAM);
    if (erasure && erasure.position > after) {
      yield reload;
      return;
    }
    const giveUp = monotonicMs() + this.catchUpMs;
    for await (const { events, position, done } of readHistory(this.log, { owner }, after, upTo, signal)) {
      const changes = events.filter(({ stream }) => stream.startsWith(PLANT_STREAMS)).map(changeOf);
      yield { changes, position, waiting: undefined };
      if (done) return;
      if (monotonicMs() <= giveUp) continue;
      yield reload;
      return;
    }
  }

  #reading(): Promise<Reading> {
    this.#begun ??= this.#begin();
    return this.#begun;
  }

  async #begin(): Promise<Reading> {
    try {
      const reading: Reading = {
        ending: new AbortController(),
        followers: new Map(),
        position: await this.log.head(),
        waiting: undefined,
        failure: undefined,
      };
      void this.#read(reading); // never rejects
      return reading;
    } catch (error) {
      this.#begun = undefined; // the next follower tries again
      throw error;
    }
  }

  /** The next follower begins another reading. */
  async #end(): Promise<void> {
    const begun = this.#begun;
    this.#begun = undefined;
    const reading = await begun?.catch(() => undefined);
    reading?.ending.abort();
  }

  async #read(reading: Reading): Promise<void> {
    const { signal } = reading.ending;
    let tickedAt = -Infinity;
    while (!signal.aborted) {
      try {
        for await (const batch of this.log.subscribe(reading.position, signal)) {
          reading.waiting = undefined;
          deliver(reading, batch);
          if (monotonicMs() - tickedAt < TICK_MS) continue;
          tickedAt = monotonicMs();
          wakeAll(reading);
        }
      } catch (error) {
        if (error instanceof LogUnavailable)
          reading.waiting = 'the log cannot be reached, and is tried again';
        else {
          reading.failure = error;
          reading.ending.abort();
          if ((await this.#begun) === reading) this.#begun = undefined;
        }
        wakeAll(reading);
        await pause(AGAIN_MS, signal);
      }
    }
  }
}

const attach = ({ followers }: Reading, owner: string, follower: Follower): (() => void) => {
  const all = followers.get(owner) ?? new Set();
  followers.set(owner, all.add(follower));
  return () => {
    all.delete(follower);
    if (all.size === 0 && followers.get(owner) === all) followers.delete(owner);
  };
};

/** Gives the events of a batch to those who follow their owners. */
const deliver = (reading: Reading, { events, position }: LogBatch): void => {
  const { followers } = reading;
  const woken = new Set<Follower>();
  for (const event of events) {
    const { stream } = event;
    if (stream.startsWith(PLANT_STREAMS)) {
      for (const follower of followers.get(stream.slice(PLANT_STREAMS.length, stream.indexOf('/'))) ?? []) {
        follower.add(event);
        woken.add(follower);
      }
    } else if (stream.startsWith(ERASURE_STREAMS)) {
      const fact = tryDecode(event);
      if (fact instanceof EventRefused || fact.kind !== 'erasure') continue;
      for (const follower of followers.get(fact.event.data.owner) ?? []) {
        follower.isOver = true;
        woken.add(follower);
      }
    }
  }
  reading.position = position;
  for (const follower of woken) follower.wake();
};

const wakeAll = ({ followers }: Reading): void => {
  for (const all of followers.values()) for (const follower of all) follower.wake();
};

/** The change of the list by an event of a plant. */
const changeOf = (event: RecordedEvent): ListChange => {
  const { position } = event;
  const fact = tryDecode(event);
  if (fact instanceof EventRefused || fact.kind !== 'plant') return { type: 'reload', position };
  const { id, plant } = effectOf(fact.event);
  return plant ? { type: 'added', plant, position } : { type: 'deleted', id, position };
};
