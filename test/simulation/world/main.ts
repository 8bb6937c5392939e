import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type Replay, shrink } from './shrink.js';
import { type Result, simulate } from './simulation.js';

/** `npm run simulate`: docs/simulation.md says how to read what it prints. */

const HELP = `npm run simulate -- --seed N               one world, with its trace
npm run simulate -- --minutes M [--from N]  as many worlds as fit, on all cores
npm run simulate -- --replay FILE          the world of a file that a failure has written, with its trace
npm run simulate -- --twice N [--from N]   N worlds, each twice: their traces have to be the same
`;

/** Seeds of a thread: every so many, until a time of day, or up to a seed. */
interface Share {
  readonly from: number;
  readonly step: number;
  readonly untilMs?: number;
  readonly last?: number;
  /** Runs each world twice, to compare the two traces. */
  readonly twice: boolean;
}

interface Sum {
  worlds: number;
  operations: number;
  steps: number;
  simulatedMs: number;
  readonly failed: Result[];
  /** Seeds that came to two traces. */
  readonly unsteady: number[];
  readonly counts: Map<string, number>;
}

/** Time between two progress lines of a long run. */
const PROGRESS_MS = 30_000;

const print = (line: string): void => void process.stdout.write(`${line}\n`);

const emptySum = (): Sum => ({
  worlds: 0,
  operations: 0,
  steps: 0,
  simulatedMs: 0,
  failed: [],
  unsteady: [],
  counts: new Map(),
});

const add = (sum: Sum, { operations, steps, simulatedMs, counts }: Omit<Result, 'seed'> | Sum): void => {
  sum.operations += operations;
  sum.steps += steps;
  sum.simulatedMs += simulatedMs;
  for (const [what, count] of counts) sum.counts.set(what, (sum.counts.get(what) ?? 0) + count);
};

/** Runs worlds until it is time to end, or all have run. */
const runShare = async ({ from, step, twice, untilMs = Infinity, last = Infinity }: Share): Promise<Sum> => {
  const sum = emptySum();
  for (let seed = from; seed <= last && Date.now() < untilMs; seed += step) {
    const result = await simulate(seed);
    sum.worlds += 1;
    add(sum, result);
    if (result.broken.length > 0) sum.failed.push(result);
    if (twice && (await simulate(seed)).hash !== result.hash) sum.unsteady.push(seed);
    parentPort?.postMessage('world');
  }
  return sum;
};

/** Runs shares of the same worlds on all cores, and says now and then how many worlds have run. */
const runThreads = async (share: Omit<Share, 'step'>): Promise<Sum> => {
  const cores = availableParallelism();
  const all = emptySum();
  let ran = 0;
  const progress = setInterval(() => process.stderr.write(`${ran} worlds\n`), PROGRESS_MS);
  const run = (index: number): Promise<Sum> =>
    new Promise<Sum>((resolve, reject) => {
      const workerData: Share = { ...share, from: share.from + index, step: cores };
      const thread = new Worker(new URL(import.meta.url), { workerData });
      thread.on('message', (message: Sum | 'world') => {
        if (message === 'world') ran += 1;
        else resolve(message);
      });
      thread.once('error', reject);
    });
  try {
    for (const sum of await Promise.all(Array.from({ length: cores }, (_, index) => run(index)))) {
      add(all, sum);
      all.worlds += sum.worlds;
      all.failed.push(...sum.failed);
      all.unsteady.push(...sum.unsteady);
    }
  } finally {
    clearInterval(progress);
  }
  return all;
};

const runMinutes = async (minutes: number, from: number): Promise<boolean> => {
  const all = await runThreads({ from, twice: false, untilMs: Date.now() + minutes * 60_000 });
  // Processor time: other programs on the machine take nothing of it.
  const { user, system } = process.cpuUsage();
  const cpuMs = (user + system) / 1_000;
  const hours = cpuMs / 3_600_000;
  print(`${all.worlds} worlds from seed ${from}, on ${availableParallelism()} threads`);
  print(`${all.operations} operations of clients, ${all.steps} steps`);
  print(
    `in an hour of processor time: ${Math.round(all.operations / hours)} operations, ${Math.round(all.steps / hours)} steps`,
  );
  print(`simulated time / processor time: ${Math.round(all.simulatedMs / cpuMs)}`);
  for (const [what, count] of [...all.counts].sort()) print(`  ${count} ${what}`);
  for (const failed of all.failed.sort((a, b) => a.seed - b.seed)) await explain(failed);
  return all.failed.length === 0;
};

/** Prints what is broken, and the smallest world in which it is. */
const explain = async (failed: Result): Promise<void> => {
  print(`\nseed ${failed.seed}: after ${failed.steps} steps`);
  for (const { rule, detail, step } of failed.broken.slice(0, 5)) print(`  step ${step}: ${rule}: ${detail}`);
  const smaller = await shrink(failed);
  const file = `simulation-${failed.seed}.json`;
  const replay: Replay = { seed: smaller.seed, options: smaller.options };
  writeFileSync(file, `${JSON.stringify(replay, undefined, 2)}\n`);
  print(`  smaller: ${smaller.steps} steps; npm run simulate -- --replay ${file}`);
  print(`  ${JSON.stringify(smaller.options)}`);
};

const show = (result: Result): boolean => {
  for (const line of result.trace ?? []) print(line);
  print(`\n${JSON.stringify(result.options)}`);
  print(`${result.operations} operations, ${result.steps} steps, ${Math.round(result.simulatedMs)} ms`);
  for (const [what, count] of [...result.counts].sort()) print(`  ${count} ${what}`);
  print(`trace ${result.hash}`);
  for (const { rule, detail, step } of result.broken) print(`BROKEN at step ${step}: ${rule}: ${detail}`);
  return result.broken.length === 0;
};

const runTwice = async (count: number, from: number): Promise<boolean> => {
  const { worlds, unsteady, failed } = await runThreads({
    from,
    twice: true,
    last: from + count - 1,
  });
  for (const seed of unsteady) print(`seed ${seed} has two traces`);
  print(`${worlds - unsteady.length} of ${worlds} worlds have the same trace twice`);
  for (const one of failed) await explain(one);
  return unsteady.length === 0 && failed.length === 0;
};

const run = async (): Promise<boolean> => {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      minutes: { type: 'string' },
      replay: { type: 'string' },
      twice: { type: 'string' },
      from: { type: 'string', default: '1' },
    },
  });
  const from = Number(values.from);
  if (values.seed !== undefined) return show(await simulate(Number(values.seed), { keepsTrace: true }));
  if (values.minutes !== undefined) return runMinutes(Number(values.minutes), from);
  if (values.twice !== undefined) return runTwice(Number(values.twice), from);
  if (values.replay !== undefined) {
    const { seed, options } = JSON.parse(readFileSync(values.replay, 'utf8')) as Replay;
    return show(await simulate(seed, { options, keepsTrace: true }));
  }
  print(HELP);
  return false;
};

if (isMainThread) process.exitCode = (await run()) ? 0 : 1;
else parentPort?.postMessage(await runShare(workerData as Share));
