import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { OperationRefused } from '../commands/rebuilds.js';
import { Interrupted } from './interrupted.js';
import { print } from './terminal.js';

/**
 * Asks on the terminal whether to do something, unless `yes`, and prints it where nothing is done; `verb` and `done` as
 * in "skip" and "skipped". Returns true if it was confirmed. Throws OperationRefused where nobody can be asked,
 * Interrupted at Ctrl-C, and the signal's reason.
 */
export const confirm = async (
  { json, signal }: { readonly json: boolean; readonly signal: AbortSignal },
  { yes = false }: { readonly yes?: boolean },
  verb: string,
  done: string,
): Promise<boolean> => {
  const isAgreed = yes || (await answered(json, signal, verb, done));
  signal.throwIfAborted();
  if (!isAgreed) print({ json }, { [done]: false }, `nothing is ${done}`);
  return isAgreed;
};

const answered = async (json: boolean, signal: AbortSignal, verb: string, done: string): Promise<boolean> => {
  if (json || !process.stdin.isTTY || !process.stderr.isTTY)
    throw new OperationRefused(
      `this is not a terminal, so nothing can be confirmed: add --yes to ${verb} it`,
    );
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // In raw mode a terminal sends no signal for Ctrl-C: readline gets the key.
  const interrupted = new AbortController();
  terminal.once('SIGINT', () => {
    interrupted.abort(new Interrupted(`interrupted: nothing is ${done}`));
  });
  try {
    // Ctrl-D closes it: Node then leaves the question without an answer, or rejects it, depending on its version.
    const closed = once(terminal, 'close').then(() => '');
    const asked = terminal.question(`${verb.charAt(0).toUpperCase()}${verb.slice(1)} it? [y/N] `, {
      signal: AbortSignal.any([signal, interrupted.signal]),
    });
    const answer = await Promise.race([asked.catch(() => ''), closed]);
    signal.throwIfAborted();
    interrupted.signal.throwIfAborted();
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
};
