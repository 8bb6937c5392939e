import { type EventText } from '../stored-text.js';

/** An append. `expected` is -1 for a stream without events. */
export interface AppendOrder {
  readonly stream: string;
  readonly expected: number;
  readonly events: readonly EventText[];
}

/** The last event of an append, or the one that records an erasure. */
export interface Written {
  readonly revision: number;
  readonly seq: number;
}

/** Events to erase, as Erasing in the port says. */
export interface EraseOrder {
  readonly prefixes: readonly string[];
  readonly standIns: readonly (EventText & { readonly seq: number })[];
  readonly into: string;
  /** `expected` is -1 for a stream without events. */
  readonly record: { readonly stream: string; readonly expected: number; readonly event: EventText };
}

/**
 * What the writer does: commit appends together, erase events, remove what these have left in the files, and move all
 * pages into the database before it is closed.
 */
export type LogWork =
  | { readonly kind: 'append'; readonly orders: readonly AppendOrder[] }
  | { readonly kind: 'erase'; readonly order: EraseOrder }
  | { readonly kind: 'scrub' }
  | { readonly kind: 'finish' };

/** The answer to each kind of work. */
export interface LogAnswers {
  readonly append: BatchOutcome;
  readonly erase: Committed<Written | undefined>;
  /** Why it has to be repeated; undefined where it is done. */
  readonly scrub: string | undefined;
  readonly finish: undefined;
}

/** The outcomes of the appends of a batch, in their order. */
export type BatchOutcome = Committed<readonly (Written | 'wrong revision')[]>;

/** `stop`: nothing may be acknowledged any more. */
export type Committed<Outcomes> =
  | { readonly kind: 'committed'; readonly outcomes: Outcomes }
  | {
      readonly kind: 'failed';
      readonly reason: string;
      readonly written: 'nothing' | 'unknown';
      readonly stop: boolean;
    };

export interface OpenedLog {
  readonly identity: string;
  readonly journalMode: string;
  readonly synchronous: number;
  /** Why appends are expected to fail, if so. */
  readonly failing: string | undefined;
}

/** What the writer posts between batches. */
export type LogNotice =
  /** `files`: one of the log's files was taken away, so that reads may be old or wrong. */
  | {
      readonly kind: 'stopped';
      readonly reason: string;
      readonly files: boolean;
      readonly restartHelps: boolean;
    }
  /** Commits would fail now, or would succeed again. */
  | { readonly kind: 'failing'; readonly reason: string }
  | { readonly kind: 'writable' };
