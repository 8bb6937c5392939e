import { beforeAll, describe, expect, it } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Auditor } from '../../../src/audit/auditor.js';
import { formatVerifierKey } from '../../../src/transparency/note.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type Position } from '../../../src/log/event-log.js';
import { parseEventLogUrl } from '../../../src/service/store-locations.js';
import { openEventLog, openTreeStore } from '../../../src/service/stores.js';
import { newSigner } from '../../support/audited-log.js';
import { runCli } from '../../support/http-cli.js';
import { newEvent } from '../../support/log-events.js';
import { newEventLog } from '../../support/stores-of-this-run.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

/** More than one block. */
const EVENTS = 300;

describe('a bundle of a log on EventStoreDB', () => {
  const folder = temporaryFolder();
  const settings = { DATA_DIR: folder, EVENT_LOG: newEventLog() };
  const key = newSigner();
  const positions: Position[] = [];
  let older: string;

  beforeAll(async () => {
    const log = await openEventLog(parseEventLogUrl(settings.EVENT_LOG));
    const store = await openTreeStore(join(folder, 'tree.db'), log.identity());
    const auditor = new Auditor(log, store, key, {
      now: () => new Date(),
      yieldToLoop: () => nextTurn(),
      patienceMs: 10_000,
      recheckMs: 3_600_000,
      onState: () => undefined,
    });
    const stopping = new AbortController();
    const running = auditor.run(stopping.signal);
    for (const half of [0, 1]) {
      for (let id = 0; id < EVENTS / 2; id++)
        positions.push((await log.append(plantStream(`owner ${half}`, id), 'none', [newEvent()])).position);
      await until(() => auditor.status.checkpoint?.size === positions.length);
      if (half === 0) older = (await store.latestCheckpoint())?.note ?? '';
    }
    stopping.abort();
    await running;
    await store.close();
    await log.close();
  });
  it.each([
    ['all', () => [], EVENTS],
    ['those from a position on', () => ['--from', String(positions[100])], EVENTS - 100],
  ])('is proven, and goes on from an older checkpoint: %s', async (_which, args, events) => {
    const file = join(folder, `${events}.ndjson.gz`);
    writeFileSync(`${file}.checkpoint`, older);
    const exported = await runCli(['export', '--out', file, '--json', ...args()], settings);
    expect(exported).toMatchObject({ status: 0, stderr: '' });
    const proof = ['--key', formatVerifierKey(key), '--against', `${file}.checkpoint`];
    const { status, stdout } = await runCli(['check', file, '--json', ...proof], {});
    expect({ status, ...(JSON.parse(stdout) as object) }).toMatchObject({
      status: 0,
      verdict: 'proven',
      events,
      size: EVENTS,
      against: EVENTS / 2,
    });
  });
});
