import { type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { FairQueue, NotBegun, type QueueLimits } from '../../runtime/fair-queue.js';
import { type LongPage, type Page } from '../../lists/read-model.js';
import { Problem } from '../problem.js';

/**
 * Long lists that are read at once: enough for every core, and some 6 MB together. As many wait as there may be
 * connections, and no longer than clients do.
 */
const LIMITS: QueueLimits = { atOnce: 4, waitingForKey: 1_000, waiting: 5_000, waitMs: 10_000 };

/**
 * Long lists of one owner, in bytes a millisecond: 12 of the longest in a second, or 300 of a thousand usual plants.
 * Without it one owner keeps a core busy with them, and memory is not cleared as fast as it is filled.
 */
const PACE = 20_000;

/** Lets a few long lists be read at once, one for each owner. The others wait, and owners take turns. */
export class LongLists {
  readonly #queue: FairQueue;

  constructor(limits = LIMITS) {
    this.#queue = new FairQueue(limits);
  }

  /**
   * Returns what `read` returns, and throws what it throws. Throws Problem where too many wait,
   * or the client has gone before its turn.
   */
  async read<List extends Page | LongPage>(
    owner: string,
    response: Pick<ServerResponse, 'once'>,
    read: () => Promise<List>,
  ): Promise<List> {
    const gone = new AbortController();
    response.once('close', () => {
      gone.abort(new Problem('request_timeout', 'The connection was closed before the answer was ready.'));
    });
    return new Promise((resolve, reject) => {
      const readAndRest = async (): Promise<void> => {
        const list = await read();
        resolve(list);
        if ('body' in list) await delay(list.body.length / PACE, undefined, { ref: false });
      };
      this.#queue.run(owner, gone.signal, readAndRest).catch((error: unknown) => {
        reject(error instanceof NotBegun ? tooMany() : (error as Error));
      });
    });
  }
}

const tooMany = (): Problem =>
  new Problem('overloaded', 'Too many long lists are asked for. Try again, or ask for shorter pages.', {
    headers: { 'Retry-After': '1' },
  });
