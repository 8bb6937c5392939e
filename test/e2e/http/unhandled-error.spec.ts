import { expect, it } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ofThisTest } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { until } from '../../support/waiting.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

/** Secrets that an error may quote. */
const SECRETS = [
  'redis://plants:sesame-1@localhost',
  'Basic c2VzYW1lLTI=',
  'eyJhbGciOiJub25lIn0.c2VzYW1lLTM.sesame-4',
];

/** At SIGUSR2, makes the process reject two promises that are not awaited. */
const FAULT = `process.on('SIGUSR2', () => {
  Promise.reject(Object.assign(new Error(${JSON.stringify(SECRETS.join(' '))}), { input: 'sesame-5' }));
  Promise.reject(new Error('another one'));
})`;

const folder = temporaryFolder();

it('an error that nothing handles is one fatal line without secrets, and the process stops in order', async () => {
  const fault = join(folder, 'fault.mjs');
  writeFileSync(fault, FAULT);
  const http = ofThisTest(
    await TestService.startBlocked({
      WRITE_WAIT_MS: '1000',
      NODE_OPTIONS: `--import=${fault}`,
    }),
  );
  const { service } = http;
  const before = await service.eventCount();
  const answering = http.create({ name: 'n', tag: '', id: 1 }); // it waits as long as it may
  await until(async () => (await service.eventCount()) > before);
  service.signal('SIGUSR2');
  const [answer, status] = await Promise.all([answering, service.ended()]);
  expect(answer.status).toBe(201);
  expect(status).toBe(1);
  expect(service.stderr).not.toContain('sesame');
  const fatal = service.logged.filter(({ level }) => level === 'fatal');
  expect(fatal).toMatchObject([
    { error: { type: 'Error', message: expect.stringContaining('redis://[redacted]@') as unknown } },
  ]);
  expect(JSON.stringify(service.logged)).not.toMatch(/sesame|c2VzYW1l/);
  expect(service.logged.at(-1)).toMatchObject({ msg: 'stopped' });
});

/** Makes what counts and logs a request's answer throw once. */
const FAULT_OF_ONE = `const { round } = Math;
Math.round = (value) => {
  if (!new Error().stack.includes('request-log')) return round(value);
  Math.round = round;
  throw new Error('amid a line of the log');
}`;

it('an error of one request is logged with its id, and the process goes on', async () => {
  const fault = join(folder, 'fault-of-one.mjs');
  writeFileSync(fault, FAULT_OF_ONE);
  const http = ofThisTest(await TestService.start({ NODE_OPTIONS: `--import=${fault}` }));
  const { service } = http;
  await http.send({ path: '/nothing' }).catch(() => undefined);
  expect((await http.send({ path: '/health/live' })).status).toBe(200);
  expect(service.logged.filter(({ level }) => level === 'fatal')).toEqual([]);
  expect(service.logged.filter(({ level }) => level === 'error')).toMatchObject([
    { requestId: expect.any(String) as unknown, err: { message: 'amid a line of the log' } },
  ]);
});
