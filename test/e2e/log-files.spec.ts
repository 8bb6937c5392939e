import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DatabaseSync } from '../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { rescuedBeside } from '../../src/log/sqlite/log-files.js';
import { type Answer, HttpClient, problemIn } from '../support/http-client.js';
import { runCli } from '../support/http-cli.js';
import { TestService } from '../support/service.js';
import { STORES } from '../support/stores-of-this-run.js';
import { until } from '../support/waiting.js';

/** Plants that are created, and acknowledged, before a file is taken away. */
const BEFORE = 20;

(STORES === 'embedded' ? describe : describe.skip)('a service whose event log cannot be written', () => {
  let service: TestService;
  let http: HttpClient;
  const at = (name: string): string => join(service.dataDir, name);

  beforeEach(async () => {
    service = await TestService.start({ WRITE_WAIT_MS: '500' });
    http = new HttpClient(service);
    await service.ready();
    for (let id = 0; id < BEFORE; id += 1) await create(id, 201);
  });
  afterEach(() => http.finish());

  const create = async (id: number, expected: number): Promise<Answer> => {
    const answer = await http.create({ name: id === 999 ? 'x' : `${id}`, tag: '', id });
    expect([id, answer.status]).toEqual([id, expected]);
    return answer;
  };
  const health = (which: 'live' | 'ready'): Promise<Answer> => http.send({ path: `/health/${which}` });
  const writable = async (): Promise<string | undefined> =>
    /^plants_event_log_writable (\d)$/m.exec((await http.send({ path: '/metrics' })).text)?.[1];
  const names = async (): Promise<string[]> =>
    (JSON.parse((await http.list('?limit=1000')).text) as { name: string }[]).map(({ name }) => name);
  const all = Array.from({ length: BEFORE }, (_, id) => `${id}`);
  /** The messages that the process has logged about its event log. */
  const logged = (): string[] =>
    service.logged
      .filter(({ eventLog, msg }) => eventLog !== undefined && !String(msg).includes('is being saved'))
      .map(({ msg }) => String(msg));

  /** Readiness, status, metrics and one line of the log tell the same. */
  const told = async (says: RegExp): Promise<void> => {
    await until(() => logged().length > 0);
    expect(logged()).toEqual([expect.stringMatching(says)]);
    const ready = problemIn(await health('ready'), 503, 'not_ready');
    expect(ready.parts).toMatchObject({
      event_log: { status: 'down', message: expect.stringMatching(says) as unknown },
    });
    expect(await writable()).toBe('0');
    await until(async () => {
      const { status, stdout } = await runCli(['status', '--json'], service.env);
      const { problems } = JSON.parse(stdout) as { problems: string[] };
      expect([0, 1]).toContain(status);
      return (
        status === 1 &&
        problems.some((problem) => problem.includes('cannot write the event log') && says.test(problem))
      );
    });
  };

  it('since its write-ahead log was removed: it is brought into the file, a restart is asked for, and all is there', async () => {
    rmSync(at('events.db-wal'));
    await create(999, 503);
    await told(/events\.db-wal was removed .* nothing is lost, .* brought into .*; start again/);
    const live = await health('live');
    expect(problemIn(live, 503, 'restart_needed').detail).toMatch(/log and plants status say why\.$/);
    expect(live.text).not.toContain(service.dataDir); // anybody may ask
    await service.kill();
    await service.start();
    await service.ready();
    expect((await names()).filter((name) => name !== 'x')).toEqual(all);
    expect((await health('live')).status).toBe(200);
    await create(1_000, 201);
  });

  it('since all of it was removed: it is saved, no new log is made, and the words bring all back', async () => {
    for (const suffix of ['', '-wal', '-shm']) rmSync(at(`events.db${suffix}`));
    await until(() => logged().length > 0);
    await create(999, 503);
    expect((await health('live')).status).toBe(200); // a restart would end the lists, too
    const [line = ''] = logged();
    expect(line).toMatch(/events\.db was removed .* was saved in .*events\.db\.rescued-.*; keep that file/);
    await service.kill();
    const { status, stderr } = await runCli(['serve'], service.env);
    expect(status).toBe(2);
    expect(stderr).toMatch(
      /^\{.*"msg":"there is no event log .*events\.db, and .*rescued-.* rename that copy to [^\n]*\n$/,
    );
    expect(existsSync(at('events.db'))).toBe(false);
    renameSync(rescuedBeside(at('events.db')).at(-1) ?? '', at('events.db'));
    await service.start();
    await service.ready();
    expect(await names()).toEqual(all);
    await create(1_000, 201);
  });

  it.each([
    ['lists', 'tree.db'],
    ['tree.db', 'lists'],
  ])('makes no new log where it is missing beside %s', async (left, other) => {
    await service.stop();
    for (const suffix of ['', '-wal', '-shm'])
      for (const name of ['events.db', other])
        rmSync(at(`${name}${suffix}`), { recursive: true, force: true });
    const { status, stderr } = await runCli(['serve'], service.env);
    expect([status, stderr]).toEqual([
      2,
      expect.stringMatching(
        new RegExp(
          `^\\{.*"msg":"there is no event log .*events\\.db, but .*${left} is there.*delete none[^\\n]*\\n$`,
        ),
      ),
    ]);
    expect(existsSync(at('events.db'))).toBe(false);
  });

  const refusedStart = async (expected: number): Promise<string> => {
    const { status, stderr } = await runCli(['serve'], service.env);
    expect(status).toBe(expected);
    expect(stderr).toMatch(/^\{[^\n]*\}\n$/);
    return (JSON.parse(stderr) as { msg: string }).msg;
  };

  /** Of the log in that file, which is made where there is none. */
  const identityOf = async (file: string): Promise<string> => {
    const log = await openSqliteEventLog(file);
    try {
      return log.identity();
    } finally {
      await log.close();
    }
  };

  it.each([
    ['lists', 'tree.db'],
    ['tree.db', 'lists'],
  ])('does not begin with a new, empty log in its place beside %s of the old one', async (left, other) => {
    await service.stop();
    const old = await identityOf(at('events.db'));
    for (const suffix of ['', '-wal', '-shm'])
      for (const name of ['events.db', other])
        rmSync(at(`${name}${suffix}`), { recursive: true, force: true });
    const made = await identityOf(at('events.db'));
    const refused = await refusedStart(2);
    expect(refused).toContain(`is empty and is the log ${made}`);
    expect(refused).toContain(`${left} was made from the log ${old}`);
  });

  it('makes the lists again where an older file is in its place', async () => {
    await service.stop();
    copyFileSync(at('events.db'), at('older.db'));
    await service.start();
    await service.ready();
    await create(1_000, 201);
    await service.stop();
    renameSync(at('older.db'), at('events.db'));
    await service.start();
    await service.ready();
    const says = /^the lists are of another log/;
    expect(service.logged.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(says));
    await create(1_000, 201);
  });

  it('says that its tree was begun again where the audit key is from before', async () => {
    await service.stop();
    for (const suffix of ['', '-wal', '-shm']) rmSync(at(`tree.db${suffix}`), { force: true });
    await service.start();
    await service.ready();
    const says = /there was no .*tree\.db beside .*audit-key\.pem.*put it back/;
    expect(service.logged.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(says));
    await until(async () => {
      const { stdout } = await runCli(['status', '--json'], service.env);
      return (JSON.parse(stdout) as { warnings: string[] }).warnings.some((warning) => says.test(warning));
    });
  });

  it('since it is locked: it is not ready, is alive, and is ready again by itself', async () => {
    const holder = new DatabaseSync(at('events.db'));
    holder.exec('BEGIN IMMEDIATE');
    await create(999, 503);
    expect((await health('live')).status).toBe(200);
    const ready = problemIn(await health('ready'), 503, 'not_ready');
    expect(ready.parts).toMatchObject({ event_log: { status: 'down' } });
    expect(await writable()).toBe('0');
    holder.exec('ROLLBACK');
    holder.close();
    await service.ready();
    expect(await writable()).toBe('1');
    expect(logged()).toEqual([
      expect.stringMatching(/cannot be written: .* locked by another process/),
      'the event log can be written again',
    ]);
    await create(1_000, 201);
  });
});
