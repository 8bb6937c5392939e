import { Worker } from 'node:worker_threads';
import { type EraseOrder } from './event-log-erasure.js';

/** Work on a file that takes seconds: erases events of a log, removes what erased ones have left in it, or VACUUM alone. */
export type Upkeep =
  | { readonly kind: 'erase'; readonly order: EraseOrder }
  | { readonly kind: 'scrub' | 'vacuum' };

/** `stop`: nothing may be written any more before a restart. */
export type UpkeepOutcome =
  | { readonly answer: unknown }
  | { readonly failed: string; readonly stop: boolean };

/** Does it in a thread, on a connection of its own, while the event loop goes on. Never rejects. */
export const upkeep = (file: string, work: Upkeep): Promise<UpkeepOutcome> =>
  new Promise((resolve) => {
    const thread = new Worker(new URL('./upkeep.worker.js', import.meta.url), { workerData: { file, work } });
    const ended = (error?: Error): void => {
      resolve({ failed: `a thread of ${file} has ended (${error?.message ?? 'no reason'})`, stop: true });
    };
    thread.once('message', resolve);
    thread.once('error', ended);
    thread.once('exit', () => {
      ended();
    });
  });
