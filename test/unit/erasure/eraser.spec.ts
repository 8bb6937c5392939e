import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { hashInTree } from '../../../src/transparency/erased-events.js';
import { ErasureGate } from '../../../src/erasure/gate.js';
import { readErasures } from '../../../src/erasure/erasures.js';
import { orderErasure, ownerHash, UnknownOwner } from '../../../src/erasure/order.js';
import {
  encodeOwner,
  ERASURES_STREAM,
  ownedBy,
  plantStream,
  SKIPS_STREAM,
} from '../../../src/domain/stream.js';
import { type EventLog, LogUnavailable, type RecordedEvent, START } from '../../../src/log/event-log.js';
import { sha256 } from '../../../src/transparency/crypto.js';
import { operationEvent } from '../../../src/commands/record-rebuilds.js';
import { type Random, randomOf } from '../../support/altered/kind.js';
import { Faults } from '../../support/domain-faults.js';
import { appendRaw } from '../../support/domain-stores.js';
import { ErasingStores, MARKER, now, operator } from '../../support/erasing-stores.js';
import { all } from '../../support/log-events.js';
import { alterFile } from '../../support/past-triggers.js';
import { LONG_MS, quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';
import { eraserContract } from '../../contract/eraser.contract.js';

/** So many of each run of the suite; docs/erasure.md says how to run more. */
const ALTERATIONS = Number(process.env.TEST_ALTERATIONS ?? 28);

/** Events before the erasures of the test of alterations. */
const OLD_EVENTS = 36;

describe('the erasure of an owner', () => {
  let stores: ErasingStores;
  beforeEach(async () => {
    quickTime();
    stores = await ErasingStores.open();
  });
  afterEach(() => stores.remove());

  eraserContract(
    () => stores,
    () => stores.filesWith(MARKER),
  );

  it('leaves no hash of the owner in the tree of an auditor on another machine, once that runs', async () => {
    const name = stores.file('other-tree.db');
    const keys = Buffer.from(sha256(encodeOwner(MARKER)));
    const hasKeys = (): boolean => [name, `${name}-wal`].some((file) => readFileSync(file).includes(keys));
    for (let id = 1; id <= 40; id++) await stores.create(MARKER, id);
    const tree = await openSqliteTreeStore(name, stores.log.identity());
    const { auditor, end } = stores.startAuditor(stores.log, tree);
    await until(() => auditor.status.checkpoint?.size === auditor.status.size && auditor.status.size > 0);
    stores.startEraser();
    await stores.finished(await stores.order(MARKER));
    expect(await tree.scrubbed()).toBe(0);
    expect(hasKeys()).toBe(true);
    const eraser = stores.startEraser(undefined, tree);
    await until(async () => (await tree.scrubbed()) === 1);
    expect(hasKeys()).toBe(false);
    await eraser.end();
    await end();
    await tree.close();
  });

  it('begins again where the owner writes in the middle, and erases that too', async () => {
    await stores.create(MARKER, 1);
    const erasure = await stores.order(MARKER);
    let wrote: Promise<void> | undefined;
    stores.startEraser((step) => {
      if (step === 'lists and tree follow') wrote ??= stores.create(MARKER, 2);
    });
    await stores.finished(erasure);
    await wrote;
    const left = (await all(stores.log.readAll(START))).filter(({ stream }) => ownedBy(MARKER)(stream));
    // Either it was erased, or it came after: then it is the beginning of something new.
    const since = (await all(stores.log.readStreamsFrom([ERASURES_STREAM]))).find(
      ({ type }) => type === 'OwnerErased',
    );
    for (const { position } of left) expect(position > (since?.position ?? '')).toBe(true);
    expect(await stores.listOf(MARKER)).toBe(
      left.length > 0
        ? '[{"id":2,"row":"{\\"name\\":\\"MARKER-of-somebody 2\\",\\"tag\\":\\"MARKER-of-somebody\\"}"}]'
        : '[]',
    );
    expect(await stores.recheck()).toBeUndefined();
  });

  it('leaves no plant in lists and state that the owner creates while the others are deleted', async () => {
    await stores.remove();
    let wrote: Promise<void> | undefined;
    stores = await ErasingStores.open(async (folder) => {
      const log = await openSqliteEventLog(join(folder, 'events.db'), { deadlineMs: LONG_MS });
      return new Faults<EventLog>(log).every('append', async (proceed, stream, expected, events) => {
        if (events.some(({ type }) => type === 'PlantDeleted')) await (wrote ??= stores.create(MARKER, 2));
        return proceed(stream, expected, events);
      }).port;
    });
    await stores.create(MARKER, 1);
    stores.startEraser();
    await stores.finished(await stores.order(MARKER));
    expect(wrote).toBeDefined();
    expect(await stores.listOf(MARKER)).toBe('[]');
    await stores.signed();
    expect(await stores.recheck()).toBeUndefined();
  });

  it('lets the same owner begin again with nothing of before', async () => {
    await stores.create(MARKER, 1, 'key');
    stores.startEraser();
    await stores.finished(await stores.order(MARKER));
    await stores.create(MARKER, 1, 'key');
    expect(JSON.parse(await stores.listOf(MARKER))).toHaveLength(1);
    expect((await stores.log.readStream(plantStream(MARKER, 1))).map(({ revision }) => revision)).toEqual([
      0n,
    ]);
    await stores.finished(await stores.order(MARKER));
    expect(stores.filesWith(MARKER)).toEqual([]);
    expect(await stores.recheck()).toBeUndefined();
  });

  it('refuses what it cannot erase, and writes nothing then', async () => {
    await stores.create(MARKER, 1);
    const head = await stores.log.head();
    await expect(stores.order('nobody')).rejects.toThrow(UnknownOwner);
    await expect(stores.order(MARKER, `for ${MARKER.toLowerCase()}`)).rejects.toThrow('names the owner');
    await expect(stores.order(MARKER, '')).rejects.toThrow('the reason must not be empty');
    expect(await stores.log.head()).toBe(head);
    const skipped = { stream: plantStream(MARKER, 1), revision: 0, reason: 'as version 1.0.0 did' };
    await appendRaw(stores.log, SKIPS_STREAM, 'EventSkipped', skipped);
    await expect(stores.order(MARKER)).rejects.toThrow('names this owner');
  });

  it('names the owner in no event that stays, also where the owner has ordered it', async () => {
    await stores.create(MARKER, 1);
    stores.startEraser();
    const self = { actor: { sub: MARKER, clientId: 'app' }, correlationId: 'c' };
    const id = randomUUID();
    const erasure = await orderErasure(stores.log, { erasure: id, owner: MARKER, reason: 'mine' }, self, now);
    await stores.finished(erasure);
    expect(stores.filesWith(MARKER)).toEqual([]);
    expect((await readErasures(stores.log)).all).toMatchObject([
      { by: 'the owner', reason: 'mine', events: 3 },
    ]);
    // Repeated with the same id it is the same erasure, also when it is over.
    expect(await orderErasure(stores.log, { erasure: id, owner: MARKER, reason: 'mine' }, self, now)).toBe(
      id,
    );
  });

  it('waits for an event that cannot be read, says so, and erases others meanwhile', async () => {
    await stores.create(MARKER, 1);
    await stores.create('bob', 1);
    await appendRaw(stores.log, plantStream(MARKER, 1), 'PlantRenamed', {}, 0n);
    const { problems } = stores.startEraser();
    await stores.order(MARKER);
    await stores.finished(await stores.order('bob'));
    expect(problems[0]).toMatch(
      /^erasure .*: the event at position \d+ cannot be read: run a version that can read it/,
    );
    expect(problems.join()).not.toContain(MARKER);
  });

  it('says that an erasure fails while it does, and not where the log is away and none is in progress', async () => {
    await stores.create(MARKER, 1);
    const readLast = stores.log.readLast.bind(stores.log);
    const scrub = stores.log.scrub.bind(stores.log);
    let asked = 0;
    stores.log.readLast = () => Promise.reject(new LogUnavailable(`away ${++asked}`));
    const { eraser, problems } = stores.startEraser();
    await until(() => asked > 1);
    expect([eraser.problem, ...problems]).toEqual([undefined]);
    stores.log.readLast = readLast;
    stores.log.scrub = () => Promise.reject(new LogUnavailable('no room'));
    const erasure = await stores.order(MARKER);
    await until(() => eraser.problem === `erasure ${erasure}: no room`);
    stores.log.scrub = scrub;
    await until(() => eraser.problem === undefined);
    expect(problems).toEqual([`erasure ${erasure}: no room`]);
  });

  it('tells how many plants it has deleted', async () => {
    for (let id = 1; id <= 33; id++) await stores.create(MARKER, id); // one more than are deleted at a time
    const append = stores.log.append.bind(stores.log);
    const seen: unknown[] = [];
    const { eraser } = stores.startEraser();
    stores.log.append = (stream, ...rest) => {
      if (stream.startsWith('plant-')) seen.push(eraser.progress[0]?.plants);
      return append(stream, ...rest);
    };
    await stores.finished(await stores.order(MARKER));
    expect([seen[0], seen[32]]).toEqual([
      { done: 0, total: 33 },
      { done: 1, total: 33 }, // begun as soon as one had ended
    ]);
  });

  it('erases nothing while an alarm stands, or a newer version is at work, and says so', async () => {
    await stores.create(MARKER, 1);
    await stores.signed();
    await stores.tree.raise({ kind: 'changed', message: 'altered', raisedAt: now().toISOString() });
    const { problems } = stores.startEraser();
    await stores.order(MARKER);
    await until(() => problems.some((problem) => problem.includes('an alarm of the auditor stands')));
    expect(problems.join()).not.toContain(MARKER);
    await appendRaw(stores.log, ERASURES_STREAM, 'OwnerMoved', {}, 0n);
    await until(() => problems.some((problem) => problem.includes('upgrade this one')));
    expect(stores.filesWith(MARKER)).not.toEqual([]);
  });

  it.each([
    ['', -61_000],
    [', also where the time of day was set back since', 3_600_000],
  ])('cancels an order that was interrupted before it said whose it is%s', async (_when, orderedMs) => {
    const erasure = randomUUID();
    const data = { erasure, ownerHash: ownerHash(Buffer.alloc(32), MARKER), reason: 'r' };
    const started = { type: 'ErasureStarted', data } as const;
    const orderedAt = new Date(Date.now() + orderedMs);
    const event = operationEvent(ERASURES_STREAM, undefined, started, operator, orderedAt);
    await stores.log.append(ERASURES_STREAM, 'none', [event]);
    stores.startEraser();
    if (orderedMs > 0) quickTime(600); // a minute in a tenth of a second
    await until(async () => (await readErasures(stores.log)).all[0]?.state === 'cancelled');
  });

  it('refuses writes of an owner who is being erased, and of nobody else', async () => {
    await stores.create(MARKER, 1);
    const gate = new ErasureGate(stores.log);
    await gate.admit(MARKER);
    const erasure = await stores.order(MARKER);
    await gate.look();
    expect(() => gate.admit(MARKER)).toThrow('is being erased');
    expect(gate.admit('bob')).toBeUndefined();
    stores.startEraser();
    await stores.finished(erasure);
    await gate.look();
    expect(gate.admit(MARKER)).toBeUndefined();
  });

  it('finds alterations after erasures: events inserted again, removed, and other counts', async () => {
    for (let id = 1; id <= 12; id++)
      for (const owner of [MARKER, 'bob', 'carol']) await stores.create(owner, id);
    await stores.close();
    copyFileSync(stores.file('events.db'), stores.file('before.db'));
    await stores.open();
    stores.startEraser();
    for (const owner of [MARKER, 'carol']) await stores.finished(await stores.order(owner));
    expect(await stores.recheck()).toBeUndefined();
    const events = await all(stores.log.readAll(START));
    const identity = stores.log.identity();
    await stores.close();
    const store = await openSqliteTreeStore(stores.file('tree.db'), identity);
    const kinds = alterationsOf(events, stores.file('before.db'), randomOf(20));
    for (let n = 0; n < ALTERATIONS; n++) {
      const file = stores.file(`altered-${n}.db`);
      copyFileSync(stores.file('events.db'), file);
      const sql = kinds[n % kinds.length]?.() ?? '';
      alterFile(file, sql);
      const altered = await openSqliteEventLog(file, { deadlineMs: LONG_MS });
      expect([sql, (await stores.recheck(altered, store))?.kind]).toEqual([sql, expect.any(String)]);
      await altered.close();
      rmSync(file);
    }
    await store.close();
    await stores.open();
  });
});

/** Each gives the SQL of an alteration more of a log in which owners were erased. */
const alterationsOf = (
  events: readonly RecordedEvent[],
  before: string,
  random: Random,
): (() => string)[] => {
  const one = (of: readonly RecordedEvent[]): RecordedEvent => {
    const event = of[random(of.length)];
    if (!event) throw new Error('nothing to alter');
    return event;
  };
  const erased = events.filter(({ type }) => type === 'Erased');
  const records = events.filter(({ type }) => type === 'OwnerErased');
  const others = events.filter(({ stream }) => stream.startsWith('plant-'));
  const streams = [...new Set(erased.map(({ stream }) => stream))];
  const seq = ({ position }: RecordedEvent): number => Number(position);
  const insertAgain = (number: number): string =>
    `ATTACH '${before}' AS b;
     UPDATE events SET (stream, revision, id, type, data, metadata) =
       (SELECT stream, revision, id, type, data, metadata FROM b.events WHERE seq = ${number}) WHERE seq = ${number}`;
  const eraseInto = (event: RecordedEvent, stream: string): string => {
    const leafHash = Buffer.from(hashInTree(event, leafOf(event))).toString('base64');
    return `UPDATE events SET id = '${randomUUID()}', type = 'Erased', data = '{"leafHash":"${leafHash}"}',
      metadata = '{"schemaVersion":1}', stream = '${stream}',
      revision = (SELECT coalesce(max(revision), -1) + 1 FROM events WHERE stream = '${stream}')
      WHERE seq = ${seq(event)}`;
  };
  // Events that were created before the erasures: the copy of before has no others.
  const old = erased.filter((event) => seq(event) <= OLD_EVENTS);
  return [
    () => insertAgain(seq(one(old))),
    () => eraseInto(one(others), streams[random(streams.length)] ?? ''),
    () => eraseInto(one(others), `erased-${randomUUID()}`),
    () =>
      `UPDATE events SET data = json_replace(data, '$.events', ${1 + random(9)}) WHERE seq = ${seq(one(records))}`,
    () => `DELETE FROM events WHERE seq = ${seq(one(erased))}`,
    () => {
      const [first, second] = [one(erased), one(old)];
      return first === second
        ? insertAgain(seq(first))
        : `UPDATE events SET data = '${JSON.stringify(first.data)}' WHERE seq = ${seq(second)}`;
    },
    () => {
      const [from = '', to = ''] = streams;
      const last = erased.filter(({ stream }) => stream === from).at(-1);
      return `UPDATE events SET stream = '${to}', revision = (SELECT max(revision) + 1 FROM events WHERE stream = '${to}')
        WHERE seq = ${last ? seq(last) : 0}`;
    },
  ];
};
