/**
 * Clients that list right after their writes, in a process of their own: each adds a plant and, once that is answered,
 * asks for the first page of its list. Ids count down, so that the newest plant stands first: it fails where another one
 * does. Requests are pairs of a write and a list, and latencies those of both together.
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

const { url, authorizations, seconds, greatestId } = order() as WriteThenList;
const clients = linesOf(authorizations);
const agent = new Agent({ keepAlive: true, maxSockets: clients.length });
const took: number[] = [];
let id = greatestId + 1;
let failed = 0;
const begin = performance.now();

const client = async (authorization: string): Promise<void> => {
  while (performance.now() < begin + 1_000 * seconds) {
    id -= 1;
    const { name } = plantOf(id);
    const from = performance.now();
    const written = await answerTo(creation(id, authorization), url, agent).catch(() => undefined);
    const listed = await answerTo(listing(authorization), url, agent).catch(() => undefined);
    took.push(performance.now() - from);
    if (written?.status !== 201 || listed?.status !== 200) failed += 1;
    else if ((JSON.parse(listed.body) as { name: string }[])[0]?.name !== name)
      throw new Error(`a list lacked "${name}", whose create was answered before`);
  }
};

await Promise.all(clients.map(client));
agent.destroy();
const lasted = (performance.now() - begin) / 1_000;
const loaded: Loaded = { requests: took.length, seconds: lasted, failed, ...percentiles(took) };
answer(loaded);
