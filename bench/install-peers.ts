/**
 * `npm run bench:peers`: installs the peers' packages by their lock files. They go to a folder beside the sources, and
 * not into them: what compiles, lints and formats this project would walk through thousands of foreign files.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { INSTALLED_PEERS } from './contenders.js';

const SOURCES = fileURLToPath(new URL('../../bench/peers/', import.meta.url));

for (const peer of readdirSync(SOURCES)) {
  const folder = join(INSTALLED_PEERS, peer);
  mkdirSync(folder, { recursive: true });
  for (const file of ['package.json', 'package-lock.json'])
    cpSync(join(SOURCES, peer, file), join(folder, file));
  console.log(`installing the packages of ${peer}`);
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}
