import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { showDisk } from '../../../../src/service/metrics/disk.js';
import { samplesIn } from '../../../support/samples.js';
import { temporaryFolder } from '../../../support/temporary-folder.js';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
it('shows the space of each file system and the size of each write-ahead log as it is now', async () => {
  const registry = new Registry();
  const [eventLog, readModel] = [join(folder, 'events.db'), join(folder, 'lists')];
  mkdirSync(readModel);
  showDisk(registry, { dataDir: folder, eventLog, readModel });
  const shown = async () => samplesIn(await registry.metrics());
  expect((await shown()).get('plants_wal_bytes{store="event_log"}')).toBe(0);
  writeFileSync(`${eventLog}-wal`, Buffer.alloc(4_152));
  for (const name of ['1.db', '1.db-wal', '2.db-wal'])
    writeFileSync(join(readModel, name), Buffer.alloc(1_000));
  const samples = await shown();
  expect(samples.get('plants_wal_bytes{store="event_log"}')).toBe(4_152);
  expect(samples.get('plants_wal_bytes{store="read_model"}')).toBe(2_000);
  for (const part of ['data_dir', 'event_log', 'read_model'])
    expect(samples.get(`plants_disk_free_bytes{part="${part}"}`)).toBeLessThan(
      samples.get(`plants_disk_size_bytes{part="${part}"}`) ?? 0,
    );
});

it('shows nothing of a folder that does not exist, and nothing of stores on servers', async () => {
  const registry = new Registry();
  showDisk(registry, { dataDir: join(folder, 'none'), eventLog: undefined, readModel: undefined });
  expect([...samplesIn(await registry.metrics())]).toEqual([]);
});
