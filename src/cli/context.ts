import { type System } from '../operations/status.js';
import { type Operator } from '../write/rebuilds.js';

/** What an operator's command works with. */
export interface CliContext extends System {
  readonly operator: Operator;
  /** Aborts, with an Interrupted, when somebody asks the command to stop. */
  readonly signal: AbortSignal;
  /** Print one JSON object, and no progress. */
  readonly json: boolean;
}

/** Prints a command's result: `value` where JSON is wanted, else `text`. */
export const print = ({ json }: Pick<CliContext, 'json'>, value: unknown, text: string): void => {
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
};
