import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { openSqliteReadModel } from '../../../src/lists/sqlite/lists.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { stateRootOf } from '../../../src/audit/signed-state.js';
import { PlantsState } from '../../../src/transparency/plants-state.js';
import { ERASURES_STREAM } from '../../../src/domain/stream.js';
import { decorate } from '../../../src/log/decorate.js';
import { type EventLog, START } from '../../../src/log/event-log.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { type SignedCheckpoint } from '../../../src/audit/tree-store.js';
import { Projector } from '../../../src/projection/projector.js';
import { verify } from '../../../src/projection/verify.js';
import { ErasingStores, MARKER, now } from '../../support/erasing-stores.js';
import { until } from '../../support/waiting.js';

/** More plants than one read of the log has events. */
const PLANTS = 120;

let stores: ErasingStores;
let other: ReadModelStore;
beforeEach(async () => {
  stores = await ErasingStores.open();
  other = await openSqliteReadModel(stores.file('other-lists'), stores.log.identity());
});
afterEach(async () => {
  await other.close();
  await stores.remove();
});

/** The log; an owner is erased after a part of it was read. */
const erasedWhileRead = (): EventLog => {
  let reads = 0;
  return decorate(stores.log, {
    async *subscribe(...of: Parameters<EventLog['subscribe']>) {
      for await (const batch of stores.log.subscribe(...of)) {
        yield batch;
        reads += 1;
        if (reads === 1) await stores.finished(await stores.order(MARKER));
      }
    },
  });
};

it('lists that are built while an owner is erased are built again: half of what they read was not yet erased', async () => {
  for (let id = 1; id <= PLANTS; id += 1) await stores.create(MARKER, id);
  stores.startEraser();
  const log = erasedWhileRead();
  const over = new AbortController();
  const states: string[] = [];
  const projector = new Projector(log, other, now, randomUUID(), (status) =>
    states.push('reason' in status ? status.reason : status.state),
  );
  const running = projector.run(over.signal);
  const head = async (): Promise<string> => stores.log.head();
  await until(async () => (await other.generations()).some(({ active }) => active));
  await until(async () => (await other.list(MARKER, undefined, 1)).position >= (await head()));
  expect((await other.list(MARKER, undefined, 1)).rows).toEqual([]);
  expect(states.join()).toContain('an owner who was erased since');
  over.abort();
  await running;
});

it('an auditor on another machine, which reads the log while an owner is erased, signs the state without the plants', async () => {
  for (let id = 1; id <= PLANTS; id += 1) await stores.create(MARKER, id);
  await stores.create('bob', 1);
  stores.startEraser();
  const tree = await openSqliteTreeStore(stores.file('other-tree.db'), stores.log.identity());
  const reasons: (string | undefined)[] = [];
  const { auditor, end } = stores.startAuditor(erasedWhileRead(), tree, ({ reason }) => reasons.push(reason));
  const signed = async (): Promise<SignedCheckpoint | undefined> => {
    const checkpoint = await tree.latestCheckpoint();
    return auditor.status.position >= (await stores.log.head()) ? checkpoint : undefined;
  };
  await until(async () => (await signed())?.size === auditor.status.size);
  const folded = new PlantsState();
  for await (const event of stores.log.readAll(START)) folded.add(event);
  const last = await signed();
  expect(last && stateRootOf(last)).toEqual(folded.root());
  expect(await stores.recheck(stores.log, tree)).toBeUndefined();
  expect(reasons.join()).toContain('erased while the log was being read');
  await end();
  await tree.close();
});

it('lists are not found different beside an erasure of which the record is not there yet', async () => {
  for (let id = 1; id <= PLANTS; id += 1) await stores.create(MARKER, id);
  await stores.listOf(MARKER);
  stores.startEraser();
  // As where streams are erased one after the other: that is recorded last.
  const log = decorate(erasedWhileRead(), {
    readLast: (stream) =>
      stream === ERASURES_STREAM ? Promise.resolve(undefined) : stores.log.readLast(stream),
  });
  const [lists] = await stores.model.generations();
  if (!lists) throw new Error('there are no lists');
  expect(await verify(log, stores.model, lists.generation)).toMatchObject({ differing: 0, plants: 0 });
});
