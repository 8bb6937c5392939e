import { execFile } from 'node:child_process';
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type PlantedFault, PLANTED_FAULTS } from './mutants.js';

/** `npm run simulate:mutants [-- NAME …]`: prints the first seed that finds each planted fault, as a table. */

const build = join(dirname(fileURLToPath(import.meta.url)), '../../..');
const copy = join(build, `mutant-${process.pid}`);
const most = process.env.MUTANT_SEEDS ?? '10000';
const seconds = process.env.MUTANT_SECONDS ?? '120';

interface Found {
  readonly seed: number;
  readonly steps?: number;
  readonly rule?: string;
}

/** Runs one fault in a process of its own, in a copy of the build if it is in the source. */
const search = async ({ name, file, find = '', replace = '' }: PlantedFault): Promise<Found> => {
  let at = build;
  if (file !== undefined) {
    at = copy;
    if (!existsSync(copy))
      for (const folder of ['src', 'test/simulation', 'test/support'])
        cpSync(join(build, folder), join(copy, folder), {
          recursive: true,
          filter: (path) => !path.endsWith('.map'),
        });
    const path = join('src', file);
    const text = readFileSync(join(build, path), 'utf8');
    if (!text.includes(find)) throw new Error(`${path} does not contain ${JSON.stringify(find)}`);
    writeFileSync(join(copy, path), text.replace(find, replace));
  }
  try {
    const child = join(at, 'test/simulation/mutants/child.js');
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--no-warnings',
      child,
      name,
      most,
      seconds,
    ]);
    return JSON.parse(stdout) as Found;
  } finally {
    if (file !== undefined) cpSync(join(build, 'src', file), join(copy, 'src', file));
  }
};

const wanted = process.argv.slice(2);
rmSync(copy, { recursive: true, force: true });
let found = 0;
let searched = 0;
process.stdout.write('| fault | first seed | steps | seen by |\n|---|---|---|---|\n');
for (const fault of PLANTED_FAULTS) {
  if (wanted.length > 0 && !wanted.includes(fault.name)) continue;
  searched += 1;
  const { seed, steps, rule } = await search(fault);
  if (rule !== undefined) found += 1;
  const columns = rule === undefined ? [`none of ${seed - 1}`, '', ''] : [seed, steps, rule];
  process.stdout.write(`| ${[fault.what, ...columns].join(' | ')} |\n`);
}
process.stdout.write(`\n${found} of ${searched} were found\n`);
rmSync(copy, { recursive: true, force: true });
