import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { plantStream } from '../../../src/plants/stream.js';
import { type EventLog, START } from '../../../src/ports/event-log.js';
import { partitionOf } from '../../../src/ports/read-model.js';
import { project } from '../../../src/projector/projection.js';
import { readSkips } from '../../../src/rebuilds/read.js';
import { skipEvent } from '../../../src/write/rebuilds.js';
import { Faults, inPieces } from '../../support/domain-faults.js';
import { appendRaw, noon, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';

const OLGA = { actor: { sub: 'cli:olga' }, correlationId: 'shift 7' };

let stores: Stores;
let log: EventLog;

beforeEach(async () => {
  stores = new Stores();
  log = await stores.log();
});
afterEach(() => stores.remove());

it('an owner whose partition is further than what was read is brought up to date with all that it contains', async () => {
  const model = await stores.model(log);
  const generation = await model.createGeneration();
  const stream = plantStream('anne', 1);
  const refused = await appendRaw(log, stream, 'PlantWatered', {});
  for (let id = 1; id <= 10; id += 1) await run(log, 'bert', createPlant(id));
  await run(log, 'anne', createPlant(2));
  const { position } = await run(log, 'anne', createPlant(3));
  const event = (await log.eventAt(position))?.id ?? '';
  // As another projector has left it: the other partitions are at the start.
  const partition = partitionOf('anne');
  const parked = {
    ...{ owner: 'anne', position: refused.position, stream, revision: 0, kind: 'unknown_type' as const },
    ...{ reason: 'unknown type', applied: START },
  };
  const upTo = { position, event };
  await model.apply(generation, [{ partition, from: START, upTo, changes: [], refused: [parked] }]);
  await skipEvent(log, { stream, revision: 0n }, 'nobody waters', OLGA, noon);

  const arrived = new AbortController();
  const slow = new Faults(log).every('subscribe', inPieces(1)).port;
  const onProgress = async ({ caughtUp }: { caughtUp: boolean }): Promise<void> => {
    if (caughtUp && (await model.countParked(generation)) === 0) arrived.abort();
  };
  const options = { readSkips: () => readSkips(log, START), batchSize: () => 1 };
  await project(slow, model, generation, onProgress, arrived.signal, options);
  const { rows } = await model.page(generation, 'anne', undefined, 10);
  expect(rows.map(({ id }) => id)).toEqual([2, 3]);
});
