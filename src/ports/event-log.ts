/**
 * An event's place in the whole log: an opaque text whose string order is the order of the log, so that SQL, Lua
 * and JavaScript all compare it with `<`. All positions of one log have the same length.
 */
export type Position = string & { readonly __brand: 'Position' };

/** Before the first event: less than every position. */
export const START = '' as Position;

/** The greatest of some positions; START where there is none. */
export const newestOf = (positions: readonly Position[]): Position =>
  positions.reduce((newest, position) => (position > newest ? position : newest), START);

/** What an append states about its stream: that it has no event yet, or the revision of its last one. */
export type ExpectedRevision = 'none' | bigint;

/** A JSON value that survives being stored: no undefined, no bigint, no NaN. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** What is known about how an event came to be. */
export type EventMetadata = Readonly<{
  /** The version of the event's type, from 1. */
  schemaVersion: number;
  /** When it was decided: RFC 3339, UTC, from the clock port. */
  decidedAt: string;
  /** Who asked: the token's subject, and the client that it was issued to where the token says so. */
  actor: Readonly<{ sub: string; clientId?: string }>;
  /** The same for everything that follows from one request of a client. */
  correlationId: string;
  /** The command that caused the event. */
  causationId: string;
  /** W3C Trace Context of the request, where it had one. */
  traceparent?: string;
}>;

/** An event that is to be appended. `id` is a UUID, the same again whenever the same append is retried. */
export interface NewEvent {
  readonly id: string;
  readonly type: string;
  readonly data: Json;
  readonly metadata: EventMetadata;
}

/**
 * An event as the log holds it. `data` and `metadata` are parsed JSON and not to be trusted before the codec has
 * looked: text that is no JSON comes as a string.
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

/** Where the last event of an append stands. */
export interface Appended {
  readonly revision: bigint;
  readonly position: Position;
}

/** Whether appends work, as far as the last ones tell. */
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
  /** Whether a restart of this process is expected to help: only ever where the state is `stopped`. */
  readonly restartHelps: boolean;
}

/** A piece of a subscription. */
export interface LogBatch {
  /** The next events in log order: at most 500, possibly none. */
  readonly events: readonly RecordedEvent[];
  /** Everything at or before this position has been delivered. At least the last event's; never goes back. */
  readonly position: Position;
  /** Whether the end of the log was reached when this batch was read. */
  readonly caughtUp: boolean;
}

/** How soon after the last event a subscription gives its next batch, an empty one if need be, in milliseconds. */
export const QUIET_AFTER_MS = 250;

/**
 * The truth: an append-only log of events in streams. There is no update, no delete and no overwrite.
 *
 * An implementer guarantees:
 * - an append that returned is durable, is in the log exactly once, and was atomic;
 * - revisions of a stream count from 0 without a gap;
 * - every reader sees the events in one order, that of their positions, and never one before its predecessor;
 * - appends that one instance is given one after the other are written in that order, as far as they are written;
 * - an append with the same event ids at the same expected revision succeeds again, with the first result.
 *
 * Every method throws LogUnavailable where the log cannot be reached or used (and after `close`), in bounded time.
 *
 * It is a class without code only so that Nest can inject by it.
 */
export abstract class EventLog {
  /**
   * Appends one or more events to a stream. Throws WrongExpectedRevision if the stream is not as stated (nothing
   * was written), LogUnavailable if nothing was written, OutcomeUnknown if it may or may not have been.
   */
  abstract append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended>;

  /**
   * The events of a stream after a revision (from the first one, without it), in order, at most `limit` of them (all of
   * them, without it); none if the stream does not exist. A stream grows forever: whoever cannot know that it is short
   * reads it in pages.
   */
  abstract readStream(stream: string, after?: bigint, limit?: number): Promise<RecordedEvent[]>;

  /** The last event of a stream; undefined if the stream does not exist. Costs the same however long the stream is. */
  abstract readLast(stream: string): Promise<RecordedEvent | undefined>;

  /** All events after a position up to the end of the log as it was when the end was reached. */
  abstract readAll(after: Position): AsyncIterable<RecordedEvent>;

  /**
   * All events after a position, and then those still to come, until `signal` aborts (it then ends, without an
   * error). A caller gets a batch at least once a second, and QUIET_AFTER_MS after the last event, an empty one
   * where nothing happened, so that it needs no timer of its own. Throws LogUnavailable when it cannot go on; re-subscribing is the caller's decision.
   */
  abstract subscribe(after: Position, signal: AbortSignal): AsyncIterable<LogBatch>;

  /** The position of the last event, or START in an empty log: none that this log has given is beyond it. */
  abstract head(): Promise<Position>;

  /**
   * How much reading there is after one position, up to another, in a unit of the log's own that is good for nothing
   * but shares: events or bytes. 0 where `upTo` is not after it.
   */
  abstract distance(after: Position, upTo: Position): number;

  /** How many events are after one position, up to another; undefined where the positions of the log do not say. */
  abstract count(after: Position, upTo: Position): number | undefined;

  /** Resolves if appends and reads would work, as far as that is known. */
  abstract ready(): Promise<void>;

  /**
   * Looks at all events after a position, some at a time: whether each is found by its stream as it stands in the log,
   * follows the one before it in that stream, and is stored as the bytes that an append writes. Gives how far it is. Throws LogDamaged at the first that does not,
   * and where the store as a whole is not as this service made it. A log whose server does so itself gives nothing.
   */
  abstract check(after: Position): AsyncIterable<Position>;

  /**
   * Whether appends work, by the outcomes of the last ones. While they fail the log is tried again, at least every
   * five seconds and without appending anything, so that the state is `ok` again soon after they would succeed.
   */
  abstract health(): AppendHealth;

  /**
   * What tells this log from every other one, also from a new one at the same place; stable over restarts. A
   * read model belongs to the log with its identity.
   */
  abstract identity(): string;

  /** Lets appends that have been handed over finish, then lets go of everything. May be called twice. */
  abstract close(): Promise<void>;
}

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

/** A position is none of this log, or one that it has not reached. `where` names the parameter that holds it. */
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

/** The log contradicts itself: what is read by stream is not what stands in its order. The message is one line. */
export class LogDamaged extends Error {
  override readonly name = 'LogDamaged';
  constructor(
    message: string,
    /** The event that it was noticed at, where it was one. */
    readonly at: Pick<RecordedEvent, 'position' | 'stream' | 'revision'> | undefined,
  ) {
    super(message);
  }
}

/** The log cannot be reached or used. An append that ended so wrote nothing. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
}
