/** `npm run bench`: see docs/performance.md. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chartOf } from './chart.js';
import { CONTENDERS, Stage } from './contenders.js';
import { commandLine, type Options } from './options.js';
import { NotRun, runFolder, stopAll } from './processes.js';
import { type About, aboutRun, resultJson, resultText } from './report.js';
import { type Context, FULL, QUICK, Results, type Sizes } from './results.js';
import { durability } from './workloads/durability.js';
import { LARGE, largeLog, ownerSize } from './workloads/large-log.js';
import { manyOwners, OWNERS } from './workloads/many-owners.js';
import { REQUESTS, requests } from './workloads/requests.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Report and chart of a full run: committed. All others, and what is for programs: beside what is built. */
const COMMITTED = join(ROOT, 'docs/bench');
const PASSING = join(ROOT, 'build/bench-results');

const PARTS = [durability, requests, manyOwners, largeLog, ownerSize];
const WORKLOADS = [...REQUESTS, ...OWNERS, 'durability', ...LARGE];

const main = async (): Promise<void> => {
  const command = commandLine(WORKLOADS, CONTENDERS).parse();
  const options = command.opts<Options>();
  const sizes = options.quick ? QUICK : FULL;
  const about = aboutRun(options.quick ?? false, { ...sizes, repeats: options.repeat ?? sizes.repeats });
  const results = new Results();
  await runAll(options, about.sizes, results);
  const text = resultText(about, results);
  console.log(`\n${text}`);
  write(options, about, results, text);
  if (results.broken.length > 0) process.exitCode = 1;
};

/** One part after the other. What breaks is noted, and the others still run: a long run is not to be lost. */
const runAll = async ({ only }: Options, sizes: Sizes, results: Results): Promise<void> => {
  const folder = runFolder();
  const began = performance.now();
  const wants = (name: string): boolean => only?.includes(name) ?? true;
  const say = (line: string): void => {
    console.log(`${((performance.now() - began) / 1_000).toFixed(0).padStart(5)} s  ${line}`);
  };
  for (const part of PARTS) {
    const stage = await Stage.open(join(folder, part.name), results);
    const context: Context = { stage, sizes, results, wants, say };
    try {
      await part(context);
    } catch (error) {
      const { message, stack } = error as Error;
      const notRun = error instanceof NotRun;
      say(`${part.name}: ${notRun ? message : String(stack)}`);
      if (notRun) results.notRun[part.name] = message;
      else results.broken.push(`${part.name}: ${message}`);
    }
    await stopAll();
  }
};

const write = ({ quick, only }: Options, about: About, results: Results, text: string): void => {
  const full = !quick && !only && about.sizes.repeats >= FULL.repeats;
  const report = full ? COMMITTED : PASSING;
  const chart = chartOf(results, [
    `Medians of one run: ${about.cores} cores shared with ${about.loadGenerator}, Node ${about.node}.`,
    'In brackets: how many times as much this service, embedded, does; the median of the ratios of each round.',
  ]);
  mkdirSync(PASSING, { recursive: true });
  for (const [file, content] of [
    [join(PASSING, 'results.json'), resultJson(about, results)],
    [join(report, 'results.md'), `# Results\n\n${text}`],
    [join(report, 'results.svg'), chart],
  ] as const) {
    writeFileSync(file, content);
    console.log(relative(process.cwd(), file));
  }
};

await main();
