import {
  type Appended,
  type Erasing,
  type ExpectedRevision,
  type NewEvent,
  type Position,
  type RecordedEvent,
  type RedactedEvent,
  START,
  StreamErased,
  WrongExpectedRevision,
} from '../../../src/log/event-log.js';
import { type Host } from './network.js';

/** The digits of a position. */
const WIDTH = 16;

const positionOf = (number: number): Position => String(number).padStart(WIDTH, '0') as Position;

/** 0 for START. */
export const numberOf = (position: Position): number => Number(position);

/** Written and not synced yet. */
interface Staged {
  readonly events: readonly RecordedEvent[];
  readonly settle: () => void;
}

/** An erasure in steps that has begun. */
interface Begun {
  readonly redacted: readonly RecordedEvent[];
  /** The id of the event whose append ends it. */
  readonly record: string;
}

interface Watcher {
  readonly after: Position;
  readonly answer: (batch: ReadBatch) => void;
}

/** Events after a position. */
export interface ReadBatch {
  readonly events: readonly RecordedEvent[];
  /** End of the log as they were read. */
  readonly head: Position;
  /** Number of times that the log was restored to an earlier state. */
  readonly history: number;
}

/** Changed by planted faults. */
export interface LogFaults {
  acknowledgesBeforeSync?: boolean;
  ignoresExpected?: boolean;
}

/**
 * A log on a disk: what was appended is acknowledged, and read, once it is synced. A crash loses what is not, or all but
 * a beginning of it.
 */
export class LogServer {
  readonly #events: RecordedEvent[] = [];
  readonly #streams = new Map<string, RecordedEvent[]>();
  /** In the order of their positions. */
  #staged: Staged[] = [];
  /** Number of these that the running sync writes. */
  #syncing = 0;
  readonly #stagedStreams = new Map<string, RecordedEvent[]>();
  #watchers = new Set<Watcher>();
  /** Called with each event that is durable, before anybody hears of it. */
  onDurable: (event: RecordedEvent) => void = () => undefined;
  /** Called with each stream whose events are erased. */
  onErased: (stream: string) => void = () => undefined;
  /** By the stream that the redacted events will be in. */
  readonly #begun = new Map<string, Begun>();
  /** Streams that take no events, by the erasure that has closed them. */
  readonly #closed = new Map<string, string>();
  /** Events of one answer at most. */
  eventsARead = 500;
  /** Called once, in the middle of the next sync. */
  inNextSync: (() => void) | undefined;

  constructor(
    private readonly host: Host,
    private readonly syncMs: () => number,
    readonly faults: LogFaults = {},
  ) {}

  #history = 0;

  /** All events that are durable. */
  get events(): readonly RecordedEvent[] {
    return this.#events;
  }

  get head(): Position {
    return this.#events.at(-1)?.position ?? START;
  }

  /** Writes a new stream before the world begins. */
  preload(stream: string, events: readonly NewEvent[]): void {
    this.#keep(recordedOf(stream, 0, numberOf(this.head), events));
  }

