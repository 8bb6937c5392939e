import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { erase } from '../../../src/cli/commands/erase.js';
import { type ErasureEvent } from '../../../src/domain/erasure.js';
import { ERASURES_STREAM, plantStream, SKIPS_STREAM } from '../../../src/domain/stream.js';
import { readErasures } from '../../../src/erasure/erasures.js';
import { ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { LogUnavailable } from '../../../src/log/event-log.js';
import { operationEvent } from '../../../src/commands/record-rebuilds.js';
import { after, failing, Faults } from '../../support/domain-faults.js';
import { appendRaw, NOON, run } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { quickTime } from '../../support/quick-time.js';
import { OLGA, Office } from './command-for-tests.js';

quickTime();

let office: Office;
beforeEach(async () => {
  office = await Office.open();
  await run(office.log, 'anne', createPlant(1));
});
afterEach(() => office.close());

const ordered = async (): Promise<string> => (await readErasures(office.log)).all[0]?.erasure ?? '';

/** A process says what it does. */
const told =
  (...doing: readonly object[]) =>
  async (): Promise<void> => {
    const auditor = { state: 'live', since: '', size: 1, position: '' };
    const erasure = await ordered();
    const erasures = doing.map((step) => ({ erasure, ...step }));
    const process = { host: 'oak', pid: 7, roles: ['auditor'], version: '1', address: '', since: '' };
    const report = { ...process, projector: null, rebuild: null, auditor, erasures };
    await office.tellText('one', JSON.stringify(report));
  };

const recorded = async (event: ErasureEvent): Promise<void> => {
  const { revision } = await readErasures(office.log);
  const next = operationEvent(ERASURES_STREAM, revision, event, OLGA, NOON);
  await office.log.append(ERASURES_STREAM, revision ?? 'none', [next]);
};

it('shows each step of the auditor, and misses one only where none runs; a log that is away is asked again', async () => {
  const log = new Faults(office.log);
  const model = new Faults(office.model).next(
    'reports',
    after(() => Promise.resolve()),
    failing(() => new ReadModelUnavailable('away')),
    after(told()),
    after(told({ step: 'deleting' })),
    after(told({ step: 'deleting', plants: { done: 3, total: 9 } })),
    after(told({ step: 'waiting' })),
    after(async () => {
      await told({ step: 'erasing' })();
      log.next(
        'readStream',
        failing(() => new LogUnavailable('the log is away: timeout')),
      );
    }),
    after(async () => {
      await told({ step: 'scrubbing' })();
      await recorded({ type: 'OwnerErased', data: { erasure: await ordered(), events: 2, digest: '' } });
    }),
    after(told({ step: 'scavenging' })),
    after(async () => recorded({ type: 'ErasureFinished', data: { erasure: await ordered() } })),
  ).port;
  const desk = office.desk({ model, log: log.port });
  expect(await erase(desk, { owner: 'anne', reason: 'asked', yes: true, wait: true })).toBe(true);
  expect(office.err.split('\n').slice(1)).toEqual([
    'waiting for a service with the role auditor',
    'it is not known whether it is worked on: the read model does not answer',
    'waiting for the auditor, which looks once a second',
    "the owner's plants are being looked for",
    expect.stringMatching(/^deleting: 3 of 9 plants, \d+\/s, \d+ s left$/),
    'the plants are deleted; waiting until lists and a signed checkpoint are without them',
    'the events are being erased',
    'the log is away, trying again',
    'the events are erased; they are removed from the files of the stores',
    'the events are erased; waiting for a scavenge of EventStoreDB, which removes them from its files',
    '',
  ]);
});

it('refuses at once, also in a dry run, where version 1.0.0 has skipped an event of the owner', async () => {
  const data = { stream: plantStream('anne', 1), revision: 0, reason: 'odd' };
  await appendRaw(office.log, SKIPS_STREAM, 'EventSkipped', data);
  for (const dryRun of [true, false])
    await expect(
      erase(office.desk(), { owner: 'anne', reason: 'asked', dryRun, yes: true, wait: true }),
    ).rejects.toThrow('names this owner');
  expect(office.err).toBe('');
});
