import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { copyFileSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openSqliteEventLog } from '../../../src/adapters/sqlite/event-log.js';
import { openSqliteReadModel } from '../../../src/adapters/sqlite/read-model.js';
import { openSqliteTreeStore } from '../../../src/adapters/sqlite/tree-store.js';
import { Auditor } from '../../../src/audit/auditor.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { leafHash } from '../../../src/audit/merkle.js';
import { signerKey } from '../../../src/audit/note.js';
import { recheck } from '../../../src/audit/recheck.js';
import { hashInTree } from '../../../src/audit/erased-events.js';
import { Eraser, ERASURE_STEPS, type ErasureStep } from '../../../src/erasure/eraser.js';
import { ErasureGate } from '../../../src/erasure/gate.js';
import { readErasures } from '../../../src/erasure/erasures.js';
import { orderErasure, ownerHash, UnknownOwner } from '../../../src/erasure/order.js';
import { ERASURES_STREAM, ownedBy, plantStream } from '../../../src/plants/stream.js';
import { type EventLog, type RecordedEvent, START } from '../../../src/ports/event-log.js';
import { type Generation } from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { type TreeStore } from '../../../src/ports/tree-store.js';
import { Projector } from '../../../src/projector/projector.js';
import { verify } from '../../../src/projector/verify.js';
import { IdempotentCommands } from '../../../src/write/idempotency.js';
import { runCommand } from '../../../src/write/plant-commands.js';
import { operationEvent, skipEvent } from '../../../src/write/rebuilds.js';
import { type Random, randomOf } from '../../support/altered/kind.js';
import { appendRaw } from '../../support/domain-stores.js';
import { all } from '../../support/log-events.js';
import { alterFile } from '../../support/past-triggers.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

const key = signerKey('plants/test', generateKeyPairSync('ed25519').privateKey);
const now = (): Date => new Date();
const giveWay = (): Promise<unknown> => nextTurn();
/** So many of each run of the suite; docs/erasure.md says how to run more. */
const ALTERATIONS = Number(process.env.TEST_ALTERATIONS ?? 28);

/** Events before the erasures of the test of alterations. */
const OLD_EVENTS = 36;

const MARKER = 'MARKER-of-somebody';
const operator = { actor: { sub: 'operator' }, correlationId: 'test' };

