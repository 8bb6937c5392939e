import { chmodSync, cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { HttpClient } from '../support/http-client.js';
import { runCli } from '../support/http-cli.js';
import { TestService } from '../support/service.js';
import { STORES } from '../support/stores-of-this-run.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** True for root, who may write whatever the permissions say. */
const isRoot = process.getuid?.() === 0;

(STORES === 'embedded' ? describe : describe.skip)('a folder that a service uses', () => {
  let service: TestService;
  let http: HttpClient;
  const folders: string[] = [];
  beforeEach(async () => {
    service = await TestService.start();
    http = new HttpClient(service);
    await service.ready();
    expect((await http.create({ id: 1, name: 'fern', tag: '' })).status).toBe(201);
  });
  afterEach(async () => {
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
    await http.finish();
  });

  const log = (): string => join(service.dataDir, 'events.db');
  const plants = (...args: string[]) => runCli(args, service.env);
  /** That command fails, and says so in one line. */
  const refused = async (args: readonly string[], env = service.env, exit = 1): Promise<string> => {
    const { status, stderr } = await runCli(args, env);
    expect([status, stderr]).toEqual([exit, expect.stringMatching(/^[^\n]+\n$/)]);
    return args[0] === 'serve' ? (JSON.parse(stderr) as { msg: string }).msg : stderr;
  };

  it('is used by no other one, which names the first and says what to do', async () => {
    expect(await refused(['serve'])).toBe(
      `${log()} is in use by process ${service.pid} at ${service.url}: stop it first, or give this service another DATA_DIR`,
    );
    rmSync(join(service.dataDir, 'service.json')); // as before it listens
    expect(await refused(['serve'])).toMatch(/ is in use by another process, which is starting, /);
    expect((await http.create({ id: 2, name: 'moss', tag: '' })).status).toBe(201);
  });

  it('is read beside it, and changed through it alone', async () => {
    const out = temporaryFolder();
    folders.push(out);
    for (const args of [
      ['history'],
      ['audit-key'],
      ['backup', '--to', join(out, 'backup.db')],
      ['export', '--out', join(out, 'bundle.ndjson')],
      ['copy', '--from', `sqlite:${log()}`, '--to', `sqlite:${join(out, 'copy.db')}`],
      ['status'],
      ['verify'],
      ['rebuild'],
    ])
      expect([args[0], await plants(...args)]).toEqual([args[0], expect.objectContaining({ status: 0 })]);
    expect(
      await refused(['copy', '--from', `sqlite:${join(out, 'copy.db')}`, '--to', `sqlite:${log()}`]),
    ).toBe(`plants: ${log()} is in use by another process: stop that first, or name another file\n`);
    // A service whose tokens this command cannot make is not asked.
    const issuer = {
      ...service.env,
      ...{
        AUTH_ISSUER: 'https://id.example',
        AUTH_AUDIENCE: 'plants',
        AUTH_JWKS_URL: 'https://id.example/k',
      },
    };
    expect((await runCli(['status'], issuer)).stdout).toContain('GENERATION');
    for (const command of [
      ['rebuild', '--no-wait'],
      ['audit-lift', '--reason', 'a'],
      ['erase', '--owner', 'ada', '--reason', 'a', '--yes'],
    ])
      expect(await refused(command, issuer)).toBe(
        `plants: ${log()} is in use by process ${service.pid} at ${service.url}: stop it first, or give this command a token for it (--token-file)\n`,
      );
  });

  it('is taken over at once from one that was killed', async () => {
    await service.kill();
    expect((await plants('rebuild')).status).toBe(0);
    await service.start();
    await service.ready();
    expect((await http.list()).text).toBe('[{"name":"fern","tag":""}]');
    expect(await refused(['serve'])).toContain(`is in use by process ${service.pid} at ${service.url}`);
  });

  it('can be copied while nothing runs, and both go on by themselves', async () => {
    await service.stop();
    const copy = temporaryFolder();
    folders.push(copy);
    cpSync(service.dataDir, copy, { recursive: true });
    await service.start();
    const other = new HttpClient(await TestService.start({ DATA_DIR: copy }));
    try {
      await Promise.all([service.ready(), other.service.ready()]);
      expect((await other.create({ id: 2, name: 'moss', tag: '' })).status).toBe(201);
      expect((await http.list()).text).toBe('[{"name":"fern","tag":""}]');
      expect((await other.list()).text).toBe('[{"name":"fern","tag":""},{"name":"moss","tag":""}]');
    } finally {
      await other.service.leave();
    }
  });

  (isRoot ? it.skip : it)('says that it is read-only', async () => {
    await service.stop();
    chmodSync(service.dataDir, 0o500);
    try {
      expect(await refused(['serve'])).toContain(service.dataDir);
    } finally {
      chmodSync(service.dataDir, 0o700);
    }
  });
});
