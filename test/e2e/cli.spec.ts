import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { decodeJwt } from 'jose';
import { CLI, runCli } from '../support/http-cli.js';
import { temporaryFolder } from '../support/temporary-folder.js';

describe('plants token', () => {
  let dataDir: string;
  beforeEach(() => {
    dataDir = temporaryFolder();
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
    ['a duration without a unit', ['token', '--owner', 'a', '--expires', '30']],
    ['a setting as an option', ['serve', '--port', '80']],
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
    const child = spawn(process.execPath, ['bin/plants.js', 'serve', '--help'], {
      env: { PATH, ...(NODE_V8_COVERAGE === undefined ? {} : { NODE_V8_COVERAGE }) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.destroy();
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect({ status: child.exitCode, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it.each([
    ['what the settings lack', ['status', '--json'], 1, /^there is no event log /],
    ['an option that is missing', ['skip', '--json'], 2, /^required option '--position <position>'/],
    ['an unknown option', ['verify', '--json', '--forever'], 2, /^unknown option '--forever'/],
    ['options that exclude each other', ['rebuild', '--json', '--dry-run', '--no-wait'], 2, /^--dry-run and/],
    ['a cancellation with options', ['rebuild', '--json', '--cancel', '--no-wait'], 2, /^--cancel takes no/],
  ])('says %s in one JSON object under --json', async (_what, args, exitStatus, says) => {
    const { status, stdout, stderr } = await runCli(args, { DATA_DIR: '/nonexistent' });
    expect({ status, stdout }).toEqual({ status: exitStatus, stdout: '' });
    expect(JSON.parse(stderr)).toEqual({ error: expect.stringMatching(says) as unknown, exitStatus });
  });

  it.each([
    ['status', 1],
    ['restore --from package.json', 1],
    ['audit-key', 1],
    ['copy --from sqlite:DIR/x.db --to sqlite:DIR/y.db', 1],
    ['demo --no-open', 1],
    ['serve', 1],
  ])('says of a folder that is a file what it is, not that there is no log: %s', async (command, status) => {
    const folder = temporaryFolder();
    const file = join(folder, 'file');
    writeFileSync(file, '');
    const args = command.replaceAll('DIR', file).split(' ');
    const ended = await runCli(args, { DATA_DIR: file, TMPDIR: file });
    expect(ended).toMatchObject({ status, stdout: '' });
    expect(ended.stderr).toMatch(/^[^\n]*\/file\/\S+ cannot be used \(ENOTDIR\): [^\n]*DATA_DIR[^\n]*\n$/);
  });

  it.each([
    [
      'a log named by a variable that is not set',
      ['copy', '--from', 'env:NONE', '--to', 'sqlite:x'],
      2,
      'is not set',
    ],
    ['a log that is none', ['copy', '--from', 'ftp://here', '--to', 'sqlite:x'], 2, '--from: '],
    ['to lift an alarm without a log', ['audit-lift', '--reason', 'seen'], 1, 'there is no event log '],
    ['to export without a log', ['export', '--out', 'x'], 1, 'there is no event log '],
    ['the key of a log that is not there', ['audit-key'], 1, 'there is no event log '],
    ['an id in another form', ['history', '--owner', 'a', '--plant', '01'], 2, 'an integer in its plain'],
    [
      'an id that no plant has',
      ['history', '--owner', 'a', '--plant', '9007199254740992'],
      2,
      'an integer in',
    ],
    ['a moment that is none', ['history', '--owner', 'a', '--as-of', 'noon'], 2, 'an RFC 3339 instant'],
    [
      'a moment in the future',
      ['history', '--owner', 'a', '--as-of', '2999-01-01T00:00:00Z'],
      2,
      'the future',
    ],
    ['a key in a file that cannot be read', ['check', 'x', '--key', '.'], 2, 'a file that cannot be read'],
  ])('refuses %s, and says why', async (_what, args, exitStatus, says) => {
    const { status, stdout, stderr } = await runCli(args, { DATA_DIR: '/nonexistent' });
    expect({ status, stdout }).toEqual({ status: exitStatus, stdout: '' });
    expect(stderr).toContain(says);
    expect(stderr).not.toContain('    at ');
  });

  it('prints what completes commands in other shells than bash', async () => {
    expect(await runCli(['completion', 'zsh'], {})).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('#compdef plants') as unknown,
    });
  });

  it('completes on a bare bash, sourced twice, without evaluating what is typed', async () => {
    const script = `
      set -eu
      plants() { ${process.execPath} --no-warnings ${CLI} "$@"; }
      source <(plants completion bash); source <(plants completion bash)
      typed() { COMP_WORDS=(plants "$@"); COMP_CWORD=$#; __plants_complete; echo "\${COMPREPLY[*]}"; }
      typed re; typed rebuild --; typed token --owner '$(touch evaluated)' --ex`;
    const dataDir = temporaryFolder();
    const bash = spawn('bash', ['--norc', '-c', script], { cwd: dataDir, env: { PATH: process.env.PATH } });
    const [out, err] = await Promise.all([text(bash.stdout), text(bash.stderr), once(bash, 'close')]);
    expect({ status: bash.exitCode, err, out }).toEqual({
      status: 0,
      err: '',
      out: expect.stringMatching(/^rebuild restore\n--rate .*--json .*--help\n--expires\n$/) as unknown,
    });
    expect(existsSync(join(dataDir, 'evaluated'))).toBe(false);
  });

  (process.platform === 'linux' ? it : it.skip).each([['serve'], ['token', '--owner', 'alice']])(
    'plants %s ends with one line where its folder cannot be made',
    async (...args) => {
      const { status, stdout, stderr } = await runCli(args, { DATA_DIR: '/proc/nope', PORT: '0' });
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
      // Without a terminal plants serve logs JSON, its last line too.
      expect(stderr).toMatch(
        /^(plants: |\{.*"msg":")cannot make the signing key \/proc\/nope\/.*: ENOENT("\})?\n$/,
      );
    },
  );

  it('tells its version and its settings', async () => {
    expect((await runCli(['--version'], {})).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const help = await runCli(['serve', '--help'], {});
    expect(help.status).toBe(0);
    expect(help.stdout).toContain('WRITE_WAIT_MS');
  });
});
