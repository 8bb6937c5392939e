/**
 * A load at a fixed rate, in a process of its own: each request has a moment when it should begin, and its latency is
 * counted from there, however late it really begins (no coordinated omission).
 */
import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type Load, type Loaded } from './load.js';
import { answer, order } from './program.js';
import { answerTo, creation, linesOf, listing } from './requests.js';
import { percentiles } from './statistics.js';

export interface SteadyLoad extends Pick<Load, 'url' | 'firstId' | 'authorizations' | 'seconds'> {
  readonly perSecond: number;
  /** True to make each tenth request a create; all others are lists of 20. */
  readonly creates: boolean;
}

/** A server that is too slow gets no more at once: what is due then begins late, and that counts. */
const CONNECTIONS = 256;

/** The first requests of new connections and cold code are not counted: this share of the time. */
const WARM_UP = 0.2;

const { url, firstId, authorizations, seconds, perSecond, creates } = order() as SteadyLoad;
const owners = linesOf(authorizations);
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
const requests = Math.round(perSecond * seconds);
const took: number[] = [];
let failed = 0;
const begin = performance.now();

const request = async (number: number, due: number): Promise<void> => {
  const authorization = owners[number % owners.length] ?? '';
  const create = creates && number % 10 === 9;
  const sent = create ? creation(firstId + number, authorization) : listing(authorization);
  const answered = await answerTo(sent, url, agent).catch(() => undefined);
  if (answered?.status !== (create ? 201 : 200)) failed += 1;
  if (number >= requests * WARM_UP) took.push(performance.now() - due);
};

const all: Promise<void>[] = [];
for (let number = 0; number < requests; number++) {
  const due = begin + (number * 1_000) / perSecond;
  const early = due - performance.now();
  if (early > 1) await delay(early);
  all.push(request(number, due));
}
await Promise.all(all);
agent.destroy();
const loaded: Loaded = { requests, seconds, failed, ...percentiles(took) };
answer(loaded);
