import { execFile } from 'node:child_process';
import { cpSync, existsSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type PlantedFault, PLANTED_FAULTS, whilePlanted } from './mutants.js';

/**
 * `npm run simulate:mutants [-- NAME …]`: prints the first seed that finds each planted fault, as a table. Exit status 1
 * where one is not found, or the control is.
 */

const build = join(dirname(fileURLToPath(import.meta.url)), '../../..');
/** In so many worlds each fault is looked for. */
const most = process.env.MUTANT_WORLDS ?? '1000';

interface Found {
  readonly seed: number;
  /** Worlds that were run; others were passed over. */
  readonly worlds: number;
  readonly steps?: number;
  readonly rule?: string;
  /** The world is broken without the fault, too: then it has found another one. */
  readonly isBrokenAnyway?: boolean;
}

/** Runs one fault in a process of its own, in this copy of the build if it is in the source. */
const search = async (fault: PlantedFault, copy: string): Promise<Found> => {
  const at = fault.edits === undefined ? build : copy;
  if (!existsSync(at))
    for (const folder of ['src', 'test/simulation', 'test/support'])
      cpSync(join(build, folder), join(at, folder), {
        recursive: true,
        filter: (path) => !path.endsWith('.map'),
      });
  const found = await whilePlanted(fault, copy, () => run(at, fault.name, most));
  if (found.rule === undefined) return found;
  const { rule } = await run(build, 'no fault', '1', found.seed);
  return { ...found, isBrokenAnyway: rule !== undefined };
};

const run = async (at: string, ...args: readonly (string | number)[]): Promise<Found> => {
  const child = join(at, 'test/simulation/mutants/child.js');
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--no-warnings',
    child,
    ...args.map(String),
  ]);
  return JSON.parse(stdout) as Found;
};

const wanted = process.argv.slice(2);
const faults = PLANTED_FAULTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
const rows: (string | undefined)[] = [];
let asExpected = 0;
const queue = faults.entries(); // of all searches
let printed = 0;

/** Searches for one fault after the other, and prints their rows in the order of the list. */
const searchAll = async (copy: string): Promise<void> => {
  for (const [index, fault] of queue) {
    const { seed, worlds, steps, rule, isBrokenAnyway } = await search(fault, copy);
    if ((rule !== undefined && !isBrokenAnyway) !== (fault.isHarmless ?? false)) asExpected += 1;
    const seen = isBrokenAnyway ? 'broken without it, too' : (rule ?? '');
    const first = rule === undefined ? `none up to ${seed - 1}` : seed;
    const columns = [first, worlds, steps ?? '', seen];
    rows[index] = `| ${[fault.what, ...columns].join(' | ')} |\n`;
    for (let row = rows[printed]; row !== undefined; row = rows[printed]) {
      process.stdout.write(row);
      printed += 1;
    }
  }
};

process.stdout.write('| fault | first seed | worlds | steps | seen by |\n|---|---|---|---|---|\n');
const copies = Array.from({ length: availableParallelism() }, (_, index) =>
  join(build, `mutant-${process.pid}-${index}`),
);
try {
  await Promise.all(copies.map(searchAll));
} finally {
  for (const copy of copies) rmSync(copy, { recursive: true, force: true });
}
process.stdout.write(`\n${asExpected} of ${faults.length} as expected\n`);
if (asExpected < faults.length) process.exitCode = 1;
