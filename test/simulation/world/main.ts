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

/** What a thread is given to do. */
interface Share {
  readonly from: number;
  readonly step: number;
  readonly untilMs: number;
}

/** What many worlds came to. */
interface Sum {
  worlds: number;
  operations: number;
  steps: number;
  simulatedMs: number;
  readonly failed: Result[];
  readonly counts: Map<string, number>;
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);

const emptySum = (): Sum => ({
  worlds: 0,
  operations: 0,
  steps: 0,
  simulatedMs: 0,
  failed: [],
  counts: new Map(),
});

const add = (sum: Sum, { operations, steps, simulatedMs, counts }: Omit<Result, 'seed'> | Sum): void => {
  sum.operations += operations;
  sum.steps += steps;
  sum.simulatedMs += simulatedMs;
  for (const [what, count] of counts) sum.counts.set(what, (sum.counts.get(what) ?? 0) + count);
};

/** Runs worlds until it is time to end. */
const runShare = async ({ from, step, untilMs }: Share): Promise<Sum> => {
  const sum = emptySum();
  for (let seed = from; Date.now() < untilMs; seed += step) {
    const result = await simulate(seed);
    sum.worlds += 1;
    add(sum, result);
    if (result.broken.length > 0) sum.failed.push(result);
  }
  return sum;
};

const runMinutes = async (minutes: number, from: number): Promise<boolean> => {
  const untilMs = Date.now() + minutes * 60_000;
  const cores = availableParallelism();
  const sums = await Promise.all(
    Array.from(
      { length: cores },
      (_, index) =>
        new Promise<Sum>((resolve, reject) => {
          const share: Share = { from: from + index, step: cores, untilMs };
          const thread = new Worker(new URL(import.meta.url), { workerData: share });
          thread.once('message', resolve);
          thread.once('error', reject);
        }),
    ),
  );
  const all = emptySum();
  for (const sum of sums) {
    add(all, sum);
    all.worlds += sum.worlds;
    all.failed.push(...sum.failed);
  }
  // Processor time: other programs on the machine take nothing of it.
  const { user, system } = process.cpuUsage();
  const cpuMs = (user + system) / 1_000;
  const hours = cpuMs / 3_600_000;
  print(`${all.worlds} worlds from seed ${from}, on ${cores} threads`);
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
  let same = 0;
  for (let seed = from; seed < from + count; seed += 1) {
    const [first, second] = [await simulate(seed), await simulate(seed)];
    if (first.hash === second.hash) same += 1;
    else print(`seed ${seed} has two traces`);
  }
  print(`${same} of ${count} worlds have the same trace twice`);
  return same === count;
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
