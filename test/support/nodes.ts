/**
 * Runs the suites on other versions of Node, which npm's packages `node-PLATFORM-ARCH` bring: those that production
 * uses, beside the oldest one on which they are developed.
 *
 *     npm run test:nodes                     every lane on each of VERSIONS
 *     npm run test:nodes -- 26 jest:unit     one version, one lane
 *
 * Prints how many tests passed on each version and in each lane; the exit status is 1 where any failed.
 */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';

/** Long-term support, and the newest. */
const VERSIONS = ['22', '24', '26'];
const LANES = ['jest:unit', 'jest:embedded', 'jest:servers'];

/** How long npm may take to bring a version, in milliseconds. */
const INSTALL_MS = 300_000;

const asked = process.argv.slice(2);
const versions = asked.filter((one) => /^\d/.test(one));
const lanes = asked.filter((one) => LANES.includes(one));
const unknown = asked.filter((one) => !versions.includes(one) && !lanes.includes(one));
if (unknown.length > 0) {
  process.stderr.write(
    `test:nodes: ${unknown.join(', ')}: neither a version such as 26 nor one of ${LANES.join(', ')}\n`,
  );
  process.exit(2);
}

const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';

/** The folder with the binary of a version, installed below `folder`. */
const installed = (version: string, folder: string): string => {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const prefix = join(folder, version);
  const { status, error, stderr } = spawnSync(
    npm,
    [
      'install',
      '--prefer-offline',
      '--no-audit',
      '--no-fund',
      '--no-package-lock',
      '--prefix',
      prefix,
      `${name}@${version}`,
    ],
    { encoding: 'utf8', timeout: INSTALL_MS, shell: process.platform === 'win32' },
  );
  const bin = join(prefix, 'node_modules', name, 'bin');
  if (status !== 0 || !existsSync(bin))
    throw new Error(`npm did not bring ${name}@${version}: ${error?.message ?? stderr}`);
  return bin;
};

/** Runs a lane with the Node of a folder; resolves with its totals, and whether nothing failed. */
const run = async (lane: string, bin: string): Promise<{ totals: string; passed: boolean }> => {
  const child = spawn(npm, ['run', '--silent', lane], {
    env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH ?? ''}` },
    stdio: ['ignore', 'inherit', 'pipe'],
    shell: process.platform === 'win32',
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  let totals = 'told nothing';
  for await (const line of createInterface({ input: child.stderr })) {
    process.stderr.write(`${line}\n`);
    if (line.startsWith('tests: ')) totals = line;
  }
  return { totals, passed: (await ended) === 0 };
};

const folder = mkdtempSync(join(tmpdir(), 'plants-nodes-'));
chmodSync(folder, 0o755); // some tests start a process as another user
const told: string[] = [];
try {
  for (const version of versions.length > 0 ? versions : VERSIONS) {
    const bin = installed(version, folder);
    const exact = spawnSync(join(bin, 'node'), ['--version'], { encoding: 'utf8' }).stdout.trim();
    for (const lane of lanes.length > 0 ? lanes : LANES) {
      const { totals, passed } = await run(lane, bin);
      if (!passed) process.exitCode = 1;
      told.push(`Node ${exact}, ${lane}: ${passed ? 'passed' : 'FAILED'}; ${totals}`);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
  process.stderr.write(`${told.join('\n')}\n`);
}
