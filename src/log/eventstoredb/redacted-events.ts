import { randomUUID } from 'node:crypto';
import { monotonicMs } from '../../runtime/runtime.js';
import { pause } from '../../runtime/pause.js';
import {
  type Erasing,
  LogUnavailable,
  type Position,
  type RecordedEvent,
  type RedactedEvent,
  START,
} from '../event-log.js';
import { WrongExpectedVersionError } from '@eventstore/db-client';
import { type ReadEvent } from './messages.js';
import { LogRefused, type Server } from './server.js';

/**
 * Holds what stands in for erased events, by their positions, and what has to be looked for until it is removed from the
 * server's files. Invisible to readers, as it is none of OUR_STREAMS.
 */
export const STAND_INS_STREAM = 'plants-erased';

/** Redacted events of one event: together some 300 KB, of the server's megabyte. */
const REDACTED_AT_ONCE = 1_000;

/** Positions of one event, of some 45 bytes. */
const POSITIONS_AT_ONCE = 10_000;

/** The most attempts to append, while other processes are faster. */
const RACES = 20;

/** Milliseconds for which what is known may be used when events are given to a reader. */
const VALID_MS = 4_000;

/**
 * Milliseconds after redacted events were written in which their events are not deleted: every process then knows them
 * before there is a gap. More than VALID_MS, since clocks do not run alike.
 */
const SETTLE_MS = 6_000;

/** Place of the event that records an erasure, if that attempt has succeeded. */
interface Recording {
  readonly stream: string;
  readonly revision: string;
  readonly id: string;
}

/** One erasure. */
export interface ErasedStream {
  readonly into: string;
  /** In log order. */
  readonly events: RecordedEvent[];
  /** Tombstones of its streams, which hold their names. */
  readonly tombstones: Position[];
  /** The stream that is deleted once the erasure is recorded; undefined before. */
  subject: string | undefined;
  readonly attempts: Recording[];
  isRecorded: boolean;
}

type Content =
  | {
      readonly type: 'StandIns';
      readonly data: { readonly into: string; readonly standIns: readonly RedactedEvent[] };
    }
  | {
      readonly type: 'Tombstones';
      readonly data: { readonly into: string; readonly positions: readonly Position[] };
    }
  | {
      readonly type: 'Recording';
      readonly data: { readonly into: string; readonly subject: string } & Recording;
    };

/** A redacted event, and whether it is there instead of its event, or only where that is gone. */
interface Placed {
  readonly event: RecordedEvent;
  readonly of: ErasedStream;
}

/**
 * The erased events of a log, as far as they were read: readers put them into the gaps that deleted events leave, and
 * in the place of events of erasures that are recorded. Kept in memory, some 500 bytes for each.
 */
export class RedactedEvents {
  readonly #erased = new Map<string, ErasedStream>();
  #placed: Placed[] = [];
  #last: ReadEvent | undefined;
  #readAt = -Infinity;
  #readOn = -Infinity;
  #reading: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  /** `stream`: its name on the server; `onServer`: that of another stream. */
  constructor(
    private readonly server: Server,
    private readonly onServer: (stream: string) => string,
  ) {}

  get isEmpty(): boolean {
    return this.#placed.length === 0;
  }

  /** The last position of an erased event; START where there is none. */
  get end(): Position {
    return this.#placed.at(-1)?.event.position ?? START;
  }

  of(into: string): ErasedStream | undefined {
    return this.#erased.get(into);
  }

