import { beforeAll, describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { basename, join } from 'node:path';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { GrowingTree, leafHash } from '../../../src/transparency/merkle.js';
import { plantStream } from '../../../src/domain/stream.js';
import { START } from '../../../src/log/event-log.js';
import { parseEventLogUrl } from '../../../src/service/store-locations.js';
import { openEventLog } from '../../../src/service/stores.js';
import { CLI, runCli } from '../../support/http-cli.js';
import { sampleMetadata } from '../../support/log-events.js';
import { newEventLog } from '../../support/stores-of-this-run.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

/** `COPY_EVENTS=100000` is what the runbook's figures were measured with. */
const EVENTS = Number(process.env.COPY_EVENTS ?? 3_000);

const folder = temporaryFolder();
const file = (name: string): string => join(folder, name);
const url = (name: string): string => `sqlite:${file(name)}`;

/** Everything that an event is, but for its position: the very texts. */
const exported = (name: string): unknown[] => {
  const database = new DatabaseSync(file(name), { readOnly: true });
  try {
    return database
      .prepare('SELECT stream, revision, id, type, data, metadata FROM events ORDER BY seq')
      .all();
  } finally {
    database.close();
  }
};

/** The root of the tree over a log, as an auditor would sign it. */
const rootOf = async (place: string): Promise<string> => {
  const log = await openEventLog(parseEventLogUrl(place));
  try {
    const tree = new GrowingTree();
    for await (const event of log.readAll(START)) tree.append(leafHash(leafOf(event)));
    return `${tree.size} ${Buffer.from(tree.root()).toString('base64')}`;
  } finally {
    await log.close();
  }
};

const copy = (from: string, to: string, ...more: string[]) =>
  runCli(['copy', '--from', from, '--to', to, ...more], {});

describe('plants copy', () => {
  beforeAll(async () => {
    const log = await openSqliteEventLog(file('first.db'));
    const owners = ['alice', 'Zoë/1', '木', 'd%61ve'];
    let appending: Promise<unknown>[] = [];
    for (let n = 0; n < EVENTS; n++) {
      const id = Math.floor(n / 12);
      const revision = Math.floor((n % 12) / 4);
      const event =
        revision === 1
          ? { type: 'PlantDeleted', data: { id } }
          : { type: 'PlantCreated', data: { id, name: `Φίκος "${n}" 🌵`, tag: n % 5 ? `\\${n}` : '' } };
      const stream = plantStream(owners[n % 4] ?? '', id);
      const expected = revision === 0 ? 'none' : BigInt(revision - 1);
      appending.push(
        log.append(stream, expected, [{ id: randomUUID(), ...event, metadata: sampleMetadata() }]),
      );
      if (appending.length < 5_000) continue;
      await Promise.all(appending);
      appending = [];
    }
    await Promise.all(appending);
    await log.close();
  });

  it('moves a log to a server, and back to a file that is equal to the first', async () => {
    const server = newEventLog();
    const there = await copy(url('first.db'), server, '--json');
    expect(there).toMatchObject({ status: 0, stderr: '' });
    expect(JSON.parse(there.stdout)).toMatchObject({ events: EVENTS, appended: EVENTS });
    const root = await rootOf(url('first.db'));
    expect(root).toMatch(new RegExp(`^${EVENTS} `));
    expect(await rootOf(server)).toBe(root);
    const back = await copy(server, url('second.db'));
    expect(back.status).toBe(0);
    expect(back.stdout).toMatch(
      new RegExp(
        `^copied ${EVENTS} events in [\\d.]+ s; both logs hold the same ${EVENTS} events: compared one by one\n$`,
      ),
    );
    // Without a terminal, progress is one line for each phase.
    expect(back.stderr.split('\n').map((line) => line.split(':')[0])).toEqual(
      expect.arrayContaining(['comparing', 'copying', 'verifying']),
    );
    expect(exported('second.db')).toEqual(exported('first.db'));
    expect(exported('first.db')).toHaveLength(EVENTS);

    const again = await copy(url('first.db'), server, '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ events: EVENTS, appended: 0 });
  });

  it('goes on where it was interrupted, and says how', async () => {
    const server = newEventLog();
    const arguments_ = ['copy', '--from', url('first.db'), '--to', 'env:TARGET'];
    const child = spawn(process.execPath, ['--no-warnings', CLI, ...arguments_], {
      env: { PATH: process.env.PATH ?? '', TARGET: server },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (text.includes('comparing: ')) child.kill('SIGINT'); // its end: copying begins
    });
    await once(child, 'close');
    expect([child.exitCode, said]).toEqual([
      130,
      expect.stringMatching(/plants: interrupted: run the same command again to go on\n$/),
    ]);
    const { status, stdout } = await copy(url('first.db'), server, '--json');
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ events: EVENTS });
  });

  it('refuses a target that holds something else, and leaves it as it is', async () => {
    const log = await openSqliteEventLog(file('other.db'));
    const event = { id: randomUUID(), type: 'PlantDeleted', data: { id: 1 }, metadata: sampleMetadata() };
    await log.append(plantStream('zoe', 1), 'none', [event]);
    await log.close();
    const { status, stderr } = await copy(url('first.db'), url('other.db'));
    expect([status, stderr]).toEqual([
      1,
      'plants: the target holds other events: its event 1, plant-zoe/1 revision 0, is plant-alice/0 revision 0 in the source; copy into an empty log\n',
    ]);
    expect(exported('other.db')).toHaveLength(1);
  });

  it.each<[what: string, from: () => string, to: () => string, status: number, message: RegExp]>([
    ['no such file', () => url('none.db'), () => url('x.db'), 2, /--from: there is no file .*none\.db/],
    ['one log twice', () => url('first.db'), () => url('first.db'), 2, /--from and --to name the same log/],
    [
      'one log twice, in other words',
      () => url('first.db'),
      () => `sqlite:${folder}/../${basename(folder)}//first.db`,
      2,
      /--from and --to name the same log/,
    ],
    ['another scheme', () => url('first.db'), () => 'mysql://u:hunter2@h', 2, /--to: the URL must be/],
    ['a variable that is not set', () => 'env:NO_SUCH', () => url('x.db'), 2, /--from env:NO_SUCH: /],
    ['plaintext', () => url('first.db'), () => 'esdb://u:hunter2@h?tls=false', 2, /--to says tls=false/],
    [
      'a server that is not there',
      () => url('first.db'),
      () => 'esdb://u:hunter2@127.0.0.1:1?tls=false',
      1,
      /127\.0\.0\.1:1/,
    ],
  ])('says in one line what it cannot use: %s', async (_what, from, to, status, message) => {
    const ended = await copy(from(), to());
    expect([ended.status, ended.stderr]).toEqual([status, expect.stringMatching(message)]);
    expect(ended.stderr).toMatch(/^plants: [^\n]*\n$/);
    expect(ended.stderr).not.toContain('hunter2');
  });
});
