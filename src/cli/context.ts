import { type System } from '../operations/status.js';
import { type Operator } from '../write/rebuilds.js';

/** The stores, the clock and the options that an operator's command gets. */
export interface CliContext extends System {
  readonly operator: Operator;
  /** Aborts, with an Interrupted, at SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Print one JSON object, and no progress. */
  readonly json: boolean;
}

/** Prints a command's result: `value` where JSON is wanted, else `text`. */
export const print = ({ json }: Pick<CliContext, 'json'>, value: unknown, text: string): void => {
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
};
