/**
 * An event's position in the log: an opaque text whose string order is log order, so that SQL, Lua and JavaScript all
 * compare it with `<`. All positions of one log have the same length.
 */
export type Position = string & { readonly __brand: 'Position' };

/** Before the first event: less than every position. */
export const START = '' as Position;

/** The greatest of some positions; START where there is none. */
export const newestOf = (positions: readonly Position[]): Position =>
  positions.reduce((newest, position) => (position > newest ? position : newest), START);

/** The least of some positions, of which there is one at least. */
export const oldestOf = (positions: readonly Position[]): Position =>
  positions.reduce((oldest, position) => (position < oldest ? position : oldest));

/** An event of a log, by which a reader knows of which history of the log it has read. */
export interface Anchor {
  readonly position: Position;
  /** The event's id; empty at START. */
  readonly event: string;
}

/** Before the first event. */
export const NO_ANCHOR: Anchor = { position: START, event: '' };

/** The state that an append expects of its stream: that it has no event yet, or the revision of its last one. */
export type ExpectedRevision = 'none' | bigint;

/** A JSON value that survives being stored: no undefined, no bigint, no NaN. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** The origin of an event. */
export type EventMetadata = Readonly<{
  /** The version of the event's type, from 1. */
  schemaVersion: number;
  /** When it was decided: RFC 3339, UTC, from the clock port. */
  decidedAt: string;
  /** The token's subject, and the client that it was issued to, where the token names one. */
  actor: Readonly<{ sub: string; clientId?: string }>;
  /** The same for all that one request of a client causes. */
  correlationId: string;
  /** The command that caused the event. */
  causationId: string;
  /** W3C Trace Context of the request, where it had one. */
  traceparent?: string;
}>;

/** An event to append. `id` is a UUID, the same whenever the append is retried. */
export interface NewEvent {
  readonly id: string;
  readonly type: string;
  readonly data: Json;
  readonly metadata: EventMetadata;
}

/**
 * An event of the log. `data` and `metadata` are parsed JSON, not validated: the codec does that. Text that is no JSON
 * is a string.
 */
export interface RecordedEvent {
  readonly stream: string;
  readonly revision: bigint;
  readonly position: Position;
  readonly id: string;
  readonly type: string;
  readonly data: unknown;
  readonly metadata: unknown;
}

/** A redacted event, in the place of an erased one. */
export interface RedactedEvent {
  /** Of the event that is erased. */
  readonly position: Position;
  /** A UUID. */
  readonly id: string;
  readonly type: string;
  readonly data: Json;
  readonly metadata: Json;
}

/** Events to erase, and the event that records it. */
export interface Erasing {
  /** All events of streams whose names begin with one of these are erased. */
  readonly prefixes: readonly string[];
  /** One of these streams, which says what is erased: it can be read until the erasure is recorded. */
  readonly subject: string;
  /** All events of these streams, in log order. They are events of the stream `into` afterwards, at their positions. */
  readonly redacted: readonly RedactedEvent[];
  /** A stream without events, but for those that an attempt before this one has put in the place of others. */
  readonly into: string;
  readonly record: {
    readonly stream: string;
    readonly expected: ExpectedRevision;
    readonly event: NewEvent;
  };
}

/** The last event of an append. */
export interface Appended {
  readonly revision: bigint;
  readonly position: Position;
}

/** The health of appends, by the last ones. */
export interface AppendHealth {
  /**
   * `failing`: the last append failed, and later ones may succeed. `stopped`: none is accepted before this process is
   * started again.
   */
  readonly state: 'ok' | 'failing' | 'stopped';
  /** Since when. */
  readonly since: Date;
  /** Why, in one line; undefined where the state is `ok`. */
  readonly reason: string | undefined;
  /** True if a restart of this process is expected to help: only ever where the state is `stopped`. */
  readonly restartHelps: boolean;
}

