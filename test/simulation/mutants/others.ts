import { spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jest, workers } from '../../lanes/lanes.js';
import { type PlantedFault, PLANTED_FAULTS, whilePlanted } from './mutants.js';

/**
 * `npm run simulate:others [-- NAME …]`: prints, for each planted fault, the first of the ordinary tests that finds it, as a
 * table. Faults of the source: the unit tests of what is simulated, those of the fault's own room first. Faults of the
 * simulated stores: the contract suites, which the adapters of the service pass.
 */

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const build = join(root, 'build');
const copy = join(root, `.build-mutant-${process.pid}`);

const ROOMS = ['domain', 'commands', 'log', 'lists', 'projection', 'erasure', 'audit'];

/** The longest that a run of tests, and one wait of a test, may take, in milliseconds: a fault may make tests wait forever. */
const LIMIT_MS = 900_000;
const WAIT_LIMIT_MS = 15_000;

/** The first test file that fails among those of a pattern; undefined where all pass. */
const firstFailure = (tests: string, fault = ''): string | undefined => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    jest(
      ['unit + contract'],
      ...['--bail', '--forceExit', workers(2), `--testTimeout=${3 * WAIT_LIMIT_MS}`],
      ...['--testPathPatterns', tests],
    ),
    {
      ...{ cwd: root, encoding: 'utf8', timeout: LIMIT_MS, maxBuffer: 2 ** 28 },
      env: {
        ...process.env,
        TEST_BUILD: relative(root, copy),
        SIMULATED_FAULT: fault,
        WAIT_LIMIT_MS: `${WAIT_LIMIT_MS}`,
      },
    },
  );
  if (status === 0) return undefined;
  const failed = /FAIL .*?test\/(\S+)\.spec\.js/.exec(stdout + stderr)?.[1];
  return failed ?? 'tests that do not end';
};

const unit = (rooms: readonly string[]): string => `test/unit/(${rooms.join('|')})/`;

/** The parts of the tests that may find a fault, the likeliest first. */
const testsOf = ({ edits }: PlantedFault): string[] => {
  if (edits === undefined) return ['test/contract/simulated-stores'];
  const own = edits.map(({ file }) => file.split('/')[0] ?? '');
  return [unit(own), unit(ROOMS)];
};

const wanted = process.argv.slice(2);
const faults = PLANTED_FAULTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
let found = 0;
try {
  cpSync(build, copy, { recursive: true });
  // The last of a fault's tests have the others among them.
  for (const tests of new Set(faults.map((fault) => testsOf(fault).at(-1) ?? ''))) {
    const whole = firstFailure(tests);
    if (whole !== undefined) throw new Error(`without a planted fault, ${whole} fail`);
  }
  process.stdout.write('| fault | found by |\n|---|---|\n');
  for (const fault of faults) {
    const failed = await whilePlanted(fault, copy, () => {
      for (const tests of testsOf(fault)) {
        const first = firstFailure(tests, fault.edits ? '' : fault.name);
        if (first !== undefined) return first;
      }
      return undefined;
    });
    if (failed !== undefined) found += 1;
    process.stdout.write(`| ${fault.what} | ${failed ?? 'none'} |\n`);
  }
  process.stdout.write(`\n${found} of ${faults.length} were found\n`);
} finally {
  rmSync(copy, { recursive: true, force: true });
}
