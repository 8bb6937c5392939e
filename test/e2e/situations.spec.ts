import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { CliProcess } from '../support/cli-process.js';
import { runCli } from '../support/http-cli.js';
import { HttpClient } from '../support/http-client.js';
import { TestService } from '../support/service.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** The places in which a command is called: with a service there or elsewhere, or with none. */
const SITUATIONS = {
  'a service runs here': 'here',
  'none runs': 'none',
  'elsewhere, with a token': 'token',
  'elsewhere, with a token that may not': 'other token',
} as const;

/** The commands, in an order in which each finds what it needs, with their exit status. */
const COMMANDS: readonly (readonly [status: number, ...args: string[]])[] = [
  [0, 'rebuild', '--dry-run'],
  [1, 'rebuild', '--cancel'],
  [1, 'rollback'],
  [0, 'rebuild'],
  [0, 'rollback', '--reason', 'slower than before'],
  [0, 'verify'],
  [1, 'skip', '--position', '1', '--reason', 'odd', '--yes'],
  [1, 'skip', '--position', '0000000000000001', '--reason', 'odd', '--yes'],
  [0, 'audit-lift', '--reason', 'restored'],
  [0, 'backup', '--to', 'FOLDER/copy.db'],
  [1, 'backup', '--to', 'FOLDER/copy.db'],
  [0, 'erase', '--owner', 'alice', '--reason', 'request 7', '--dry-run'],
  [1, 'erase', '--owner', 'nobody', '--reason', 'request 7', '--yes'],
  [0, 'erase', '--owner', 'alice', '--reason', 'request 7', '--yes'],
];

/** A text without what differs from one run to the next. */
const plain = (text: string, folder: string): string =>
  text
    .replaceAll(folder, 'FOLDER')
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '<id>')
    .replace(
      /"(seconds|estimatedSeconds\w*|bytes|events|plants|differing|generation|active)":[\d.]+/g,
      '"$1":<n>',
    )
    .replace(/"(root|position|head)":"[^"]*"/g, '"$1":"<x>"');

const words = (args: readonly string[], folder: string): string[] => [
  ...args.map((word) => word.replace('FOLDER', folder)),
  '--json',
];

describe('what an operator asks for', () => {
  /** Output and exit status of each command, by situation. */
  const printed: Record<string, unknown[]> = {};

  describe.each(Object.entries(SITUATIONS))('%s', (_name, situation) => {
    let service: TestService;
    let folder: string;
    beforeAll(async () => {
      service = await TestService.start();
      folder = temporaryFolder();
      const http = new HttpClient(service);
      for (const id of [1, 2, 3])
        await http.create({ id, name: `plant ${id}`, tag: '' }, { token: await http.token('alice') });
    });
    afterAll(() => service.remove());

    it('is done, and printed, or refused', async () => {
      const isElsewhere = situation.endsWith('token');
      const token = join(folder, 'token');
      const scope = situation === 'token' ? 'plants:operate plants:erase' : 'plants:read';
      writeFileSync(token, await service.token('olga', scope));
      const env = isElsewhere ? { PLANTS_URL: service.url, DATA_DIR: join(folder, 'none') } : service.env;
      if (situation === 'none') await service.kill();
      printed[situation] = [];
      for (const [status, ...args] of COMMANDS) {
        const told = isElsewhere ? ['--token-file', token] : [];
        const ran = await runCli([...words(args, folder), ...told], env);
        if (situation === 'other token') {
          expect([args, ran]).toEqual([
            args,
            refused(args[0] === 'erase' ? 'plants:erase' : 'plants:operate'),
          ]);
          continue;
        }
        expect([args, ran.status, ran.stderr.includes('    at ')]).toEqual([args, status, false]);
        printed[situation].push([
          args,
          plain(ran.stdout, folder),
          ran.status === 0 ? '' : plain(ran.stderr, folder),
        ]);
      }
    });

    const refused = (scope: string) => ({
      status: 1,
      stdout: '',
      stderr: `${JSON.stringify({ error: `this needs a token with the scope ${scope}`, exitStatus: 1 })}\n`,
    });
  });

  it('has the same words wherever it is done', () => {
    expect(printed.none).toEqual(printed.here);
    expect(printed.token).toEqual(printed.here);
  });
});

