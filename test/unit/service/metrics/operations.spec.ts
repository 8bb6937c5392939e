import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { showLastRuns, showSkips } from '../../../../src/service/metrics/operations.js';
import { recordRun } from '../../../../src/operations/last-runs.js';
import { LogUnavailable, START } from '../../../../src/log/event-log.js';
import { skipEvent } from '../../../../src/commands/record-rebuilds.js';
import { failing, Faults } from '../../../support/domain-faults.js';
import { noon, run, Stores } from '../../../support/domain-stores.js';
import { createPlant } from '../../../support/given.js';
import { samplesIn } from '../../../support/samples.js';
import { temporaryFolder } from '../../../support/temporary-folder.js';

it('shows the last backup and the last comparison that were recorded, and none where a record is damaged', async () => {
  const folder = temporaryFolder();
  const registry = new Registry();
  showLastRuns(registry, folder);
  const shown = async () => Object.fromEntries(samplesIn(await registry.metrics()));
  expect(await shown()).toEqual({});
  await recordRun(folder, 'backup', { at: '2026-01-31T12:00:00.000Z', head: '0000000000000001', events: 1 });
  await recordRun(folder, 'verify', { at: '2026-01-31T13:00:00.000Z', differing: 3 });
  expect(await shown()).toEqual({
    plants_last_backup_timestamp_seconds: 1_769_860_800,
    plants_last_verify_timestamp_seconds: 1_769_864_400,
    plants_last_verify_differing_plants: 3,
  });
  await recordRun(folder, 'verify', { at: '2026-01-31T14:00:00.000Z', differing: 0 });
  expect(await shown()).toMatchObject({ plants_last_verify_differing_plants: 0 });
  writeFileSync(join(folder, 'last-backup.json'), '{"at":"soon"}');
  writeFileSync(join(folder, 'last-verify.json'), '{');
  expect(await shown()).toEqual({});
  expect(readdirSync(folder)).toHaveLength(2);
});

it('shows how many events are skipped, and none while the log does not answer', async () => {
  const stores = new Stores();
  try {
    const log = new Faults(await stores.log());
    const registry = new Registry();
    showSkips(registry, log.port);
    const shown = async () => samplesIn(await registry.metrics()).get('plants_skipped_events');
    expect(await shown()).toBe(0);
    await run(log.port, 'anne', createPlant(1));
    for await (const event of log.port.readAll(START)) {
      const operator = { actor: { sub: 'op', clientId: 'plants' }, correlationId: 'c' };
      await skipEvent(log.port, event, 'a test', operator, noon);
      break;
    }
    expect(await shown()).toBe(1);
    log.every(
      'readStream',
      failing(() => new LogUnavailable('down')),
    );
    expect(await shown()).toBeUndefined();
  } finally {
    await stores.remove();
  }
});
