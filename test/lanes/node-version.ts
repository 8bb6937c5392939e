/**
 * Runs the tests of `npm test` on another version of Node, which npm's packages `node-PLATFORM-ARCH` bring: those that
 * production uses, beside the oldest one on which they are developed. The argument is a version such as 26.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { temporaryFolder } from '../support/temporary-folder.js';
import { QUICK_TESTS } from './lanes.js';

/** The longest installation of a version by npm, in milliseconds. */
const INSTALL_MS = 300_000;

const [, , version = ''] = process.argv;
const folder = temporaryFolder();
chmodSync(folder, 0o755); // some tests start a process as another user
try {
  const name = `node-${process.platform}-${process.arch}`;
  const options = ['--prefer-offline', '--no-audit', '--no-fund', '--no-package-lock', '--prefix', folder];
  const installed = spawnSync('npm', ['install', ...options, `${name}@${version}`], {
    encoding: 'utf8',
    timeout: INSTALL_MS,
  });
  if (installed.status !== 0) throw new Error(`npm did not bring ${name}@${version}: ${installed.stderr}`);
  const bin = join(folder, 'node_modules', name, 'bin');
  const { status } = spawnSync(join(bin, 'node'), QUICK_TESTS, {
    env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH ?? ''}` },
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
