import { spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SOURCE_FAULTS, whilePlanted } from './mutants.js';

/**
 * `npm run simulate:others [-- NAME …]`: prints, for each planted fault that is in the source, the first of the ordinary
 * unit tests that finds it, as a table.
 */

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const build = join(root, 'build');
const copy = join(root, `.build-mutant-${process.pid}`);

/** Tests of what is simulated. */
const TESTS = 'test/unit/(write|read|projector|plants|erasure)/';

/** Longer than they take, in milliseconds: a fault may make a test wait for ever. */
const LIMIT_MS = 300_000;

/** The first file that fails; undefined where all pass. */
const firstFailure = (): string | undefined => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      ...['--experimental-vm-modules', '--no-warnings', 'node_modules/jest/bin/jest.js', '--bail'],
      ...['--selectProjects', 'unit + contract', '--testPathPatterns', TESTS],
    ],
    {
      ...{ cwd: root, encoding: 'utf8', timeout: LIMIT_MS, maxBuffer: 2 ** 28 },
      env: { ...process.env, TEST_BUILD: relative(root, copy) },
    },
  );
  if (status === 0) return undefined;
  const failed = /FAIL .*?test\/(\S+)\.spec\.js/.exec(stdout + stderr)?.[1];
  return failed ?? `none within ${LIMIT_MS / 1_000} s`;
};

const wanted = process.argv.slice(2);
let found = 0;
let searched = 0;
try {
  cpSync(build, copy, { recursive: true });
  const whole = firstFailure();
  if (whole !== undefined) throw new Error(`${whole} fails without a planted fault`);
  process.stdout.write('| fault | found by |\n|---|---|\n');
  for (const fault of SOURCE_FAULTS) {
    if (wanted.length > 0 && !wanted.includes(fault.name)) continue;
    searched += 1;
    const failed = await whilePlanted(fault, copy, firstFailure);
    if (failed !== undefined) found += 1;
    process.stdout.write(`| ${fault.what} | ${failed ?? 'none'} |\n`);
  }
  process.stdout.write(`\n${found} of ${searched} were found\n`);
} finally {
  rmSync(copy, { recursive: true, force: true });
}
