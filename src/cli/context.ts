import { type EventLog } from '../ports/event-log.js';

/** The event log and the options that a command gets which reads it. */
export interface CliContext {
  readonly log: EventLog;
  readonly now: () => Date;
  /** Aborts, with an Interrupted, at SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Print one JSON object, and no progress. */
  readonly json: boolean;
}

/** Prints a command's result: `value` where JSON is wanted, else `text`. */
export const print = ({ json }: { readonly json: boolean }, value: unknown, text: string): void => {
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
};
