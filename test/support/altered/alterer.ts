import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type Expected, randomOf } from './kind.js';
import { WAYS } from './kinds.js';
import { type Model } from './model.js';

interface Order {
  readonly way: string;
  readonly folder: string;
  readonly model: Model;
  readonly seed: number;
}

type Reply = { readonly expected: Expected } | { readonly error: string };

/**
 * A process of its own that alters files: closing a file that this process has opened besides SQLite would drop the
 * locks that SQLite holds on it (https://sqlite.org/howtocorrupt.html, section 2.2).
 */
export class Alterer {
  readonly #child: ChildProcess = fork(fileURLToPath(import.meta.url), ['alterer'], {
    execArgv: ['--no-warnings'],
  });

  async alter(order: Order): Promise<Expected> {
    const answered = once(this.#child, 'message');
    this.#child.send(order);
    const [reply] = (await answered) as [Reply];
    if ('error' in reply) throw new Error(`${order.way}: ${reply.error}`);
    return reply.expected;
  }

  async end(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.disconnect();
    await ended;
  }
}

const perform = async ({ way, folder, model, seed }: Order): Promise<Reply> => {
  try {
    const alter = WAYS[way]?.alter;
    if (!alter) throw new Error('no such way');
    return { expected: await alter({ folder, model, random: randomOf(seed) }) };
  } catch (error) {
    return { error: (error as Error).stack ?? String(error) };
  }
};

if (process.argv[2] === 'alterer' && process.send)
  process.on('message', (order: Order) => {
    void perform(order).then((reply) => process.send?.(reply));
  });
