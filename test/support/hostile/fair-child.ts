/** A client in a process of its own that lists its plants at a modest rate until it is stopped. */
import { Agent, get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

/** Sent as a message. */
export interface FairOrder {
  readonly port: number;
  readonly token: string;
  readonly path: string;
  readonly perSecond: number;
  readonly seconds: number;
}

/** Sent as a message. */
export interface FairFigures {
  readonly lists: number;
  /** Statuses other than 200, and errors of connections, with how many there were. */
  readonly failed: Readonly<Record<string, number>>;
  /** In milliseconds, from the sending of a request to the end of its answer. */
  readonly p50: number;
  readonly p99: number;
  readonly greatest: number;
}

const agent = new Agent({ keepAlive: true });

const list = ({ port, token, path }: FairOrder): Promise<string> =>
  new Promise((resolve) => {
    get({ agent, host: '127.0.0.1', port, path, headers: { authorization: `Bearer ${token}` } })
      .on('error', (error: NodeJS.ErrnoException) => {
        resolve(error.code ?? error.message);
      })
      .on('response', (response) => {
        response
          .on('end', () => {
            resolve(String(response.statusCode));
          })
          .on('error', (error: NodeJS.ErrnoException) => {
            resolve(error.code ?? error.message);
          })
          .resume();
      });
  });

/** Begins each request when it is due, whether those before it were answered or not (no coordinated omission). */
const run = async (order: FairOrder): Promise<FairFigures> => {
  const times: number[] = [];
  const failed: Record<string, number> = {};
  const began = performance.now();
  const underWay: Promise<void>[] = [];
  const one = async (): Promise<void> => {
    const sent = performance.now();
    const status = await list(order);
    times.push(performance.now() - sent);
    if (status !== '200') failed[status] = (failed[status] ?? 0) + 1;
  };
  for (let number = 0; number < order.perSecond * order.seconds; number += 1) {
    const early = began + (number * 1_000) / order.perSecond - performance.now();
    if (early > 0) await delay(early);
    underWay.push(one());
  }
  await Promise.all(underWay);
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.floor(share * (times.length - 1))] ?? NaN;
  return { lists: times.length, failed, p50: at(0.5), p99: at(0.99), greatest: at(1) };
};

process.on('message', (order: FairOrder) => {
  void run(order).then((figures) => process.send?.(figures));
});
process.once('disconnect', () => process.exit());