describe('a service elsewhere whose connections break', () => {
  let service: TestService;
  let proxy: TcpProxy;
  let folder: string;
  let env: Record<string, string>;
  beforeAll(async () => {
    service = await TestService.start();
    folder = temporaryFolder();
    const http = new HttpClient(service);
    for (let id = 1; id <= 300; id++) await http.create({ id, name: `plant ${id}`, tag: 'x'.repeat(200) });
    proxy = await TcpProxy.start(service.port);
    env = {
      PLANTS_URL: `http://127.0.0.1:${proxy.port}`,
      PLANTS_TOKEN: await service.token('olga', 'plants:operate'),
    };
  });
  afterEach(() => {
    CliProcess.killAll();
  });
  afterAll(async () => {
    await proxy.refuse();
    await service.remove();
  });

  it('is come back to by a rebuild that is under way', async () => {
    const rebuild = CliProcess.piped(['rebuild', '--rate', '150'], env);
    await rebuild.says(/is requested/);
    await proxy.refuse();
    await rebuild.says(/trying again/);
    await proxy.accept();
    expect(await rebuild.ended()).toBe(0);
    expect(rebuild.stdout).toMatch(/was verified and promoted/);
  });

  it.each([
    ['reset', (client: Socket) => client.resetAndDestroy()],
    ['closed', (client: Socket) => client.end()],
  ])('leaves nothing of a backup whose connection is %s in the middle', async (_how, cut) => {
    const cutting = createServer((client) => {
      const target = connect(service.port, '127.0.0.1');
      client.on('error', () => target.destroy()).pipe(target);
      target.on('data', (piece) => {
        const isBackup = piece.includes('application/vnd.sqlite3');
        client.write(piece.subarray(0, 4_096), () => isBackup && cut(client));
        if (isBackup) target.destroy();
      });
    }).listen(0, '127.0.0.1');
    await once(cutting, 'listening');
    const { port } = cutting.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}`;
    const { status, stderr } = await runCli(['backup', '--to', join(folder, 'copy.db'), '--url', url], env);
    cutting.close();
    expect(stderr).toMatch(
      /plants: http:\S+ ended the answer after \d+ of \d+ bytes: run the command again\n$/,
    );
    expect([status, readdirSync(folder)]).toEqual([3, []]);
  });

  it('is told of where it is away: no stack, and an exit status of its own', async () => {
    await proxy.refuse();
    for (const args of [['status'], ['verify'], ['rebuild'], ['audit-lift', '--reason', 'x']]) {
      const { status, stderr } = await runCli(args, env);
      expect([args, status, stderr]).toEqual([
        args,
        3,
        `plants: ${env.PLANTS_URL} cannot be reached (ECONNREFUSED): check that the service runs there\n`,
      ]);
    }
    await proxy.accept();
  });

  it.each([
    ['has no token', {}, 2, /there is no token for .*: give one \(--token-file, PLANTS_TOKEN\)/],
    [
      'is another machine without TLS, and a key that would sign a token for it',
      { PLANTS_URL: 'http://192.0.2.1:3000', DATA_DIR: 'SERVICE' },
      2,
      /there is no token for http:\/\/192/,
    ],
    ['is no URL', { PLANTS_URL: 'plants.example' }, 2, /--url must be the address of the service/],
  ])('refuses in one line what %s', async (_what, settings, status, line) => {
    const env = { PLANTS_URL: service.url, DATA_DIR: folder, ...settings };
    if (env.DATA_DIR === 'SERVICE') env.DATA_DIR = service.dataDir;
    const ran = await runCli(['status'], env);
    expect(ran).toMatchObject({ status, stdout: '', stderr: expect.stringMatching(line) as unknown });
    expect(readdirSync(folder)).toEqual([]);
  });
});
