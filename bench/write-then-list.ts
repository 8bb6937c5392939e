/**
 * Clients that list right after their writes, in a process of their own: each adds a plant and, once that is answered,
 * asks for the first page of its list, which must begin with that plant. Ids count down, so that the newest plant stands
 * first.
 */
import { Agent } from 'node:http';
import { plantOf } from './filled.js';
import { type Load, type Loaded } from './load.js';
import { answer, order } from './program.js';
import { answerTo, creation, linesOf, listing } from './requests.js';
import { percentiles } from './statistics.js';

/** Each client is the owner of a line of `authorizations`. */
export interface WriteThenList extends Pick<Load, 'url' | 'authorizations' | 'seconds'> {
  /** No greater id is used. */
  readonly greatestId: number;
}

/** Requests are pairs of a write and a list, and latencies those of both together. */
export interface WrittenAndListed extends Loaded {
  /** Lists that were answered without the plant whose write was answered before. */
  readonly missing: number;
}

const { url, authorizations, seconds, greatestId } = order<WriteThenList>();
const clients = linesOf(authorizations);
const agent = new Agent({ keepAlive: true, maxSockets: clients.length });
const took: number[] = [];
let id = greatestId + 1;
let failed = 0;
let missing = 0;
const begin = performance.now();

const client = async (authorization: string): Promise<void> => {
  while (performance.now() < begin + 1_000 * seconds) {
    id -= 1;
    const { name } = plantOf(id);
    const from = performance.now();
    try {
      const written = await answerTo(creation(id, authorization), url, agent);
      const listed = await answerTo(listing(authorization), url, agent);
      if (written.status !== 201 || listed.status !== 200) failed += 1;
      else if ((JSON.parse(listed.body) as { name: string }[])[0]?.name !== name) missing += 1;
    } catch {
      failed += 1;
    }
    took.push(performance.now() - from);
  }
};

await Promise.all(clients.map(client));
agent.destroy();
const lasted = (performance.now() - begin) / 1_000;
const result: WrittenAndListed = {
  ...{ requests: took.length, seconds: lasted, failed, missing },
  ...percentiles(took),
};
answer(result);
