/**
 * A load at a fixed rate, in a process of its own: each request has a moment when it should begin, and its latency is
 * counted from there, however late it really begins (no coordinated omission). The order as JSON in its argument, the
 * result on standard output.
 */
import { Agent, request as send } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type Load } from './load.js';
import { type LoadRequest, requestsOf } from './requests.js';
import { percentile } from './statistics.js';

/** A load at a fixed rate. */
export interface SteadyLoad extends Omit<Load, 'connections'> {
  readonly perSecond: number;
}

/** Latencies from the moment when a request should have begun, in milliseconds. */
export interface SteadyLoaded {
  readonly requests: number;
  readonly failed: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly greatest: number;
}

/** A server that is too slow gets no more at once: what is due then begins late, and that counts. */
const CONNECTIONS = 256;

/** The first requests of new connections and cold code are not counted: this share of the time. */
const WARM_UP = 0.2;

const load = JSON.parse(process.argv[2] ?? '{}') as SteadyLoad;
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
const { hostname, port } = new URL(load.url);

const succeeds = ({ method, path, headers, body = '' }: LoadRequest): Promise<boolean> =>
  new Promise((resolve) => {
    const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) };
    const sent = send(
      { agent, hostname, port, method, path, headers: { ...headers, ...length } },
      (answer) => {
        const good = answer.statusCode !== undefined && answer.statusCode < 300;
        answer.resume();
        answer.once('end', () => {
          resolve(good);
        });
        answer.once('error', () => {
          resolve(false);
        });
      },
    );
    sent.once('error', () => {
      resolve(false);
    });
    sent.end(body);
  });

const next = requestsOf(load);
const total = Math.round(load.perSecond * load.seconds);
const took: number[] = [];
const under: Promise<void>[] = [];
let failed = 0;
const begin = performance.now();
for (let number = 0; number < total; number++) {
  const due = begin + (number * 1_000) / load.perSecond;
  const early = due - performance.now();
  if (early > 1) await delay(early);
  under.push(
    succeeds(next()).then((good) => {
      if (!good) failed += 1;
      if (number >= total * WARM_UP) took.push(performance.now() - due);
    }),
  );
}
await Promise.all(under);
agent.destroy();
const loaded: SteadyLoaded = {
  requests: total,
  failed,
  p50: percentile(took, 0.5),
  p99: percentile(took, 0.99),
  p999: percentile(took, 0.999),
  greatest: percentile(took, 1),
};
process.stdout.write(`RESULT ${JSON.stringify(loaded)}\n`);
