import { expect, it } from '@jest/globals';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { served } from '../support/http-client.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/waiting.js';

/**
 * Collects garbage in each thread again and again, and counts in a file of the thread. The flag is set here, since Node
 * 20 does not take --expose-gc from NODE_OPTIONS.
 */
const collecting = (counts: string): string => `
  import { writeFileSync } from 'node:fs';
  import { setFlagsFromString } from 'node:v8';
  import { runInNewContext } from 'node:vm';
  import { threadId } from 'node:worker_threads';
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  let count = 0;
  setInterval(() => {
    collect();
    count += 1;
    writeFileSync(${JSON.stringify(counts)} + '/' + threadId, String(count));
  }, 20).unref();`;

/** The main thread, and the auditor's. */
const THREADS = 2;

const counts = temporaryFolder();
const script = join(temporaryFolder(), 'collecting.mjs');
writeFileSync(script, collecting(counts));
const http = served({ NODE_OPTIONS: `--import ${script}` });

const counted = (): ReadonlyMap<string, number> =>
  new Map(readdirSync(counts).map((thread) => [thread, Number(readFileSync(join(counts, thread), 'utf8'))]));

/** Resolves when each thread has collected twice: native code lets go after the first. */
const collected = async (): Promise<void> => {
  const before = counted();
  await until(() => {
    const now = [...counted()];
    return now.length >= THREADS && now.every(([thread, count]) => count >= (before.get(thread) ?? 0) + 2);
  });
};

const checkpoint = () => http.send({ path: '/log/checkpoint' });

it('databases are kept while their statements are used, also by the drop-in of Node 20, whose statements do not keep them', async () => {
  await collected();
  expect((await http.create({ name: 'Monstera', tag: 'aroid', id: 1 })).status).toBe(201);
  await collected();
  expect((await http.create({ name: 'Hoya', tag: '', id: 2 })).status).toBe(201);
  expect((await http.list()).text).toBe('[{"name":"Monstera","tag":"aroid"},{"name":"Hoya","tag":""}]');
  await until(async () => (await checkpoint()).text.split('\n')[1] === '2');
  await collected();
  expect((await http.list('/2/history')).status).toBe(200);
  expect((await checkpoint()).status).toBe(200);
  expect(http.service.endedUnasked).toEqual([]);
});
