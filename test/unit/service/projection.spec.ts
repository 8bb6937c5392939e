import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { Shutdown } from '../../../src/http/shutdown.js';
import { type EventLog } from '../../../src/log/event-log.js';
import { ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { Bell } from '../../../src/runtime/bell.js';
import { Load } from '../../../src/projection/load.js';
import { loadConfig } from '../../../src/service/config.js';
import { startProjector } from '../../../src/service/projection.js';
import { Resources } from '../../../src/service/resources.js';
import { requestRebuild } from '../../../src/commands/record-rebuilds.js';
import { failing, Faults } from '../../support/domain-faults.js';
import { noon, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

const away = failing(() => new ReadModelUnavailable('the store is away'));

let stores: Stores;
let resources: Resources;
let log: EventLog;
let faults: Faults<ReadModelStore>;
let warnings: string[];
let folder: string;
beforeEach(async () => {
  stores = new Stores();
  resources = new Resources();
  log = await stores.log();
  faults = new Faults(await stores.model(log));
  warnings = [];
  folder = temporaryFolder();
  await run(log, 'owner', createPlant(1));
  const logger = pino(
    { level: 'warn' },
    { write: (line) => warnings.push((JSON.parse(line) as { msg: string }).msg) },
  );
  const config = loadConfig({ VERIFY_EVERY_SECONDS: '0', DATA_DIR: folder });
  const projector = startProjector(
    log,
    faults.port,
    config,
    new Load(),
    logger,
    resources,
    new Shutdown(0),
    new Bell(),
  );
  await until(() => projector?.status.state === 'live');
});
afterEach(async () => {
  await resources.closeAll();
  await stores.remove();
});

it('says nothing of a rebuild where the store is away and none is in progress', async () => {
  faults.next('generations', away);
  await until(() => warnings.length > 0);
  expect(warnings).toEqual(['generations of the lists cannot be looked after, retrying']);
});

it('says that a rebuild is failing', async () => {
  faults.every('createGeneration', away);
  await requestRebuild(
    log,
    { rebuild: 'one', rate: null, unskip: false },
    { actor: { sub: 'olga' }, correlationId: 'shift 7' },
    noon,
  );
  await until(() => warnings.length > 0);
  expect(warnings[0]).toBe('the rebuild is failing, retrying');
});