describe('the erasure of an owner', () => {
  let folder: string;
  let log: EventLog;
  let model: ReadModelStore;
  let tree: TreeStore;
  let ends: (() => Promise<unknown>)[];
  beforeEach(async () => {
    folder = temporaryFolder();
    ends = [];
    await open();
  });
  afterEach(async () => {
    await close();
    rmSync(folder, { recursive: true });
  });

  const open = async (): Promise<void> => {
    log = await openSqliteEventLog(join(folder, 'events.db'));
    model = await openSqliteReadModel(join(folder, 'read-model.db'), log.identity());
    tree = await openSqliteTreeStore(join(folder, 'tree.db'), log.identity());
    const auditor = new Auditor(log, tree, key, {
      now,
      giveWay,
      patienceMs: 0,
      recheckMs: 3_600_000,
      onState: () => undefined,
    });
    const projector = new Projector(log, model, now, randomUUID(), () => undefined);
    start((signal) => auditor.run(signal));
    start((signal) => projector.run(signal));
  };
  const close = async (): Promise<void> => {
    for (const end of ends.reverse()) await end();
    ends = [];
    for (const store of [tree, model, log]) await store.close();
  };
  const start = (run: (signal: AbortSignal) => Promise<void>): (() => Promise<void>) => {
    const over = new AbortController();
    const running = run(over.signal);
    const end = async (): Promise<void> => {
      over.abort();
      await running;
    };
    ends.push(end);
    return end;
  };
  const startEraser = (onStep: (step: ErasureStep) => void = () => undefined) => {
    const problems: string[] = [];
    const eraser = new Eraser(log, model, tree, {
      now,
      onStep,
      onDone: () => undefined,
      onProblem: (reason) => problems.push(reason),
    });
    return { eraser, problems, end: start((signal) => eraser.run(signal)) };
  };
  const context = (owner: string) => ({
    commandId: randomUUID(),
    actor: { sub: owner },
    correlationId: owner,
  });
  const create = async (owner: string, id: number, idempotencyKey?: string): Promise<void> => {
    const dependencies = { log, now, skips: () => Promise.resolve(new Set<string>()) };
    const command = { type: 'CreatePlant', id, name: `${owner} ${id}`, tag: owner } as const;
    if (idempotencyKey === undefined) await runCommand(dependencies, owner, command, context(owner));
    else await new IdempotentCommands(dependencies).run(owner, command, context(owner), idempotencyKey);
  };
  const listOf = async (owner: string): Promise<string> => {
    const head = await log.head();
    await until(async () => (await model.list(owner, undefined, 1_000)).position >= head);
    return JSON.stringify((await model.list(owner, undefined, 1_000)).rows);
  };
  const finished = async (erasure: string): Promise<void> => {
    const isFinished = async (): Promise<boolean> =>
      (await readErasures(log)).all.some((one) => one.erasure === erasure && one.state === 'finished');
    await until(isFinished);
  };
  /** The files in which a text occurs as it stands. */
  const filesWith = (text: string): string[] =>
    readdirSync(folder).filter((file) => readFileSync(join(folder, file)).includes(text));

  it('leaves nothing of the owner in any file, and every leaf hash as it was', async () => {
    for (let id = 1; id <= 40; id++) {
      await create(MARKER, id, id % 3 === 0 ? `key ${id}` : undefined);
      await create('bob', id);
    }
    const bob = await listOf('bob');
    const before = await all(log.readAll(START));
    const leaves = before.map((event) => leafHash(leafOf(event)));
    expect(filesWith(MARKER)).not.toEqual([]);
    const { problems } = startEraser();
    const erasure = await orderErasure(
      log,
      { erasure: randomUUID(), owner: MARKER, reason: 'asked' },
      operator,
      now,
    );
    await finished(erasure);

    expect(problems).toEqual([]);
    expect(filesWith(MARKER)).toEqual([]);
    expect(await listOf('bob')).toBe(bob);
    const after = await all(log.readAll(START));
    expect(after.map(({ position }) => position).slice(0, before.length)).toEqual(
      before.map(({ position }) => position),
    );
    expect(JSON.stringify(after.map(({ stream, data, metadata }) => [stream, data, metadata]))).not.toContain(
      MARKER,
    );
    const stored = await tree.tile(0, 0);
    leaves.forEach((hash, index) => {
      expect(Buffer.compare(stored.subarray(32 * index, 32 * index + 32), hash)).toBe(0);
    });
    expect(await faultOfLog()).toBeUndefined();
    const generation = (await model.generations())[0]?.generation ?? (0 as Generation);
    const { differing, comparedOwners } = await verify(log, model, generation);
    expect([differing, comparedOwners]).toEqual([0, 1]);
  });

  it.each(ERASURE_STEPS)('continues after a process died at the step "%s"', async (step) => {
    for (let id = 1; id <= 5; id++) {
      await create(MARKER, id, `key ${id}`);
      await create('bob', id);
    }
    const bob = await listOf('bob');
    const erasure = await order(MARKER);
    const died = new AbortController();
    const eraser = startEraser((reached) => {
      if (reached !== step) return;
      died.abort();
      throw new Error('the process has died');
    });
    await until(() => died.signal.aborted);
    await eraser.end();
    await close();
    await open();
    const { problems } = startEraser();
    await finished(erasure);
    expect(problems).toEqual([]);
    expect(filesWith(MARKER)).toEqual([]);
    expect(await listOf('bob')).toBe(bob);
    expect(await faultOfLog()).toBeUndefined();
  });

  it('begins again where the owner writes in the middle, and erases that too', async () => {
    await create(MARKER, 1);
    const erasure = await order(MARKER);
    let wrote: Promise<void> | undefined;
    startEraser((step) => {
      if (step === 'lists and tree follow') wrote ??= create(MARKER, 2);
    });
    await finished(erasure);
    await wrote;
    const left = (await all(log.readAll(START))).filter(({ stream }) => ownedBy(MARKER)(stream));
    // Either it was erased, or it came after: then it is the beginning of something new.
    const since = (await all(log.readStreamsFrom([ERASURES_STREAM]))).find(
      ({ type }) => type === 'OwnerErased',
    );
    for (const { position } of left) expect(position > (since?.position ?? '')).toBe(true);
    expect(await listOf(MARKER)).toBe(
      left.length > 0
        ? '[{"id":2,"row":"{\\"name\\":\\"MARKER-of-somebody 2\\",\\"tag\\":\\"MARKER-of-somebody\\"}"}]'
        : '[]',
    );
    expect(await faultOfLog()).toBeUndefined();
  });

  it('lets the same owner begin again with nothing of before', async () => {
    await create(MARKER, 1, 'key');
    startEraser();
    await finished(await order(MARKER));
    await create(MARKER, 1, 'key');
    expect(JSON.parse(await listOf(MARKER))).toHaveLength(1);
    expect((await log.readStream(plantStream(MARKER, 1))).map(({ revision }) => revision)).toEqual([0n]);
    await finished(await order(MARKER));
    expect(filesWith(MARKER)).toEqual([]);
    expect(await faultOfLog()).toBeUndefined();
  });

  it('refuses what it cannot erase, and writes nothing then', async () => {
    await create(MARKER, 1);
    const head = await log.head();
    await expect(order('nobody')).rejects.toThrow(UnknownOwner);
    await expect(order(MARKER, `for ${MARKER.toLowerCase()}`)).rejects.toThrow('names the owner');
    await expect(order(MARKER, '')).rejects.toThrow('the reason must not be empty');
    expect(await log.head()).toBe(head);
    await skipEvent(log, { stream: plantStream(MARKER, 1), revision: 0n }, 'test', operator, now);
    await expect(order(MARKER)).rejects.toThrow('names this owner');
  });

  it('names the owner in no event that stays, also where the owner has ordered it', async () => {
    await create(MARKER, 1);
    startEraser();
    const self = { actor: { sub: MARKER, clientId: 'app' }, correlationId: 'c' };
    const id = randomUUID();
    const erasure = await orderErasure(log, { erasure: id, owner: MARKER, reason: 'mine' }, self, now);
    await finished(erasure);
    expect(filesWith(MARKER)).toEqual([]);
    expect((await readErasures(log)).all).toMatchObject([{ by: 'the owner', reason: 'mine', events: 3 }]);
    // Repeated with the same id it is the same erasure, also when it is over.
    expect(await orderErasure(log, { erasure: id, owner: MARKER, reason: 'mine' }, self, now)).toBe(id);
  });

  it('joins an erasure of the same owner that is in progress', async () => {
    await create(MARKER, 1);
    const [one, other] = await Promise.all([order(MARKER), order(MARKER)]);
    startEraser();
    await finished(one);
    await finished(other);
    expect(filesWith(MARKER)).toEqual([]);
  });

  it('waits for an event that cannot be read, says so, and erases others meanwhile', async () => {
    await create(MARKER, 1);
    await create('bob', 1);
    await appendRaw(log, plantStream(MARKER, 1), 'PlantRenamed', {}, 0n);
    const { problems } = startEraser();
    await order(MARKER);
    await finished(await order('bob'));
    expect(problems[0]).toMatch(/^erasure .*: the event at position \d+ cannot be read: leave it out first/);
    expect(problems.join()).not.toContain(MARKER);
  });

  it('cancels an order that was interrupted before it said whose it is', async () => {
    const erasure = randomUUID();
    const data = { erasure, ownerHash: ownerHash(Buffer.alloc(32), MARKER), reason: 'r' };
    const started = { type: 'ErasureStarted', data } as const;
    const event = operationEvent(
      ERASURES_STREAM,
      undefined,
      started,
      operator,
      new Date(Date.now() - 61_000),
    );
    await log.append(ERASURES_STREAM, 'none', [event]);
    startEraser();
    await until(async () => (await readErasures(log)).all[0]?.state === 'cancelled');
  });

  it('refuses writes of an owner who is being erased, and of nobody else', async () => {
    await create(MARKER, 1);
    const gate = new ErasureGate(log);
    await gate.admit(MARKER);
    const erasure = await order(MARKER);
    await gate.look();
    expect(() => gate.admit(MARKER)).toThrow('is being erased');
    expect(gate.admit('bob')).toBeUndefined();
    startEraser();
    await finished(erasure);
    await gate.look();
    expect(gate.admit(MARKER)).toBeUndefined();
  });

  it('finds alterations after erasures: events put back, removed, and other counts', async () => {
    for (let id = 1; id <= 12; id++) for (const owner of [MARKER, 'bob', 'carol']) await create(owner, id);
    await close();
    copyFileSync(join(folder, 'events.db'), join(folder, 'before.db'));
    await open();
    startEraser();
    for (const owner of [MARKER, 'carol']) await finished(await order(owner));
    expect(await faultOfLog()).toBeUndefined();
    const events = await all(log.readAll(START));
    const identity = log.identity();
    await close();
    const store = await openSqliteTreeStore(join(folder, 'tree.db'), identity);
    const kinds = alterationsOf(events, join(folder, 'before.db'), randomOf(20));
    for (let n = 0; n < ALTERATIONS; n++) {
      const file = join(folder, `altered-${n}.db`);
      copyFileSync(join(folder, 'events.db'), file);
      const sql = kinds[n % kinds.length]?.() ?? '';
      alterFile(file, sql);
      const altered = await openSqliteEventLog(file);
      expect([sql, (await recheckOf(altered, store))?.kind]).toEqual([sql, expect.any(String)]);
      await altered.close();
      rmSync(file);
    }
    await store.close();
    await open();
  });

  const order = (owner: string, reason = 'asked'): Promise<string> =>
    orderErasure(log, { erasure: randomUUID(), owner, reason }, operator, now);
  const recheckOf = (of: EventLog, store: TreeStore) => {
    const options = { now, giveWay, patienceMs: 0, keys: [key] };
    return recheck(of, store, options, new AbortController().signal);
  };
  const faultOfLog = () => recheckOf(log, tree);
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
  const putBack = (number: number): string =>
    `ATTACH '${before}' AS b;
     UPDATE events SET (stream, revision, id, type, data, metadata) =
       (SELECT stream, revision, id, type, data, metadata FROM b.events WHERE seq = ${number}) WHERE seq = ${number};
     DETACH b`;
  const eraseInto = (event: RecordedEvent, stream: string): string => {
    const leafHash = Buffer.from(hashInTree(event)).toString('base64');
    return `UPDATE events SET id = '${randomUUID()}', type = 'Erased', data = '{"leafHash":"${leafHash}"}',
      metadata = '{"schemaVersion":1}', stream = '${stream}',
      revision = (SELECT coalesce(max(revision), -1) + 1 FROM events WHERE stream = '${stream}')
      WHERE seq = ${seq(event)}`;
  };
  // Events that were created before the erasures: the copy of before has no others.
  const old = erased.filter((event) => seq(event) <= OLD_EVENTS);
  return [
    () => putBack(seq(one(old))),
    () => eraseInto(one(others), streams[random(streams.length)] ?? ''),
    () => eraseInto(one(others), `erased-${randomUUID()}`),
    () =>
      `UPDATE events SET data = json_replace(data, '$.events', ${1 + random(9)}) WHERE seq = ${seq(one(records))}`,
    () => `DELETE FROM events WHERE seq = ${seq(one(erased))}`,
    () => {
      const [first, second] = [one(erased), one(old)];
      return first === second
        ? putBack(seq(first))
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