  append(
    stream: string,
    expected: ExpectedRevision,
    events: readonly NewEvent[],
    answer: (appended: Appended) => void,
    refuse: (error: Error) => void,
  ): void {
    if (this.#closed.has(stream)) {
      refuse(
        expected === 'none'
          ? new StreamErased(`${stream} takes no events`)
          : new WrongExpectedRevision(stream, expected),
      );
      return;
    }
    const written = [...this.stream(stream), ...(this.#stagedStreams.get(stream) ?? [])];
    const at = expected === 'none' ? 0 : Number(expected) + 1;
    const isNext = written.length === at || this.faults.ignoresExpected === true;
    if (!isNext) {
      const isRepeated = events.every(({ id }, index) => written[at + index]?.id === id);
      const last = written[at + events.length - 1];
      // The answer waits for a sync: it was read from a page that may not be durable yet.
      this.#stage([], () => {
        if (isRepeated && last) answer({ revision: last.revision, position: last.position });
        else refuse(new WrongExpectedRevision(stream, expected));
      });
      return;
    }
    const recorded = recordedOf(stream, written.length, numberOf(this.#lastStaged()), events);
    const own = this.#stagedStreams.get(stream);
    if (own) own.push(...recorded);
    else this.#stagedStreams.set(stream, [...recorded]);
    const last = recorded.at(-1);
    const done = (): void => {
      if (last) answer({ revision: last.revision, position: last.position });
    };
    if (this.faults.acknowledgesBeforeSync) done();
    this.#stage(recorded, this.faults.acknowledgesBeforeSync ? () => undefined : done);
  }

  /** The durable events of a stream. */
  stream(stream: string): readonly RecordedEvent[] {
    return this.#streams.get(stream) ?? [];
  }

  /** The durable event at a position. */
  eventAt(position: Position): RecordedEvent | undefined {
    return this.#events[numberOf(position) - 1];
  }

  read(after: Position): ReadBatch {
    const events = this.#events.slice(numberOf(after), numberOf(after) + this.eventsARead);
    return { events, head: this.head, history: this.#history };
  }

  /** Answers once there is something after a position, or after so many milliseconds. */
  watch(after: Position, waitMs: number, answer: (batch: ReadBatch) => void): void {
    if (this.head > after || waitMs === 0) {
      answer(this.read(after));
      return;
    }
    const watcher = { after, answer };
    this.#watchers.add(watcher);
    this.host.after(waitMs, 'long poll', () => {
      if (this.#watchers.delete(watcher)) answer(this.read(after));
    });
  }

  /** As EventLog.erase: undefined where something else is there than is said. */
  erase(
    { prefixes, redacted, into, record }: Erasing,
    answer: (appended: Appended | undefined) => void,
  ): void {
    if (this.#staged.length > 0) {
      // An append under way may be of the owner.
      this.#stage([], () => {
        this.erase({ prefixes, redacted, into, record, subject: '' }, answer);
      });
      return;
    }
    const isOwned = ({ stream }: RecordedEvent): boolean =>
      stream === into || prefixes.some((prefix) => stream.startsWith(prefix));
    const owned = this.#events.filter(isOwned);
    const isSame =
      owned.length === redacted.length &&
      owned.every(({ position }, index) => position === redacted[index]?.position);
    const next = record.expected === 'none' ? 0 : Number(record.expected) + 1;
    if (!isSame || this.stream(record.stream).length !== next) {
      answer(undefined);
      return;
    }
    for (const { stream } of owned) this.#loseStream(stream);
    const erased = inStream(into, redacted);
    this.#streams.set(into, erased);
    for (const event of erased) this.#events[numberOf(event.position) - 1] = event;
    // One transaction with the record: a crash leaves both or neither.
    const { id, type, data, metadata } = record.event;
    const appended = { revision: BigInt(next), position: positionOf(numberOf(this.head) + 1) };
    this.#keep([{ stream: record.stream, ...appended, id, type, data, metadata }]);
    this.#stage([], () => {
      answer(appended);
    });
  }

