import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { NO_SKIPS } from '../../../src/domain/skips.js';
import {
  type Anchor,
  type EventLog,
  LogUnavailable,
  type Position,
  START,
} from '../../../src/log/event-log.js';
import {
  type Generation,
  PARTITIONS,
  type PartitionChanges,
  partitionOf,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { decorate } from '../../../src/log/decorate.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import {
  ForeignHistory,
  LARGEST_BATCH,
  type Progress,
  project,
  type ProjectOptions,
  ReadModelRegressed,
} from '../../../src/projection/projection.js';
import { rowOf } from '../../../src/projection/changes.js';
import { IdempotentCommands } from '../../../src/commands/idempotency.js';
import {
  brokenOff,
  failing,
  failingAfterwards,
  Faults,
  inPieces,
  none,
} from '../../support/domain-faults.js';
import {
  anyCommand,
  anyString,
  known,
  obey,
  type Plants,
  plantsAt,
  rowsOf,
} from '../../support/domain-model.js';
import { appendRaw, catchUp, contextOf, noon, outcomeOf, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { until } from '../../support/waiting.js';

/** Owners of different partitions. */
const OWNERS = ['anne', 'bert', 'cleo'] as const;
/** The stream of a plant, by its prefix, but of no owner. */
const NOBODYS = 'plant-';
const gone = (): Error => new ReadModelUnavailable('gone');

describe('a projection', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;
  let generation: Generation;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
    generation = await model.createGeneration();
  });
  afterEach(() => stores.remove());

  const positionsOf = async (): Promise<Position[]> =>
    (await model.anchors(generation)).map(({ position }) => position);

  const listOf = async (owner: string): Promise<{ id: number; row: string }[]> => {
    const { rows } = await model.page(generation, owner, undefined, 100_000);
    return rows.map(({ id, row }) => ({ id, row }));
  };

  /** The store, and how many changes each apply to it has. */
  const counted = (): { readonly store: Faults<ReadModelStore>; readonly sizes: number[] } => {
    const sizes: number[] = [];
    const store = new Faults(model).every('apply', (proceed, into, parts) => {
      sizes.push(parts.reduce((sum, { changes }) => sum + changes.length, 0));
      return proceed(into, parts);
    });
    return { store, sizes };
  };

  /** A projection in the background, and how far it says it is. */
  const start = (port: EventLog = log, store: ReadModelStore = model, options: ProjectOptions = {}) => {
    const progress: Progress[] = [];
    const stopping = new AbortController();
    const ended = project(
      port,
      store,
      generation,
      (step) => {
        progress.push(step);
        return Promise.resolve();
      },
      stopping.signal,
      options,
    );
    ended.catch(() => undefined); // each test looks at it when it wants to
    return {
      progress,
      ended,
      caughtUpWith: (position: Position) =>
        until(() => progress.some((step) => step.caughtUp && step.position >= position)),
      stop: async () => {
        stopping.abort();
        await ended;
      },
    };
  };

  it('of an empty log has caught up at once', async () => {
    const projection = start();
    await projection.caughtUpWith(START);
    expect(projection.progress[0]).toEqual({
      events: 0,
      position: START,
      caughtUp: true,
      hasOperations: false,
    });
    await projection.stop();
  });

  it('catches up from the beginning, and goes on with what comes', async () => {
    for (const owner of OWNERS) await run(log, owner, createPlant(1, `of ${owner}`, ''));
    const projection = start();
    await projection.caughtUpWith(await log.head());
    for (const owner of OWNERS)
      expect(await listOf(owner)).toEqual([{ id: 1, row: `{"name":"of ${owner}","tag":""}` }]);
    const { position } = await run(log, 'anne', deletePlant(1));
    await projection.caughtUpWith(position);
    expect(await listOf('anne')).toEqual([]);
    expect(await listOf('bert')).toHaveLength(1);
    await projection.stop();
  });

  it('brings every partition to the end of the log, the idle ones too, when it arrives there', async () => {
    for (const owner of OWNERS) await run(log, owner, createPlant(1));
    const pieces = new Faults(log).every('subscribe', inPieces(1));
    await catchUp(pieces.port, model, generation);
    expect(new Set(await positionsOf())).toEqual(new Set([await log.head()]));
  });

  it('moves idle partitions on soon after an event, since lists of their owners may wait for that', async () => {
    const projection = start();
    await projection.caughtUpWith(START);
    let took = Infinity;
    // Each takes 300; a busy machine may delay one.
    for (let id = 1; took >= 1_000; id += 1) {
      const { position } = await run(log, 'anne', createPlant(id));
      const written = performance.now();
      await until(async () => (await positionsOf()).every((each) => each === position));
      took = performance.now() - written;
    }
    await projection.stop();
  });

  it('tells of progress after it is in the read model, one step at a time', async () => {
    const events: string[] = [];
    const store = new Faults(model).every('apply', async (proceed, ...args) => {
      const positions = await proceed(...args);
      events.push('applied');
      return positions;
    });
    for (const owner of OWNERS) await run(log, owner, createPlant(1));
    const pieces = new Faults(log).every('subscribe', inPieces(1));
    const stopping = new AbortController();
    await project(
      pieces.port,
      store.port,
      generation,
      async ({ caughtUp }) => {
        events.push('told');
        await new Promise(setImmediate);
        events.push('heard');
        if (caughtUp) stopping.abort();
      },
      stopping.signal,
      { batchSize: () => 1 },
    );
    expect(events).toEqual(Array.from({ length: 3 }, () => ['applied', 'told', 'heard']).flat());
  });

  it('resumes after the oldest of its positions, and applies to each partition what that one lacks', async () => {
    for (const id of [1, 2])
      for (const owner of OWNERS) await run(log, owner, createPlant(id, `of ${owner}`, ''));
    const anchors: Anchor[] = [];
    for await (const { position, id } of log.readAll(START)) anchors.push({ position, event: id });
    // Anne's partition has both of her plants, Bert's his first one, all others everything up to Anne's first one.
    const first = known(anchors[0]);
    const place: Record<number, Anchor> = {
      [partitionOf('anne')]: known(anchors[3]),
      [partitionOf('bert')]: known(anchors[1]),
    };
    const change = (owner: string, id: number, { position }: Anchor) => ({
      position,
      owner,
      id,
      row: rowOf('as applied before', ''),
    });
    const before: Record<number, PartitionChanges['changes']> = {
      [partitionOf('anne')]: [change('anne', 1, first), change('anne', 2, known(anchors[3]))],
      [partitionOf('bert')]: [change('bert', 1, known(anchors[1]))],
    };
    await model.apply(
      generation,
      Array.from({ length: PARTITIONS }, (_, partition) => ({
        partition,
        from: START,
        upTo: place[partition] ?? first,
        changes: before[partition] ?? [],
      })),
    );
    const subscribed: Position[] = [];
    const port = new Faults(log).next('subscribe', (proceed, from, signal) => {
      subscribed.push(from);
      return proceed(from, signal);
    }).port;
    const applied: string[] = [];
    const store = new Faults(model).every('apply', (proceed, into, parts) => {
      applied.push(...parts.flatMap(({ changes }) => changes.map(({ owner, id }) => `${owner} ${id}`)));
      return proceed(into, parts);
    }).port;
    await catchUp(port, store, generation);
    expect(subscribed).toEqual([first.position]);
    expect(applied.sort()).toEqual(['bert 2', 'cleo 1', 'cleo 2']);
    expect((await listOf('anne')).map(({ row }) => row)).toEqual(
      Array(2).fill(rowOf('as applied before', '')),
    );
    expect((await listOf('bert')).map(({ row }) => row)).toEqual([
      rowOf('as applied before', ''),
      rowOf('of bert', ''),
    ]);
    expect(await listOf('cleo')).toHaveLength(2);
  });

  it('takes a long log in batches', async () => {
    await Promise.all(
      Array.from({ length: 1_201 }, (_, id) => run(log, 'anne', createPlant(id, `plant ${id}`, ''))),
    );
    const { store, sizes } = counted();
    await catchUp(log, store.port, generation);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(1_201);
    // Batches of the log come together up to a thousand events.
    expect(Math.max(...sizes)).toBeLessThan(1_100);
    expect(sizes.length).toBeGreaterThan(1);
    expect(await listOf('anne')).toEqual(
      Array.from({ length: 1_201 }, (_, id) => ({ id, row: `{"name":"plant ${id}","tag":""}` })),
    );
  });

  it('reads on while it writes, but not past what could not be written', async () => {
    await Promise.all(Array.from({ length: 1_300 }, (_, id) => run(log, 'anne', createPlant(id))));
    let read = 0;
    const source = new Faults(log).every('subscribe', async function* (proceed, from, signal) {
      for await (const batch of proceed(from, signal)) {
        read += batch.events.length;
        yield batch;
      }
    });
    const store = new Faults(model).next('apply', none, async () => {
      await until(() => read > LARGEST_BATCH + 200); // more than this apply was given, and the first one
      throw gone();
    });
    const { ended } = start(source.port, store.port);
    await expect(ended).rejects.toThrow('gone');
    expect(store.calls('apply')).toBe(2);
  });

  it('holds nothing back once it has caught up, also where the log does not say again that this was all', async () => {
    const source = new Faults(log).every('subscribe', async function* (proceed, from, signal) {
      let told = false;
      for await (const piece of inPieces(1)(proceed, from, signal)) {
        yield { ...piece, caughtUp: piece.caughtUp && !told };
        told ||= piece.caughtUp;
      }
    });
    const { store, sizes } = counted();
    const projection = start(source.port, store.port);
    await projection.caughtUpWith(START);
    await Promise.all([1, 2, 3].map((id) => run(log, 'anne', createPlant(id))));
    await until(async () => (await listOf('anne')).length === 3);
    expect(sizes.filter((size) => size > 0)).toEqual([1, 1, 1]);
    await projection.stop();
  });

  it('passes by what is known of named requests', async () => {
    const requests = new IdempotentCommands({ log, now: noon, skips: () => Promise.resolve(NO_SKIPS) });
    await requests.run('anne', createPlant(1), contextOf(), 'key');
    await outcomeOf(requests.run('anne', deletePlant(2), contextOf(), 'another'));
    await catchUp(log, model, generation);
    expect(await listOf('anne')).toHaveLength(1);
    expect(new Set(await positionsOf())).toEqual(new Set([await log.head()]));
  });

  it('checks a few partitions of an idle store at a time, in turn, and all of them after a failover', async () => {
    const { position } = await run(log, 'anne', createPlant(1));
    const checks: number[][] = [];
    let steadySince = 1;
    const store = decorate(model, {
      get steadySince() {
        return steadySince;
      },
      apply: (into, parts) => {
        checks.push(parts.map(({ partition }) => partition));
        return model.apply(into, parts);
      },
    });
    const projection = start(log, store);
    await projection.caughtUpWith(position);
    const begun = checks.length;
    await until(() => checks.length >= begun + 2);
    steadySince = 2;
    await until(() => checks.at(-1)?.length === PARTITIONS);
    const [first, second] = checks.slice(begun);
    expect(first).toHaveLength(4);
    expect(second).toEqual(first?.map((partition) => partition + 4));
    await projection.stop();
  });

  it.each<[string, () => unknown]>([
    ['the next event of that partition', () => run(log, 'anne', createPlant(2))],
    [
      'itself, while nothing happens',
      () => {
        stores.tamper("UPDATE anchors SET position = '', event = ''");
      },
    ],
  ])('notices a loss of the store by %s, and applies nothing there', async (_what, happens) => {
    const { position } = await run(log, 'anne', createPlant(1));
    const projection = start();
    await projection.caughtUpWith(position);
    stores.tamper("DELETE FROM plants WHERE owner = 'anne'");
    const lost = "UPDATE anchors SET position = ?, event = '' WHERE partition = ?";
    stores.tamper(lost, [START, partitionOf('anne')]);
    await happens();
    await expect(projection.ended).rejects.toThrow(ReadModelRegressed);
    expect(await listOf('anne')).toEqual([]);
    await catchUp(log, model, generation);
    expect((await listOf('anne'))[0]).toMatchObject({ id: 1 });
  });

  it.each([
    ['after the end of the log', () => ({ position: '9000000000000000' as Position, event: 'any' })],
    ['that the log has another one for', async () => ({ position: await log.head(), event: 'another' })],
  ])('refuses lists of an event %s', async (_what, anchor) => {
    await run(log, 'anne', createPlant(1));
    await model.apply(generation, [{ partition: 5, from: START, upTo: await anchor(), changes: [] }]);
    await expect(start().ended).rejects.toThrow(ForeignHistory);
  });

  it('waits for an event that a server which is behind does not show yet', async () => {
    await run(log, 'anne', createPlant(1));
    await catchUp(log, model, generation);
    const behind = new Faults(log).next(
      'eventAt',
      () => Promise.resolve(undefined),
      () => Promise.resolve(undefined),
    );
    const projection = start(behind.port);
    await projection.caughtUpWith(await log.head());
    expect(behind.calls('eventAt')).toBe(3);
    await projection.stop();
  });

  it('passes over an event which the codec refuses, of an owner whom its stream does not tell', async () => {
    for (const owner of OWNERS) await run(log, owner, createPlant(1));
    const { position } = await appendRaw(log, NOBODYS, 'PlantWatered', { id: 9 });
    await run(log, 'anne', createPlant(2));
    const passedOver: unknown[] = [];
    const projection = start(log, model, {
      refusals: {
        onBlocked: () => undefined,
        onCaughtUp: () => undefined,
        onPassedOver: ({ stream }, at) => passedOver.push([stream, at]),
      },
    });
    await projection.caughtUpWith(await log.head());
    await projection.stop();
    expect(passedOver).toEqual([[NOBODYS, position]]);
    expect(await listOf('anne')).toHaveLength(2);
    expect(new Set(await positionsOf())).toEqual(new Set([await log.head()]));
  });

  it('ends with what its ports throw', async () => {
    const broken = new Faults(model).next('apply', failing(gone)).port;
    await expect(start(log, broken).ended).rejects.toThrow(ReadModelUnavailable);
    const port = new Faults(log).next(
      'subscribe',
      brokenOff(0, () => new LogUnavailable('cut')),
    ).port;
    await expect(start(port).ended).rejects.toThrow(LogUnavailable);
  });

  it('ends in the fold of the log, wherever it is cut off and whoever helps', async () => {
    const history = fc.array(fc.tuple(fc.nat({ max: 4 }), anyCommand), { minLength: 1, maxLength: 30 });
    /** After so many pieces the subscription breaks, or an apply fails, before or after it was done. */
    const accident = fc.tuple(fc.nat({ max: 8 }), fc.constantFrom('subscribe', 'apply', 'applied'));
    const names = fc.uniqueArray(anyString, { minLength: 5, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(
        names,
        history,
        fc.array(accident, { maxLength: 4 }),
        async (owners, commands, accidents) => {
          const prefix = randomUUID();
          const plants = new Map<string, Plants>(owners.map((name) => [prefix + name, new Map()]));
          for (const [index, command] of commands) {
            const owner = prefix + known(owners[index]);
            expect(await outcomeOf(run(log, owner, command))).toBe(obey(known(plants.get(owner)), command));
          }
          generation = await model.createGeneration();
          const helper = start();
          for (const [pieces, what] of accidents) {
            const store = new Faults(model);
            const port = new Faults(log).every('subscribe', inPieces(3));
            if (what === 'subscribe') port.next('subscribe', brokenOff(pieces, gone));
            else
              store.next(
                'apply',
                ...Array.from({ length: pieces }, () => none),
                what === 'apply' ? failing(gone) : failingAfterwards(gone),
              );
            await catchUp(port.port, store.port, generation).catch(() => undefined);
          }
          await catchUp(log, model, generation);
          await helper.stop();
          const head = await log.head();
          expect(new Set(await positionsOf())).toEqual(new Set([head]));
          for (const [owner, expected] of plants) {
            expect(await listOf(owner)).toEqual(rowsOf(expected));
            expect(rowsOf(await plantsAt(log, owner, head))).toEqual(rowsOf(expected));
          }
        },
      ),
      { numRuns: 25 },
    );
  });
});
