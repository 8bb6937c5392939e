import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type AttackName, type Target } from './attacks.js';
import { type FairFigures, type FairOrder } from './fair-child.js';

const start = (file: string, ...args: string[]): ChildProcess =>
  fork(fileURLToPath(new URL(file, import.meta.url)), args, { env: {} });

const end = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
};

/** A client that lists its plants, in a process of its own. */
export class FairClient {
  readonly #child = start('fair-child.js');

  /** Lists, and gives what that took. */
  async run(order: FairOrder): Promise<FairFigures> {
    const answer = once(this.#child, 'message') as Promise<[FairFigures]>;
    this.#child.send(order);
    return (await answer)[0];
  }

  end(): Promise<void> {
    return end(this.#child);
  }
}

/** Starts a hostile client in a process of its own, and gives how to end it. Rejects if it ends by itself. */
export const attack = (name: AttackName, target: Target): (() => Promise<void>) => {
  const child = start('hostile-child.js', name, JSON.stringify(target));
  return async () => {
    if (child.exitCode !== null) throw new Error(`the hostile client has ended (${child.exitCode})`);
    await end(child);
  };
};
