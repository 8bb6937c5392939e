/**
 * Makes the golden files of test/golden.
 *
 *     node build/test/support/golden/make.js recordings             answers and outputs, after a wanted change of them
 *     node build/test/support/golden/make.js stores BIN STORES URL  stores and bundles, with the code of BIN and STORES
 *
 * Stores and bundles are made again only to add what no version has written yet, by the oldest code that writes it.
 * BIN is a bin/plants.js, STORES its built module with openEventLog, URL a Redis without keys.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { type EventLog } from '../../../src/log/event-log.js';
import { type EventLogLocation } from '../../../src/service/store-locations.js';
import { CLI } from '../http-cli.js';
import { writeRecording } from './compare.js';
import { GOLDEN, type Meta } from './files.js';
import { runCommand, startService, tokensOf } from './recording.js';
import { dump } from './redis-dump.js';
import { houseplants } from './requests.js';

const [task, bin = CLI, storesModule = '', redisUrl = ''] = process.argv.slice(2);

const makeStores = async (): Promise<void> => {
  const dataDir = mkdtempSync(join(tmpdir(), 'plants-golden-'));
  const settings = { DATA_DIR: dataDir };
  let service = await startService(bin, settings);
  const began = Date.now();
  const tokens = await tokensOf(settings);
  const send = async (
    as: string,
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> => {
    const answer = await fetch(`${service.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${tokens.get(as) ?? ''}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const plants = houseplants();
  const add = async (as: string, from: number, count: number): Promise<void> => {
    for (const [index, plant] of plants.slice(from, from + count).entries())
      await send(as, 'POST', '/plants', { ...plant, id: index + 1 }, { 'x-correlation-id': `golden ${as}` });
  };
  await add('alice', 0, 60);
  await add('bob', 60, 12);
  await add('olga', 72, 10);
  await add('carol', 82, 4);
  const traced = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' };
  await send(
    'bob',
    'POST',
    '/plants',
    { name: 'Named request', tag: 'golden', id: 500 },
    {
      'idempotency-key': '"golden-0"',
      ...traced,
    },
  );
  await send('bob', 'DELETE', '/plants/3', undefined, { 'idempotency-key': '"golden-00"' });
  for (const id of [2, 5, 7, 60]) await send('alice', 'DELETE', `/plants/${id}`);
  await send('alice', 'POST', '/plants', { name: 'Back again', tag: '', id: 5 });

  const status = async (): Promise<{ rebuild: unknown; lastRebuild: { outcome: string } | null }> =>
    (await (await send('operator', 'GET', '/operations/status')).json()) as never;
  const over = async (outcome: string): Promise<void> => {
    for (;;) {
      const { rebuild, lastRebuild } = await status();
      if (rebuild === null && lastRebuild?.outcome.startsWith(outcome)) return;
      await delay(50);
    }
  };
  await send('operator', 'POST', '/operations/rebuilds', {});
  await over('promoted');
  await send('operator', 'POST', '/operations/rollback', { reason: 'golden' });
  await over('rolled back');
  const { rebuild } = (await (
    await send('operator', 'POST', '/operations/rebuilds', { rate: 1, unskip: true })
  ).json()) as {
    rebuild: string;
  };
  await send('operator', 'DELETE', `/operations/rebuilds/${rebuild}`);
  await over('cancelled');
  // The record of the first checkpoint comes a minute after it.
  await delay(Math.max(0, began + 63_000 - Date.now()));
  await service.stop();

  // An event of a version that is still to come, and the decision to skip it.
  const { openEventLog } = (await import(pathToFileURL(storesModule).href)) as {
    openEventLog: (location: EventLogLocation) => Promise<EventLog>;
  };
  const log = await openEventLog({ kind: 'sqlite', file: join(dataDir, 'events.db') });
  const [of] = await log.readStream('plant-carol/1');
  if (!of) throw new Error('carol has no plant 1');
  await log.append('plant-carol/1', of.revision, [
    {
      id: randomUUID(),
      type: 'PlantCreated',
      data: { size: 'large' },
      metadata: { ...(of.metadata as object), schemaVersion: 99 } as never,
    },
  ]);
  const events = [];
  for await (const event of log.readAll('' as never)) events.push(event);
  await log.close();
  service = await startService(bin, settings);
  const blocked = events.at(-1)?.position ?? '';
  const skip = ['skip', '--position', blocked, '--reason', 'golden', '--yes', '--force', '--json'];
  for (;;) {
    const skipped = await runCommand(bin, skip, settings);
    if (skipped.status === 0) break;
    await delay(100);
  }
  for (let healed = false; !healed;)
    healed = await fetch(`${service.url}/plants`, {
      headers: { authorization: `Bearer ${tokens.get('carol') ?? ''}` },
    }).then(async (answer) => (await answer.arrayBuffer(), answer.ok));
  const size = String(events.length + 1);
  for (;;) {
    const note = await (await send('auditor', 'GET', '/log/checkpoint')).text();
    if (note.split('\n')[1] === size) break;
    await delay(100);
  }
  const positions = [events[3], events[40], events.at(-1)].map((event) => event?.position ?? '');
  for (const [index, position] of positions.slice(0, 2).entries())
    writeFileSync(
      join(GOLDEN, `receipt-${index + 1}.json`),
      await (await send('alice', 'GET', `/log/receipt?position=${position}`)).text(),
    );
  await service.stop();

  const exported = async (name: string, ...args: string[]): Promise<void> => {
    const file = join(dataDir, name);
    const { status, stderr } = await runCommand(bin, ['export', '--out', file, '--json', ...args], settings);
    if (status !== 0) throw new Error(stderr);
    writeFileSync(join(GOLDEN, `${name}.gz`), gzipSync(readFileSync(file), { level: 9 }));
    rmSync(file);
  };
  await exported('bundle.ndjson');
  await exported('bundle-bob.ndjson', '--owner', 'bob');
  writeFileSync(join(GOLDEN, 'plants.vkey'), (await runCommand(bin, ['audit-key'], settings)).stdout);

  mkdirSync(join(GOLDEN, 'data'), { recursive: true });
  for (const name of readdirSync(dataDir).filter((one) => !one.endsWith('-shm'))) {
    const bytes = readFileSync(join(dataDir, name));
    if (/\.db(-wal)?$/.test(name)) {
      if (bytes.length > 0) writeFileSync(join(GOLDEN, 'data', `${name}.gz`), gzipSync(bytes, { level: 9 }));
    } else writeFileSync(join(GOLDEN, 'data', name), bytes);
  }

  // The same log's lists in Redis.
  service = await startService(bin, { ...settings, READ_MODEL: redisUrl });
  await service.stop();
  writeFileSync(join(GOLDEN, 'redis.ndjson.gz'), gzipSync(await dump(redisUrl), { level: 9 }));
  const meta: Meta = {
    madeAt: new Date().toISOString(),
    commit: 'fe1de55',
    positions: positions as [string, string, string],
  };
  writeFileSync(join(GOLDEN, 'meta.json'), `${JSON.stringify(meta, undefined, 2)}\n`);
  rmSync(dataDir, { recursive: true });
};

if (task === 'stores') await makeStores();
else if (task === 'recordings') await writeRecording(bin);
else {
  process.stderr.write('make.js stores BIN STORES REDIS_URL | recordings [BIN]\n');
  process.exitCode = 2;
}