  /** Reads what is new; begun after this call. Throws LogUnavailable. */
  refresh(): Promise<void> {
    this.#next ??= this.#reading.then(() => {
      this.#next = undefined;
      const reading = this.#read();
      this.#reading = reading.catch(() => undefined);
      return reading;
    });
    return this.#next;
  }

  /** Reads what is new where that is due before events are given to a reader; else undefined. Throws LogUnavailable. */
  fresh(): Promise<void> | undefined {
    // The first clock stands still while the machine sleeps, the second one is set now and then.
    const age = Math.max(monotonicMs() - this.#readAt, Math.abs(Date.now() - this.#readOn));
    if (age >= VALID_MS) return this.refresh();
    // In time, so that readers rarely wait; a failure is thrown once they have to.
    if (age >= VALID_MS / 2) void this.refresh().catch(() => undefined);
    return undefined;
  }

  /** True if an event of this position is being erased, or was. */
  has(position: Position): boolean {
    return this.at(position) !== undefined;
  }

  /** The redacted event at a position. */
  at(position: Position): Placed | undefined {
    const placed = this.#placed[this.#firstAfter(position) - 1];
    return placed?.event.position === position ? placed : undefined;
  }

  /** Those after a position. */
  after(position: Position): RecordedEvent[] {
    return this.#placed.slice(this.#firstAfter(position)).map(({ event }) => event);
  }

  /** All events after a position up to the last of these: with redacted events in the gaps, and instead of erased ones. */
  merge(after: Position, events: readonly RecordedEvent[]): readonly RecordedEvent[] {
    const end = events.at(-1)?.position ?? START;
    let next = this.#firstAfter(after);
    if ((this.#placed[next]?.event.position ?? end) > end || next === this.#placed.length) return events;
    const merged: RecordedEvent[] = [];
    for (const event of events) {
      let placed = this.#placed[next];
      for (; placed && placed.event.position < event.position; placed = this.#placed[++next])
        merged.push(placed.event);
      if (placed?.event.position !== event.position) merged.push(event);
      else {
        merged.push(placed.of.isRecorded ? placed.event : event);
        next += 1;
      }
    }
    return merged;
  }

  /**
   * Writes the redacted events of an erasure, as far as they are not there. Returns false where others are: the log was put
   * back to an earlier state, or somebody else has written them.
   */
  async write({ into, redacted }: Pick<Erasing, 'into' | 'redacted'>): Promise<boolean> {
    for (let race = 0; race < RACES; race++) {
      await this.refresh();
      const known = this.#erased.get(into)?.events ?? [];
      if (known.length > redacted.length || !known.every((event, index) => isSame(event, redacted[index])))
        return false;
      const missing = redacted.slice(known.length, known.length + REDACTED_AT_ONCE);
      if (missing.length === 0) return true;
      if (await this.#append([{ type: 'StandIns', data: { into, standIns: missing } }])) race = 0;
    }
    throw this.#tooManyRaces();
  }

  /** Writes where an erasure is about to be recorded, and the tombstones that were made for it. */
  async announce(
    { into, subject, record }: Pick<Erasing, 'into' | 'subject' | 'record'>,
    tombstones: readonly Position[],
  ): Promise<void> {
    const { stream, expected, event } = record;
    const revision = String(expected === 'none' ? 0n : expected + 1n);
    for (let race = 0; race < RACES; race++) {
      await this.refresh();
      const known = new Set(this.#erased.get(into)?.tombstones);
      const positions = tombstones.filter((position) => !known.has(position)).slice(0, POSITIONS_AT_ONCE);
      if (positions.length > 0) {
        if (await this.#append([{ type: 'Tombstones', data: { into, positions } }])) race = 0;
        continue;
      }
      const data = { into, subject, stream, revision, id: event.id };
      if (await this.#append([{ type: 'Recording', data }])) return;
    }
    throw this.#tooManyRaces();
  }

  /** Returns false where another process was faster. */
  async #append(events: readonly Content[]): Promise<boolean> {
    const expected = this.#last?.revision ?? 'none';
    const texts = events.map(({ type, data }) => ({
      ...{ id: randomUUID(), type, data: JSON.stringify(data), metadata: '{}' },
    }));
    try {
      await this.server.append({ stream: this.onServer(STAND_INS_STREAM), expected, events: texts });
      return true;
    } catch (error) {
      if (error instanceof WrongExpectedVersionError) return false;
      throw this.server.unavailable(error);
    }
  }

  #tooManyRaces(): LogUnavailable {
    return new LogUnavailable(`${this.server.title}: another process erases at the same time`);
  }

  async #read(): Promise<void> {
    const at = monotonicMs();
    const on = Date.now();
    const stream = this.onServer(STAND_INS_STREAM);
    let events = await this.server.readStream(stream, this.#last?.revision ?? 0n);
    if (this.#last) {
      const [same, ...more] = events;
      if (same?.id === this.#last.id) events = more;
      else {
        // It was restored to an earlier state.
        this.#erased.clear();
        this.#placed = [];
        this.#last = undefined;
        events = await this.server.readStream(stream, 0n);
      }
    }
    for (const event of events) this.#add(event);
    if (events.length > 0) this.#place();
    for (const erased of this.#erased.values()) await this.#lookWhetherRecorded(erased);
    this.#readAt = at;
    this.#readOn = on;
  }

  #add(event: ReadEvent): void {
    const content = { type: event.type, data: event.data } as unknown as Content;
    const { into } = content.data;
    const erased = this.#erased.get(into) ?? {
      ...{ into, events: [], tombstones: [], subject: undefined, attempts: [], isRecorded: false },
    };
    this.#erased.set(into, erased);
    switch (content.type) {
      case 'StandIns':
        for (const redactedEvent of content.data.standIns)
          erased.events.push({ ...redactedEvent, stream: into, revision: BigInt(erased.events.length) });
        break;
      case 'Tombstones':
        erased.tombstones.push(...content.data.positions);
        break;
      case 'Recording':
        erased.subject = content.data.subject;
        erased.attempts.push(content.data);
        break;
      default:
        throw new LogRefused(
          `${this.server.title} holds records of erased events that this version does not know: upgrade this service`,
        );
    }
    this.#last = event;
  }

  #place(): void {
    this.#placed = [...this.#erased.values()]
      .flatMap((of) => of.events.map((event) => ({ event, of })))
      .sort((one, other) => (one.event.position < other.event.position ? -1 : 1));
  }

  async #lookWhetherRecorded(erased: ErasedStream): Promise<void> {
    if (erased.isRecorded) return;
    for (const { stream, revision, id } of erased.attempts) {
      const [found] = await this.server.readStream(this.onServer(stream), BigInt(revision), 1);
      if (found?.id === id) erased.isRecorded = true;
    }
  }

  /** The index of the first one after a position. */
  #firstAfter(position: Position): number {
    let low = 0;
    let high = this.#placed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#placed[middle]?.event.position ?? START) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Resolves when every process knows what was written before; earlier when `signal` aborts. */
  settled(signal: AbortSignal): Promise<void> {
    return pause(SETTLE_MS, signal);
  }
}

const isSame = (event: RecordedEvent, redactedEvent: RedactedEvent | undefined): boolean =>
  event.position === redactedEvent?.position &&
  event.id === redactedEvent.id &&
  JSON.stringify(event.data) === JSON.stringify(redactedEvent.data);