export interface LogBatch {
  /** The next events in log order: at most 500, possibly none. */
  readonly events: readonly RecordedEvent[];
  /** Everything at or before this position has been delivered. At least the last event's; never goes back. */
  readonly position: Position;
  /** True if the end of the log was reached when this batch was read. */
  readonly caughtUp: boolean;
}

/** Time from the last event to a subscription's next batch, perhaps empty, in milliseconds. */
export const QUIET_AFTER_MS = 250;

/**
 * The source of truth: an append-only log of events in streams, without update, delete or overwrite, but for the erasure
 * of an owner, which leaves a hash in the place of each event.
 *
 * An implementer guarantees:
 * - an append that returned is durable, is in the log exactly once, and was atomic;
 * - revisions of a stream count from 0 without a gap;
 * - every reader reads the events in one order, that of their positions, and never one before its predecessor;
 * - appends that are called on one instance are written in the order of the calls, as far as they are written;
 * - an append with the same event ids at the same expected revision succeeds again, with the first result.
 *
 * Every method throws LogUnavailable where the log cannot be used (and after `close`), in bounded time.
 *
 * An abstract class without code, so that Nest can inject by it.
 */
export abstract class EventLog {
  /**
   * Appends one or more events to a stream. Throws WrongExpectedRevision if the stream is not as stated (nothing
   * was written), LogUnavailable if nothing was written (StreamErased where the stream was erased and cannot be written
   * yet), OutcomeUnknown if it may or may not have been.
   */
  abstract append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended>;

  /**
   * The events of a stream after a revision (from the first, without it), in order, up to `limit`; none if the stream
   * does not exist. A long stream is read in pages.
   */
  abstract readStream(stream: string, after?: bigint, limit?: number): Promise<RecordedEvent[]>;

  /**
   * The last event of a stream; undefined if the stream does not exist. The cost does not depend on the stream's
   * length.
   */
  abstract readLast(stream: string): Promise<RecordedEvent | undefined>;

  /** The event at a position, or its redacted form; undefined where no event of this log is there. */
  abstract eventAt(position: Position): Promise<RecordedEvent | undefined>;

  /** All events after a position, up to the end of the log when it is reached. */
  abstract readAll(after: Position): AsyncIterable<RecordedEvent>;

  /**
   * All events after a position, existing and future ones, until `signal` aborts (it then ends without an error).
   * Yields a batch at least once a second, and QUIET_AFTER_MS after the last event, an empty one where nothing
   * happened, so that callers need no timer. Throws LogUnavailable when it cannot continue; the caller decides whether
   * to subscribe again.
   */
  abstract subscribe(after: Position, signal: AbortSignal): AsyncIterable<LogBatch>;

  /** The events of all streams whose names begin with one of these, in log order. */
  abstract readStreamsFrom(prefixes: readonly string[]): AsyncIterable<RecordedEvent>;

  /** Why this log cannot erase events, in one line that says what to do; undefined where it can. Throws LogUnavailable. */
  abstract whyNotErase(): Promise<string | undefined>;

  /**
   * Erases all events of some streams, and records that: both are durable when it returns. Returns undefined, and has
   * recorded nothing, where the streams hold other events than `redacted` says, `into` others than an earlier attempt
   * has left, or the stream of the record is not as stated: read again, and try again. Some of the streams may be closed
   * to appends then, and until it is recorded a reader finds each event as it was, or redacted. What was erased may
   * be left in the files of the store until `scrub`. Throws LogUnavailable and OutcomeUnknown as `append`, and the
   * signal's reason, between two steps: an attempt may go on later.
   */
  abstract erase(erasing: Erasing, signal: AbortSignal): Promise<Appended | undefined>;

  /**
   * Removes from the files of the store what erased events have left there, those of the stream `into` at least. Appends
   * may wait meanwhile. May be repeated. Throws LogUnavailable, also where somebody else has to do it: its message says
   * so, and it is to be tried again. ScrubTakesTime where the store is at it: nothing is wrong, and it is to be looked at
   * again.
   */
  abstract scrub(into: string): Promise<void>;

