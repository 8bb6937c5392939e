import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { CliProcess } from '../support/cli-process.js';
import { PlantsClient } from '../support/history-client.js';
import { runCli } from '../support/http-cli.js';
import { freshStream, newEvents } from '../support/log-events.js';
import { served } from '../support/http-client.js';
import { samplesIn } from '../support/samples.js';
import { until } from '../support/waiting.js';
import { temporaryFolder } from '../support/temporary-folder.js';

describe('plants backup and plants restore, beside a running service', () => {
  const away = temporaryFolder();
  const copy = join(away, 'copy.db');
  const { service } = served();

  const plants = (...args: string[]) => runCli(args, service.env);

  afterEach(() => {
    CliProcess.killAll();
  });

  it('bring back everything that was acknowledged before, when all else is lost', async () => {
    const client = new PlantsClient(() => service.url, await service.token('alice'));
    const stopping = new AbortController();
    let acknowledged = 0;
    const writing = (async () => {
      while (!stopping.signal.aborted) {
        const { status } = await client.create({
          id: acknowledged + 1,
          name: `${acknowledged + 1}`,
          tag: '',
        });
        expect(status).toBe(201);
        acknowledged += 1;
      }
    })();
    while (acknowledged < 20) await client.list();
    const before = acknowledged;
    const backup = await plants('backup', '--to', copy, '--json');
    const during = acknowledged;
    stopping.abort();
    await writing;

    expect({ status: backup.status, stderr: backup.stderr }).toEqual({ status: 0, stderr: '' });
    const made = JSON.parse(backup.stdout) as { events: number };
    expect(made).toEqual({
      file: copy,
      events: expect.any(Number),
      head: expect.stringMatching(/^\d{16}$/) as unknown,
      bytes: expect.any(Number),
      seconds: expect.any(Number),
    });
    expect(made.events).toBeGreaterThanOrEqual(before);
    expect(during).toBeGreaterThan(before); // clients did not wait for it

    const log = join(service.dataDir, 'events.db');
    expect(await plants('backup', '--to', copy)).toEqual({
      status: 1,
      stdout: '',
      stderr: `plants: ${copy} exists, and nothing is overwritten: name another file, or move it away\n`,
    });
    expect(await plants('restore', '--from', copy)).toEqual({
      status: 1,
      stdout: '',
      stderr: `plants: ${log} exists, and nothing is overwritten: name another file, or move it away\n`,
    });

    await service.kill();
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${log}${suffix}`, { force: true });
    const restored = await plants('restore', '--from', copy);
    expect(restored.status).toBe(0);
    expect(restored.stdout).toMatch(new RegExp(`^restored ${made.events} events, .* to ${log}: checked\n$`));

    await service.start();
    // The lists are of a log that went further: they are refused, and made again.
    let answer = await client.list();
    while (answer.status === 503) answer = await client.list();
    const { body } = answer;
    const names = (JSON.parse(body) as { name: string }[]).map(({ name }) => Number(name));
    expect(names).toEqual(Array.from({ length: Math.min(made.events, 1_000) }, (_, at) => at + 1));
    client.close();
  });

  it('leave nothing behind after Ctrl-C', async () => {
    const file = join(away, 'long.db');
    const log = await openSqliteEventLog(file);
    await log.append(freshStream(), 'none', newEvents(30_000));
    await log.close();
    const files = () => readdirSync(away).filter((name) => !/-(wal|shm)$/.test(name));
    const before = files();
    const backup = CliProcess.piped(['backup', '--to', join(away, 'never.db')], {
      ...service.env,
      EVENT_LOG: `sqlite:${file}`,
    });
    await backup.says(/^copying: /m);
    backup.signal('SIGINT');
    expect(await backup.ended()).toBe(130);
    expect(backup.stderr).toMatch(/\nplants: interrupted: no backup was made\n$/);
    expect(files()).toEqual(before);
  });

  it('say what they cannot do', async () => {
    const nowhere = { ...service.env, DATA_DIR: join(away, 'empty') };
    const server = { ...service.env, EVENT_LOG: 'esdb://localhost:2113?tls=false' };
    const onServer =
      'plants: EVENT_LOG is not a file but EventStoreDB: back it up and restore it as docs/runbook.md, section 4, says\n';
    for (const [args, settings, status, stderr] of [
      [['backup', '--to', copy], server, 2, onServer],
      [['restore', '--from', copy], server, 2, onServer],
      [
        ['backup', '--to', copy],
        nowhere,
        1,
        `plants: there is no event log ${join(away, 'empty', 'events.db')}: give this command the settings (DATA_DIR, EVENT_LOG) of the service\n`,
      ],
      [
        ['restore', '--from', join(away, 'none')],
        nowhere,
        2,
        `plants: --from: there is no file ${join(away, 'none')}\n`,
      ],
      [
        ['backup', '--to', join(away, 'mnt', 'copy.db')],
        service.env,
        1,
        `plants: there is no folder ${join(away, 'mnt')}: if it is on a disk of its own, mount that first; otherwise make it\n`,
      ],
    ] as const)
      expect(await runCli(args, settings)).toEqual({ status, stdout: '', stderr });
    for (const name of ['empty', 'mnt']) expect(existsSync(join(away, name))).toBe(false);
  });
});

describe('plants check-backup', () => {
  const http = served();
  const { service } = http;
  const plants = (...args: string[]) => runCli(args, service.env);

  it('proves a backup by what the service has signed; status and metrics show of when it is', async () => {
    const key = (await plants('audit-key')).stdout.trim();
    const file = join(temporaryFolder(), 'proven.db');
    const proof = ['--against', service.url] as const;
    const client = new PlantsClient(() => service.url, await service.token('bob'));
    await client.create({ id: 1, name: 'Ficus', tag: '' });
    await until(async () => /^[^\n]+\n[1-9]/.test((await http.send({ path: '/log/checkpoint' })).text));
    const before = Date.now();
    const backup = await plants('backup', '--to', file, '--check-with', key, ...proof);
    expect(backup.status).toBe(0);
    expect(backup.stdout.split('\n')[1]).toMatch(
      new RegExp(
        `^proven: ${file} holds the first .* that were signed by ${key.split('+', 2).join('.')};.* it lacks nothing`,
      ),
    );
    await client.create({ id: 2, name: 'Ficus', tag: '' });
    client.close();
    const checked = async () =>
      JSON.parse((await plants('check-backup', file, '--key', key, ...proof, '--json')).stdout) as Record<
        string,
        unknown
      >;
    await until(async () => (await checked()).lacksEvents !== 0);
    const { events, ...old } = await checked();
    expect(old).toMatchObject({
      verdict: 'old',
      proven: events,
      lacksSeconds: expect.any(Number) as unknown,
    });
    const { text } = await http.send({ path: '/metrics' });
    const at = Number(samplesIn(text).get('plants_last_proven_backup_timestamp_seconds'));
    expect(Math.abs(at * 1_000 - before)).toBeLessThan(60_000);
    const shown = new RegExp(`^backup +${String(events)} events?, proven, of .* ago$`, 'm');
    await until(async () => shown.test((await plants('status')).stdout));
  });
});
