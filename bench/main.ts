/** `npm run bench`: see docs/performance.md. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { barChart, chartGroups } from './chart.js';
import { type Context, FULL, QUICK, type Sizes } from './context.js';
import { CONTENDERS, Stage } from './contenders.js';
import { type Machine, machineOf } from './machine.js';
import { BadUsage, helpText, type Options, readOptions } from './options.js';
import { Broken, leaveNothingBehind, newFolder } from './processes.js';
import { profileAll } from './profile.js';
import { resultJson, resultText, type RunAbout } from './report.js';
import { Results } from './results.js';
import { Keys } from './service.js';
import { durability } from './workloads/durability.js';
import { LARGE, largeLog, ownerSize } from './workloads/large-log.js';
import { manyOwners, OWNERS } from './workloads/many-owners.js';
import { REQUESTS, requests } from './workloads/requests.js';
import { workers, WORKERS_OF } from './workloads/workers.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Of a full run: committed. Of all others: beside what is built. */
const COMMITTED = join(ROOT, 'docs/bench');
const PASSING = join(ROOT, 'build/bench-results');

const WORKLOADS = [...REQUESTS, ...WORKERS_OF, ...OWNERS, 'durability', ...LARGE];

/** More failed requests than this share of all, and a contender does not work. */
const MOST_FAILED = 0.01;

const main = async (): Promise<void> => {
  const options = readOptions(process.argv.slice(2), WORKLOADS);
  if (options.help) {
    process.stdout.write(helpText(WORKLOADS, CONTENDERS));
    return;
  }
  leaveNothingBehind();
  const folder = newFolder();
  const sizes = sizesOf(options);
  const results = new Results();
  const began = performance.now();
  const context: Context = {
    stage: new Stage(folder, new Keys(join(folder, 'keys'))),
    sizes,
    results,
    wants: (name) => options.only.length === 0 || options.only.includes(name),
    say: (line) => {
      console.log(`${((performance.now() - began) / 1_000).toFixed(0).padStart(5)} s  ${line}`);
    },
  };
  if (options.profile) {
    const made = await profileAll(
      context,
      options.quick ? join(PASSING, 'profiles') : join(COMMITTED, 'profiles'),
    );
    for (const file of made) console.log(relative(process.cwd(), file));
    return;
  }
  const about = aboutOf(options, sizes, machineOf(), context.stage);
  await runAll(context);
  noteFailed(results);
  const text = resultText(about, results);
  console.log(`\n${text}`);
  for (const file of write(options, about, results, text)) console.log(relative(process.cwd(), file));
  if (results.broken.length > 0) process.exitCode = 1;
};

const sizesOf = ({ quick, repeats }: Options): Sizes => {
  const sizes = quick ? QUICK : FULL;
  return { ...sizes, repeats: repeats ?? sizes.repeats };
};

const aboutOf = (options: Options, sizes: Sizes, machine: Machine, { versions }: Stage): RunAbout => {
  const given = process.argv
    .slice(2)
    .filter((argument, index, all) => !argument.startsWith('--json') && all[index - 1] !== '--json');
  return {
    command: ['npm run bench', ...(given.length > 0 ? ['--', ...given] : [])].join(' '),
    at: new Date().toISOString().slice(0, 10),
    quick: options.quick,
    repeats: sizes.repeats,
    seconds: sizes.seconds,
    events: sizes.events,
    owners: sizes.owners,
    machine,
    servers: versions, // filled as they are started
  };
};

/** One part after the other. What breaks is noted, and the others still run: a long run is not to be lost. */
const runAll = async (context: Context): Promise<void> => {
  for (const part of [durability, requests, workers, manyOwners, largeLog, ownerSize])
    try {
      await part(context);
    } catch (error) {
      const reason = error instanceof Broken ? error.message : String((error as Error).stack);
      context.say(`broken: ${reason}`);
      context.results.broken.push(`${part.name}: ${reason.split('\n')[0] ?? ''}`);
    }
  await context.stage.stop();
};

/** Figures of errors are none. */
const noteFailed = (results: Results): void => {
  for (const { workload, contender, values, failed = 0 } of results.figures) {
    const about = values.reduce((sum, value) => sum + value, 0);
    // Deletes may run out of plants on a machine that deletes faster than it creates.
    if (workload !== 'delete' && failed > MOST_FAILED * about + 10)
      results.broken.push(`${workload}: ${contender}: ${failed} requests failed`);
  }
};

/** Writes the results, and gives the files. */
const write = (options: Options, about: RunAbout, results: Results, text: string): string[] => {
  const whole = !options.quick && options.only.length === 0;
  const json =
    options.json === undefined ? join(whole ? COMMITTED : PASSING, 'results.json') : resolve(options.json);
  const beside = json.replace(/\.json$/, '');
  mkdirSync(dirname(json), { recursive: true });
  const { machine } = about;
  const footnotes = [
    `Medians of one run: ${machine.cores} cores shared with ${machine.loadGenerator}, Node ${machine.node}.`,
    'In brackets: how many times as much this service, embedded, does; the median of the ratios of each round.',
  ];
  const groups = chartGroups(results);
  const files = new Map([
    [json, resultJson(about, results)],
    [`${beside}.md`, `# Results\n\n${text}`],
    ...(groups.length > 0 ? ([[`${beside}.svg`, barChart(groups, footnotes)]] as const) : []),
  ]);
  for (const [file, content] of files) writeFileSync(file, content);
  return [...files.keys()];
};

try {
  await main();
} catch (error) {
  if (!(error instanceof BadUsage)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}
