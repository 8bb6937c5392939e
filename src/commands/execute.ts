import { backoffMs, withJitter } from '../runtime/backoff.js';
import { pause } from '../runtime/pause.js';
import {
  type Appended,
  type EventLog,
  type ExpectedRevision,
  LogUnavailable,
  type NewEvent,
  OutcomeUnknown,
  WrongExpectedRevision,
} from '../log/event-log.js';

/** Tries of an append whose outcome is unknown: enough for a leader election of the log. */
const APPEND_TRIES = 3;

/** The pauses before an append is tried again. */
const PAUSES = { firstMs: 50, longestMs: 100 };

/** The result of reading a stream: the state at its last revision, or the earlier result of the same command. */
export type Read<State, Done> =
  | { readonly state: State; readonly revision: bigint | undefined }
  | { readonly done: Done };

/** The steps of one command: read a stream, decide on it. */
export interface Execution<State, Done> {
  /** The most decisions, while other writers of the stream are faster. */
  readonly races: number;
  /** Reads the stream. Called again after each lost race, with the state that was decided on. */
  readonly read: (
    before?: Readonly<{ state: State; revision: bigint | undefined }>,
  ) => Promise<Read<State, Done>>;
  readonly decide: (state: State) => NewEvent[] | Promise<NewEvent[]>;
  readonly tooManyRaces: () => Error;
}

/**
 * Reads a stream, decides, and appends at the revision that was read; again where another writer was faster. Throws what
 * `read` and `decide` throw, LogUnavailable (nothing was written) and OutcomeUnknown (it may have been).
 */
export const execute = async <State, Done = never>(
  log: EventLog,
  stream: string,
  { races, read, decide, tooManyRaces }: Execution<State, Done>,
): Promise<Appended | Done> => {
  let before: Readonly<{ state: State; revision: bigint | undefined }> | undefined;
  for (let race = 1; race <= races; race++) {
    const found = await read(before);
    if ('done' in found) return found.done;
    const events = await decide(found.state);
    try {
      return await appendWithRetry(log, stream, found.revision ?? 'none', events);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
    }
    before = found;
  }
  throw tooManyRaces();
};

/**
 * Appends, and tries again with the same ids and expected revision while the outcome is unknown. Throws OutcomeUnknown
 * also where a later try cannot reach the log: an earlier one may have been written.
 */
export const appendWithRetry = async (
  log: EventLog,
  stream: string,
  expected: ExpectedRevision,
  events: readonly NewEvent[],
  wait: (ms: number) => Promise<void> = pause,
): Promise<Appended> => {
  let unknown: OutcomeUnknown | undefined;
  for (let attempt = 1; ; attempt++) {
    try {
      return await log.append(stream, expected, events);
    } catch (error) {
      if (error instanceof OutcomeUnknown) unknown = error;
      else if (!(unknown && error instanceof LogUnavailable)) throw error;
      if (attempt === APPEND_TRIES) throw unknown;
      await wait(withJitter(backoffMs(attempt - 1, PAUSES)));
    }
  }
};