  /**
   * The first step of an erasure in steps, each of which is durable before its answer: keeps the redacted events. Answers
   * whether there are no others.
   */
  beginErasing(
    { into, redacted, record }: Pick<Erasing, 'into' | 'redacted' | 'record'>,
    answer: (isBegun: boolean) => void,
  ): void {
    const known = this.#begun.get(into)?.redacted ?? [];
    const isSame = known.every(({ id }, index) => id === redacted[index]?.id);
    this.#stage([], () => {
      if (isSame) this.#begun.set(into, { redacted: inStream(into, redacted), record: record.event.id });
      answer(isSame);
    });
  }

  /** Closes a stream to appends, and erases its events. Answers false where it has another revision. */
  closeStream(stream: string, revision: bigint, into: string, answer: (isClosed: boolean) => void): void {
    this.#stage([], () => {
      const isLast =
        this.stream(stream).at(-1)?.revision === revision && !this.#stagedStreams.get(stream)?.length;
      const isClosed = this.#closed.get(stream) === into || isLast;
      if (isLast) {
        this.#closed.set(stream, into);
        this.#replace(into, (event) => event.stream === stream);
      }
      answer(isClosed);
    });
  }

  /** From now on the streams of an erasure take events again. */
  reopen(into: string): void {
    for (const [stream, by] of this.#closed) if (by === into) this.#closed.delete(stream);
  }

  /** Puts redacted events in the place of events. */
  #replace(into: string, isMeant: (event: RecordedEvent) => boolean): void {
    for (const redactedEvent of this.#begun.get(into)?.redacted ?? []) {
      const at = numberOf(redactedEvent.position) - 1;
      const event = this.#events[at];
      if (!event || !isMeant(event)) continue;
      this.#loseStream(event.stream);
      this.#events[at] = redactedEvent;
    }
  }

  #loseStream(stream: string): void {
    if (this.#streams.delete(stream)) this.onErased(stream);
  }

  /** Once an erasure in steps is recorded, all of its events are erased. */
  #endErasing(recordId: string): void {
    for (const [into, { redacted, record }] of this.#begun) {
      if (record !== recordId) continue;
      this.#replace(into, ({ stream }) => stream !== into);
      this.#begun.delete(into);
      this.#streams.set(into, [...redacted]);
    }
  }

  /** Loses its memory. `survives`: how many of the writes that were not synced are on the disk nevertheless. */
  crash(survives: (unsynced: number) => number): void {
    const kept = this.#staged.slice(0, survives(this.#staged.length));
    this.#staged = [];
    this.#syncing = 0;
    this.#stagedStreams.clear();
    this.#watchers.clear();
    for (const { events } of kept) this.#keep(events);
  }

  /** Comes back as it was when it held so many events. */
  restore(count: number): void {
    this.#history += 1;
    this.#events.length = count;
    this.#streams.clear();
    for (const event of this.#events) this.#addToStream(event);
  }

  #lastStaged(): Position {
    for (let index = this.#staged.length - 1; index >= 0; index -= 1) {
      const last = this.#staged[index]?.events.at(-1);
      if (last) return last.position;
    }
    return this.head;
  }

  #stage(events: readonly RecordedEvent[], settle: () => void): void {
    this.#staged.push({ events, settle });
    if (this.#syncing === 0) this.#sync();
  }

  /** One sync for all that was written until it began. */
  #sync(): void {
    this.#syncing = this.#staged.length;
    const syncMs = this.syncMs();
    const { inNextSync } = this;
    this.inNextSync = undefined;
    if (inNextSync) this.host.after(syncMs / 2, 'in a sync', inNextSync);
    this.host.after(syncMs, 'sync', () => {
      const synced = this.#staged.splice(0, this.#syncing);
      this.#syncing = 0;
      for (const { events } of synced) {
        this.#keep(events);
        for (const { stream } of events) this.#stagedStreams.delete(stream);
      }
      for (const { events } of this.#staged)
        for (const event of events) {
          const own = this.#stagedStreams.get(event.stream);
          if (!own) this.#stagedStreams.set(event.stream, [event]);
          else if (!own.includes(event)) own.push(event);
        }
      for (const { settle } of synced) settle();
      const { head } = this;
      for (const watcher of [...this.#watchers])
        if (head > watcher.after) {
          this.#watchers.delete(watcher);
          watcher.answer(this.read(watcher.after));
        }
      if (this.#staged.length > 0 && this.#syncing === 0) this.#sync();
    });
  }

  #addToStream(event: RecordedEvent): void {
    const own = this.#streams.get(event.stream);
    if (own) own.push(event);
    else this.#streams.set(event.stream, [event]);
  }

  #keep(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      this.#events.push(event);
      this.#addToStream(event);
      if (this.#begun.size > 0) this.#endErasing(event.id);
      this.onDurable(event);
    }
  }
}

/** Events as they are recorded at a revision, after the event of so high a number. */
const recordedOf = (
  stream: string,
  revision: number,
  last: number,
  events: readonly NewEvent[],
): RecordedEvent[] =>
  events.map(({ id, type, data, metadata }, index) => ({
    ...{ stream, revision: BigInt(revision + index), position: positionOf(last + 1 + index) },
    ...{ id, type, data, metadata },
  }));

/** Redacted events as they are recorded in their stream. */
const inStream = (into: string, redacted: readonly RedactedEvent[]): RecordedEvent[] =>
  redacted.map((redactedEvent, index) => ({ stream: into, revision: BigInt(index), ...redactedEvent }));