  /**
   * The action that is needed by hand, in one line, before `scrub` can remove what the erased events of the stream `into`
   * have left in files; undefined where nobody has. Throws LogUnavailable.
   */
  abstract pendingManualScrub(into: string): Promise<string | undefined>;

  /** The position of the last event, or START in an empty log: at or after every position that this log has returned. */
  abstract head(): Promise<Position>;

  /**
   * The amount of reading between two positions, in events or bytes, good for shares only; 0 where `upTo` is not after
   * the first one.
   */
  abstract distance(after: Position, upTo: Position): number;

  /** The number of events after one position, up to another; undefined where positions do not show it. */
  abstract count(after: Position, upTo: Position): number | undefined;

  /** Resolves if appends and reads are expected to succeed. */
  abstract ready(): Promise<void>;

  /**
   * Checks all events after a position in steps, and yields the position of each step: whether each event is found by
   * its stream, follows the one before it in the stream, and is stored as the bytes that an append writes. Throws
   * LogDamaged at the first fault, also of the store as a whole. Yields nothing where the server checks its log itself.
   */
  abstract check(after: Position): AsyncIterable<Position>;

  /**
   * Tells whether appends succeed, by the last ones. While they fail the log is tested at least every five seconds, without
   * appending, so that the state is `ok` soon after they would succeed.
   */
  abstract health(): AppendHealth;

  /**
   * Identifies this log, also against a new one at the same place; stable over restarts. A read model belongs to the
   * log with its identity.
   */
  abstract identity(): string;

  /** Waits for appends that were handed over, then closes everything. May be called twice. */
  abstract close(): Promise<void>;
}

/** The event of a stream with a revision; undefined where there is none. Throws LogUnavailable. */
export const eventIn = async (
  log: Pick<EventLog, 'readStream'>,
  { stream, revision }: Readonly<{ stream: string; revision: number }>,
): Promise<RecordedEvent | undefined> =>
  (await log.readStream(stream, revision === 0 ? undefined : BigInt(revision) - 1n, 1))[0];

/** The stream's last revision is not what the append stated. Nothing was written. */
export class WrongExpectedRevision extends Error {
  override readonly name = 'WrongExpectedRevision';
  constructor(
    readonly stream: string,
    readonly expected: ExpectedRevision,
  ) {
    super(`stream ${stream} is not at the expected revision ${expected}`);
  }
}

/** A position is not of this log, or after its end. `where` names the parameter. */
export class UnknownPosition extends Error {
  override readonly name = 'UnknownPosition';
  constructor(
    readonly where: string,
    readonly reason = 'is no position that this log has reached',
  ) {
    super(`${where}: this log has not reached such a position`);
  }
}

/** The append may or may not have been written. Retry it with the same event ids and expected revision. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';
}

/** The log contradicts itself: reading by stream and in log order differ. The message is one line. */
export class LogDamaged extends Error {
  override readonly name = 'LogDamaged';
  constructor(
    message: string,
    /** The event with the fault, if it is one event's. */
    readonly at: Pick<RecordedEvent, 'position' | 'stream' | 'revision'> | undefined,
  ) {
    super(message);
  }
}

/** The log cannot be reached or used. An append that ended so wrote nothing. */
export class LogUnavailable extends Error {
  override readonly name: string = 'LogUnavailable';
}

/** The store removes from its files what was erased, and has not come to its end. */
export class ScrubTakesTime extends LogUnavailable {
  override readonly name = 'ScrubTakesTime';
}

/** Another process owns the log, and only it may write. The message is a clause with the file. */
export class LogInUse extends LogUnavailable {
  override readonly name = 'LogInUse';
}

/** The events of this stream were erased, and the store does not take new events for it yet. Nothing was written. */
export class StreamErased extends LogUnavailable {
  override readonly name = 'StreamErased';
}
