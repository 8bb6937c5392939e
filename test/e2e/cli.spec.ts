import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { decodeJwt } from 'jose';
import { runCli } from '../support/http-cli.js';
import { temporaryFolder } from '../support/service.js';

describe('plants token', () => {
  let dataDir: string;
  beforeEach(() => {
    dataDir = temporaryFolder();
  });
  afterEach(() => {
    rmSync(dataDir, { recursive: true });
  });

  const plants = (...args: string[]) => runCli(args, { DATA_DIR: dataDir });

  it('prints a token and nothing else, so that a shell can take it; the key it makes is its owner’s alone', async () => {
    const { status, stdout, stderr } = await plants('token', '--owner', 'alice', '--client', 'balcony');
    expect(status).toBe(0);
    expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    expect(decodeJwt(stdout)).toMatchObject({ sub: 'alice', client_id: 'balcony', aud: 'plants' });
    expect(stderr).toBe(`made the signing key ${join(dataDir, 'signing-key.json')}\n`);
    expect(statSync(join(dataDir, 'signing-key.json')).mode & 0o777).toBe(0o600);
  });

  it('prints JSON with the time of expiry when asked', async () => {
    const { stdout } = await plants('token', '--owner', 'alice', '--expires', '12h', '--json');
    const { token, expiresAt } = JSON.parse(stdout) as { token: string; expiresAt: string };
    const { exp = 0, iat = 0 } = decodeJwt(token);
    expect(exp - iat).toBe(12 * 3600);
    expect(expiresAt).toBe(new Date(exp * 1000).toISOString());
  });

  it.each([
    ['no owner', ['token']],
    ['an empty owner', ['token', '--owner', '']],
    ['an unknown scope', ['token', '--owner', 'a', '--scope', 'plants:admin']],
    ['a duration without a unit', ['token', '--owner', 'a', '--expires', '30']],
    ['an unknown option', ['token', '--owner', 'a', '--forever']],
    ['an unknown command', ['prune']],
  ])('refuses %s with status 2 and without a stack', async (_what, args) => {
    const { status, stdout, stderr } = await plants(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).not.toBe('');
    expect(stderr).not.toContain('    at ');
  });
});

describe('plants', () => {
  it('ends quietly where nobody reads what it prints', async () => {
    const { NODE_V8_COVERAGE, PATH = '' } = process.env;
    const child = spawn(process.execPath, ['build/src/cli.js', 'serve', '--help'], {
      env: { PATH, ...(NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect({ status: child.exitCode, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('tells its version and its settings', async () => {
    expect((await runCli(['--version'], {})).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const help = await runCli(['serve', '--help'], {});
    expect(help.status).toBe(0);
    expect(help.stdout).toContain('WRITE_WAIT_MS');
  });
});
