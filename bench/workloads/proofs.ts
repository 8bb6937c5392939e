import { createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { verifyListProof } from '../../src/audit/state-tree/list-proof.js';
import { verifierKey } from '../../src/audit/note.js';
import { type Context } from '../context.js';
import { LoadedTarget, readerOf } from '../loaded-target.js';
import { Broken, output } from '../processes.js';
import { interleaved, type Sample } from '../round.js';
import { type Service, untilFarEnough } from '../service.js';
import { percentile } from '../statistics.js';
import { type SteadyLoad, type SteadyLoaded } from '../steady-load.js';

const STEADY = fileURLToPath(new URL('../steady-load.js', import.meta.url));

/** Plants of the lists that are proven, and of each owner who is erased. */
const SHORT = 20;
const LONG = 1_000;

/** Proofs of a round, one after the other by one client. */
const PROOFS = 200;

/** Checks of a round. */
const CHECKS = 20;

/** Lists a second of others, while an owner is erased. */
const LISTS_PER_SECOND = 200;

/** How long lists are measured beside an erasure, and without one, in seconds. It is longer than an erasure takes. */
const BESIDE_SECONDS = 10;

/** The parts of this workload, which can be asked for one by one. */
export const PROOFS_OF_LARGE = ['list-proof', 'list-check', 'erase'];

/** Proofs of lists, and owners who are erased, with a service on a log of many owners that it has read. */
export const proofs = async (
  context: Context,
  service: Service,
  dataDir: string,
  others: readonly string[],
): Promise<void> => {
  const { stage } = context;
  const target = LoadedTarget.of(service, stage);
  if (!PROOFS_OF_LARGE.some(context.wants)) return;
  for (const plants of [SHORT, LONG]) await target.fill(plants);
  const proofOf = async (plants: number): Promise<() => Promise<string>> => {
    const authorization = (await readFile(await target.readerFile(plants), 'utf8')).trim();
    // The link names what the list has shown: without it, a proof is of the last checkpoint, which may lack plants yet.
    const listed = await fetch(`${service.url}/plants?limit=${plants}`, {
      headers: { authorization, prefer: 'proof' },
    });
    await listed.arrayBuffer();
    const path = /<([^>]*)>; rel="proof"/.exec(listed.headers.get('link') ?? '')?.[1];
    if (path === undefined) throw new Broken(`a list of ${plants} has no link to its proof`);
    return async () => {
      const answer = await fetch(new URL(path, service.url), { headers: { authorization } });
      const text = await answer.text();
      if (!answer.ok) throw new Broken(`a list proof was answered with ${answer.status}: ${text}`);
      return text;
    };
  };
  if (context.wants('list-proof')) await listProofs(context, await proofOf(SHORT));
  if (context.wants('list-check')) await listChecks(context, service, dataDir, await proofOf(LONG));
  if (context.wants('erase')) await erasures(context, target, service, others);
};

/** Proofs of a list of 20 by one client. */
const listProofs = async (context: Context, proof: () => Promise<string>): Promise<void> => {
  const { results, say } = context;
  const rows = JSON.stringify((JSON.parse(await proof()) as { plants: unknown }).plants).length;
  const bytes = (await proof()).length - rows;
  const measure = async (): Promise<Sample> => {
    const took: number[] = [];
    for (let time = 0; time < PROOFS; time += 1) {
      const began = performance.now();
      await proof();
      took.push(performance.now() - began);
    }
    return { value: percentile(took, 0.5), p50: percentile(took, 0.5), p99: percentile(took, 0.99) };
  };
  await interleaved(context, 'list-proof', [{ contender: `list of ${SHORT}`, unit: 'ms', measure }]);
  results.figures.push({
    workload: 'list-proof, beside the rows',
    contender: `list of ${SHORT}`,
    unit: 'bytes',
    values: [bytes],
  });
  say(`a list proof has ${bytes} bytes beside its rows`);
};

/** What `plants check` does with a list proof, without the start of its process. */
const listChecks = async (
  context: Context,
  service: Service,
  dataDir: string,
  proof: () => Promise<string>,
): Promise<void> => {
  const text = await proof();
  const [origin = ''] = (await (await fetch(`${service.url}/log/checkpoint`)).text()).split('\n');
  const key = verifierKey(origin, createPublicKey(await readFile(join(dataDir, 'audit-key.pem'))));
  const measure = (): Promise<Sample> => {
    const took: number[] = [];
    for (let time = 0; time < CHECKS; time += 1) {
      const began = performance.now();
      const { plants } = verifyListProof(text, [key]);
      if (plants.length !== LONG) throw new Broken(`a list proof has ${plants.length} plants`);
      took.push(performance.now() - began);
    }
    return Promise.resolve({ value: percentile(took, 0.5), p99: percentile(took, 1) });
  };
  await interleaved(context, 'list-check', [{ contender: `list of ${LONG}`, unit: 'ms', measure }]);
};

/** An owner of 1,000 plants is erased, while others list: how long it takes, and how long they wait. */
const erasures = async (
  context: Context,
  target: LoadedTarget,
  service: Service,
  others: readonly string[],
): Promise<void> => {
  const { results, say } = context;
  const authorizations = await target.authorizations(others);
  const lists = async (): Promise<SteadyLoaded> => {
    const load: SteadyLoad = {
      ...{ kind: 'list', url: service.url, path: '/plants?limit=20', ids: [], authorizations },
      ...{ perSecond: LISTS_PER_SECOND, seconds: BESIDE_SECONDS },
    };
    const printed = await output(process.execPath, ['--no-warnings', STEADY, JSON.stringify(load)]);
    return JSON.parse(printed.replace(/^RESULT /, '')) as SteadyLoaded;
  };
  const took: number[] = [];
  const sampleOf = ({ p50, p99, p999, failed }: SteadyLoaded): Sample => ({
    ...{ value: p99, p50, p99, p999, failed },
  });
  await lists();
  await interleaved(context, 'erase: lists of others', [
    { contender: 'without', unit: 'ms (p99)', measure: async () => sampleOf(await lists()) },
    {
      contender: 'beside an erasure',
      unit: 'ms (p99)',
      measure: async () => {
        const beside = lists();
        await delay(BESIDE_SECONDS * 300); // past the part that is not counted
        took.push(await erased(context, service, readerOf(LONG)));
        const sample = sampleOf(await beside);
        await target.fill(LONG); // the owner begins anew, for the next round
        return sample;
      },
    },
  ]);
  results.figures.push({ workload: 'erase', contender: `owner of ${LONG} plants`, unit: 's', values: took });
  say(`erased an owner of ${LONG} plants in ${took.map((one) => one.toFixed(2)).join(', ')} s`);
};

/** From the order until the files hold nothing of the owner, in seconds. */
const erased = async ({ stage }: Context, service: Service, owner: string): Promise<number> => {
  const authorization = await stage.keys.authorization('operator', 'plants:erase');
  const began = performance.now();
  const ordered = await fetch(`${service.url}/operations/erasures`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ owner, reason: 'the benchmark has asked for it' }),
  });
  const location = ordered.headers.get('location');
  if (ordered.status !== 202 || location === null)
    throw new Broken(`an erasure was answered with ${ordered.status}: ${await ordered.text()}`);
  let end = began;
  await untilFarEnough('the erasure is finished', service, async () => {
    const answer = await fetch(`${service.url}${location}`, { headers: { authorization } });
    end = performance.now();
    const { state } = (await answer.json()) as { state: string };
    if (state === 'cancelled') throw new Broken('the erasure was cancelled');
    return state === 'finished';
  });
  return (end - began) / 1_000;
};
