import { createPrivateKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { verifyListProof } from '../../src/transparency/list-proof.js';
import { signerKey } from '../../src/audit/key.js';
import { fetched, until } from '../processes.js';
import { type Context, interleaved, type Sample } from '../results.js';
import { percentiles } from '../statistics.js';
import { readerOf, type Target } from '../target.js';

/** Plants of the lists that are proven, and of each owner who is erased. */
const SHORT = 20;
const LONG = 1_000;

/** Proofs of a round, one after the other by one client, and checks of a round. */
const PROOFS = 200;
const CHECKS = 20;

/** Lists a second of others, while an owner is erased. */
const LISTS_PER_SECOND = 200;

/** Seconds for which lists are measured beside an erasure, and without one: longer than an erasure takes. */
const BESIDE_SECONDS = 10;

/** The parts of this workload, which can be asked for one by one. */
export const PROOFS_OF_LARGE = ['list-proof', 'list-check', 'erase'];

/** Proofs of lists, and owners who are erased, with a service on a log of many owners that it has read. */
export const proofs = async (
  context: Context,
  target: Target,
  dataDir: string,
  others: readonly string[],
): Promise<void> => {
  if (!PROOFS_OF_LARGE.some(context.wants)) return;
  for (const plants of [SHORT, LONG]) await target.fill(plants);
  if (context.wants('list-proof')) await listProofs(context, await proofOf(target, SHORT));
  if (context.wants('list-check')) await listChecks(context, target, dataDir);
  if (context.wants('erase')) await erasures(context, target, others);
};

/** Gives what asks for the proof of a reader's list. */
const proofOf = async ({ url, tokens }: Target, plants: number): Promise<() => Promise<string>> => {
  const authorization = await tokens.authorization(readerOf(plants));
  // The link names what the list has shown: without it, a proof is of the last checkpoint, which may lack plants yet.
  const headers = { authorization, prefer: 'proof' };
  const listed = await fetched(`${url}/plants?limit=${plants}`, { headers });
  await listed.arrayBuffer();
  const path = /<([^>]*)>; rel="proof"/.exec(listed.headers.get('link') ?? '')?.[1];
  if (path === undefined) throw new Error(`a list of ${plants} has no link to its proof`);
  return async () => (await fetched(new URL(path, listed.url), { headers: { authorization } })).text();
};

/** Does something again and again. Its value is the median time that it took, in milliseconds. */
const timesOf = async (times: number, work: () => unknown): Promise<Sample> => {
  const took: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const began = performance.now();
    await work();
    took.push(performance.now() - began);
  }
  const { p50, p99 } = percentiles(took);
  return { value: p50, p50, p99 };
};

/** Proofs of a list of 20 by one client. */
const listProofs = async (context: Context, proof: () => Promise<string>): Promise<void> => {
  const text = await proof();
  const rows = JSON.stringify((JSON.parse(text) as { plants: unknown }).plants);
  const list = `list of ${SHORT}`;
  await interleaved(context, 'list-proof', 'ms', { [list]: () => timesOf(PROOFS, proof) });
  context.results.add('list-proof, beside the rows', list, 'bytes', [text.length - rows.length]);
};

/** Verifies list proofs as `plants check` does, in this process. */
const listChecks = async (context: Context, target: Target, dataDir: string): Promise<void> => {
  const text = await (await proofOf(target, LONG))();
  const checkpoint = await (await fetched(`${target.url}/log/checkpoint`)).text();
  const [origin = ''] = checkpoint.split('\n');
  const key = signerKey(origin, createPrivateKey(await readFile(join(dataDir, 'audit-key.pem'))));
  const check = async (): Promise<void> => {
    const result = await verifyListProof(text, { keys: [key], witnesses: [] });
    if (result.verdict === 'refused' || result.plants.length !== LONG)
      throw new Error(`a list proof of ${LONG} plants is not proven`);
  };
  await interleaved(context, 'list-check', 'ms', { [`list of ${LONG}`]: () => timesOf(CHECKS, check) });
};

/** An owner of 1,000 plants is erased, while others list: how long it takes, and how long they wait. */
const erasures = async (context: Context, target: Target, others: readonly string[]): Promise<void> => {
  const order = { perSecond: LISTS_PER_SECOND, seconds: BESIDE_SECONDS, creates: false };
  const lists = () => target.steady(others, order);
  const took: number[] = [];
  await lists();
  await interleaved(context, 'erase: lists of others', 'ms (p99)', {
    without: lists,
    'beside an erasure': async () => {
      const beside = lists();
      await delay(BESIDE_SECONDS * 300); // past the part that is not counted
      took.push(await erased(target, readerOf(LONG)));
      const sample = await beside;
      await target.fill(LONG); // the owner begins again, for the next round
      return sample;
    },
  });
  context.results.add('erase', `owner of ${LONG} plants`, 's', took);
};

/** From the order until the files hold nothing of the owner, in seconds. */
const erased = async ({ server, url, tokens }: Target, owner: string): Promise<number> => {
  const authorization = await tokens.authorization('operator', 'plants:erase');
  const began = performance.now();
  const ordered = await fetched(`${url}/operations/erasures`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ owner, reason: 'the benchmark has asked for it' }),
  });
  const location = ordered.headers.get('location') ?? '';
  let end = began;
  await until('the erasure is finished', server.process, async () => {
    const answer = await fetched(new URL(location, ordered.url), { headers: { authorization } });
    end = performance.now();
    const { state } = (await answer.json()) as { state: string };
    if (state === 'cancelled') throw new Error('the erasure was cancelled');
    return state === 'finished';
  });
  return (end - began) / 1_000;
};
