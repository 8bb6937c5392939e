import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from '@jest/globals';
import { temporaryFolder } from '../support/temporary-folder.js';

const run = promisify(execFile);
const folder = temporaryFolder();
const elsewhere = join(folder, 'elsewhere');
const plants = join(elsewhere, 'node_modules', '.bin', 'plants');
const env = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', DATA_DIR: join(folder, 'data') };

/** The environment of npm: its registry, proxies and certificates, without the variables of the npm that runs this. */
const npmEnv = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_(?:OPTIONS|V8_COVERAGE)$/.test(name)),
);

beforeAll(async () => {
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { env: npmEnv });
  mkdirSync(elsewhere);
  writeFileSync(join(elsewhere, 'package.json'), '{"private":true}');
  const [packed = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', join(folder, packed)], {
    env: npmEnv,
    cwd: elsewhere,
  });
});

it('ships the files that the other tests run, byte for byte', () => {
  const installed = join(elsewhere, 'node_modules', 'plant-store');
  for (const part of ['bin', 'build/console', 'build/src']) {
    const files = readdirSync(part, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    const shipped = readdirSync(join(installed, part), { recursive: true, withFileTypes: true });
    expect(shipped.filter((entry) => entry.isFile())).toHaveLength(files.length);
    for (const { parentPath, name } of files) {
      const file = join(parentPath, name);
      expect([file, readFileSync(join(installed, file)).equals(readFileSync(file))]).toEqual([file, true]);
    }
  }
});

/** Starts the installed service, does something at its address, and stops it. Gives how it ended, and what it said. */
const serving = async (act: (url: string) => Promise<void>): Promise<{ exitCode: number; said: string }> => {
  const service = spawn(plants, ['serve'], { cwd: elsewhere, env: { ...env, PORT: '0' } });
  const ended = once(service, 'close') as Promise<[number]>;
  let said = '';
  for (const stream of [service.stdout, service.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (said += text));
  const url = (): string | undefined => /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
  try {
    while (url() === undefined && service.exitCode === null)
      await Promise.race([once(service.stdout, 'data'), ended]);
    await act(url() ?? '');
  } finally {
    service.kill();
  }
  const [exitCode] = await ended;
  return { exitCode, said };
};

it('is a command that serves, where it was installed from a packed package', async () => {
  const { exitCode, said } = await serving(async (url) => {
    const { stdout: token } = await run(plants, ['token', '--owner', 'alice'], { cwd: elsewhere, env });
    const headers = { authorization: `Bearer ${token.trim()}`, 'content-type': 'application/json' };
    const plant = { name: '観音竹', tag: '椰子' };
    const body = JSON.stringify({ ...plant, id: 142 });
    const created = await fetch(`${url}/plants`, { method: 'POST', headers, body });
    expect([created.status, await created.json()]).toEqual([201, plant]);
    const list = await fetch(`${url}/plants`, { headers });
    expect([list.status, await list.json()]).toEqual([200, [plant]]);
  });
  expect(exitCode).toBe(0);
  expect(said).toContain(`TOKEN=$(DATA_DIR='${env.DATA_DIR}' npx plants token --owner alice)`);
});

it('has the second check, and offers no modules', async () => {
  const installed = join(elsewhere, 'node_modules', 'plant-store');
  expect(readFileSync(join(installed, 'docs', 'check.py'))).toEqual(readFileSync('docs/check.py'));
  const importing = run(process.execPath, ['-e', "import('plant-store/build/src/cli/plants.js')"], {
    cwd: elsewhere,
    env,
  });
  await expect(importing).rejects.toThrow(/ERR_PACKAGE_PATH_NOT_EXPORTED/);
});

it('needs a package for SQLite only where Node has none of its own, and says so there', async () => {
  rmSync(join(elsewhere, 'node_modules', '@photostructure'), { recursive: true });
  const { exitCode, said } = await serving(() => Promise.resolve());
  expect(said).not.toContain('ExperimentalWarning');
  if (process.getBuiltinModule('node:sqlite')) expect(exitCode).toBe(0);
  else {
    expect(exitCode).toBe(1);
    expect(said).toMatch(/no SQLite of its own .* @photostructure\/sqlite cannot be loaded: install it/);
  }
});
