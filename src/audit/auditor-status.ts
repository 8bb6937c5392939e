import { type Position, START } from '../log/event-log.js';
import { type Alarm, type SignedCheckpoint } from './tree-store.js';
import { type DoubtfulTimes } from './event-times.js';
import { type Signing } from './recorded-checkpoints.js';
import { type WitnessingStatus } from './witnessing.js';

/** The next state from any state but `live`. */
const TRANSITIONS = {
  more: 'catching_up',
  end: 'live',
  failure: 'disconnected',
  unreadable: 'blocked',
  alarm: 'alarm',
} as const;

/**
 * The states of an auditor, and the next state after each transition, as docs/states.md draws them. `more`: events were
 * appended and the log has more; `end`: the tree has reached the end of the log; `failure`: the log or the store cannot
 * be used; `unreadable`: an event without a leaf; `alarm`: an alarm stands, until an operator lifts it.
 */
export const AUDITOR_STATES = {
  starting: TRANSITIONS,
  catching_up: TRANSITIONS,
  // Stays live while new events stream in: only a restart has to catch up.
  live: { ...TRANSITIONS, more: 'live' },
  disconnected: TRANSITIONS,
  blocked: TRANSITIONS,
  alarm: TRANSITIONS,
} as const;

/** In `alarm` nothing is appended or signed until an operator has lifted it. */
export type AuditorState = keyof typeof AUDITOR_STATES;

export type AuditorTransition = keyof typeof TRANSITIONS;

/** The state of an auditor, and its progress. */
export interface AuditorStatus {
  readonly state: AuditorState;
  /** When that began. */
  readonly since: Date;
  /** Leaves in the tree. */
  readonly size: number;
  /** The position of the last one's event. */
  readonly position: Position;
  /** The last that was signed. */
  readonly checkpoint: Pick<SignedCheckpoint, 'size' | 'signedAt'> | undefined;
  /** When the whole log was last found as it was signed. */
  readonly recheckedAt: string | undefined;
  /** The recheck of the whole log in progress: when it began (RFC 3339), and how many events it has read. */
  readonly rechecking?: { readonly since: string; readonly events: number } | undefined;
  /** Why it is disconnected or blocked. */
  readonly reason: string | undefined;
  readonly alarm: Alarm | undefined;
  /** With which key it signs, and what the log records of that; undefined before the log was read. */
  readonly signing?: Signing | undefined;
  /** The progress of the witnesses; absent where none is set. */
  readonly witnessing?: WitnessingStatus | undefined;
  /** Events whose times contradict the checkpoints around them, by the last recheck; absent where none does. */
  readonly times?: DoubtfulTimes | undefined;
  /** A note about this start for operators, which is no failure. */
  readonly notice?: string | undefined;
}

/** The status before anything was read. */
export const startingStatus = (since: Date, notice: string | undefined): AuditorStatus => ({
  state: 'starting',
  since,
  size: 0,
  position: START,
  checkpoint: undefined,
  recheckedAt: undefined,
  reason: undefined,
  alarm: undefined,
  notice,
});

/** The auditor of this process, as others see it. An abstract class without code, so that Nest can inject by it. */
export abstract class AuditorOfProcess {
  abstract readonly status: AuditorStatus;
}
