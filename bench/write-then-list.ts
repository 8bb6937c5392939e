/**
 * Clients that list right after their writes, in a process of their own: each adds a plant and, once that is answered,
 * asks for the first page of its list, which must begin with that plant. The order as JSON in its argument, the result
 * on standard output. Ids count down, so that the newest plant stands first.
 */
import { readFileSync } from 'node:fs';
import { Agent, request as send } from 'node:http';
import { type Load, type Loaded } from './load.js';
import { creation, type LoadRequest } from './requests.js';
import { percentile } from './statistics.js';

/** Each client is the owner of a line of `authorizations`. */
export interface WriteThenList extends Pick<Load, 'url' | 'path' | 'authorizations' | 'seconds'> {
  /** No greater id is used. */
  readonly greatestId: number;
}

/** Requests are pairs of a write and a list, and latencies those of both together. */
export interface WrittenAndListed extends Loaded {
  /** Lists that were answered without the plant whose write was answered before. */
  readonly missing: number;
}

const load = JSON.parse(process.argv[2] ?? '{}') as WriteThenList;
const { hostname, port } = new URL(load.url);
const authorizations = readFileSync(load.authorizations, 'utf8').trim().split('\n');
const agent = new Agent({ keepAlive: true, maxSockets: authorizations.length });

/** The body of a good answer; undefined without one. */
const answered = ({ method, path, headers, body = '' }: LoadRequest): Promise<string | undefined> =>
  new Promise((resolve) => {
    const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) };
    const sent = send(
      { agent, hostname, port, method, path, headers: { ...headers, ...length } },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        answer.once('end', () => {
          resolve((answer.statusCode ?? 500) < 300 ? text : undefined);
        });
        answer.once('error', () => {
          resolve(undefined);
        });
      },
    );
    sent.once('error', () => {
      resolve(undefined);
    });
    sent.end(body);
  });

const took: number[] = [];
let id = load.greatestId + 1;
let failed = 0;
let missing = 0;
const begin = performance.now();
const end = begin + 1_000 * load.seconds;

const client = async (authorization: string): Promise<void> => {
  while (performance.now() < end) {
    id -= 1;
    const write = creation(id, authorization);
    const { name } = JSON.parse(write.body ?? '{}') as { name: string };
    const from = performance.now();
    const list =
      (await answered(write)) === undefined
        ? undefined
        : await answered({ method: 'GET', path: load.path, headers: { authorization } });
    took.push(performance.now() - from);
    if (list === undefined) failed += 1;
    else if ((JSON.parse(list) as { name: string }[])[0]?.name !== name) missing += 1;
  }
};

await Promise.all(authorizations.map(client));
const seconds = (performance.now() - begin) / 1_000;
agent.destroy();
const result: WrittenAndListed = {
  requests: took.length,
  seconds,
  failed,
  p50: percentile(took, 0.5),
  p99: percentile(took, 0.99),
  p999: percentile(took, 0.999),
  missing,
};
process.stdout.write(`${JSON.stringify(result)}\n`);
