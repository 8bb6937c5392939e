import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { plantStream } from '../../../src/plants/stream.js';
import { type EventLog, type Json, LogUnavailable, type Position } from '../../../src/ports/event-log.js';
import {
  type Generation,
  OwnerParked,
  partitionOf,
  ReadModelUnavailable,
} from '../../../src/ports/read-model.js';
import { type ReadModelStore } from '../../../src/ports/read-model-store.js';
import { type Healed } from '../../../src/projector/blocked-owners.js';
import { project } from '../../../src/projector/projection.js';
import { readRebuilds, readSkips, readSkipsInForce } from '../../../src/rebuilds/read.js';
import { skipsAfterOf } from '../../../src/rebuilds/rebuilds.js';
import { skipEvent } from '../../../src/write/rebuilds.js';
import { verify } from '../../../src/projector/verify.js';
import { brokenOff, failing, failingAfterwards, Faults, inPieces } from '../../support/domain-faults.js';
import { appendRaw, catchUp, noon, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { until } from '../../support/waiting.js';
import { quickTime } from '../../support/quick-time.js';

quickTime();

const operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };
const gone = (): Error => new ReadModelUnavailable('gone');

/** Two owners of one partition, and one of another. */
const ANNE = 'anne';
const NEIGHBOUR = (() => {
  for (let n = 0; ; n++) if (partitionOf(`neighbour ${n}`) === partitionOf(ANNE)) return `neighbour ${n}`;
})();
const BERT = 'bert';

describe('an owner with an event that cannot be read', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;
  let generation: Generation;
  let healed: (Healed & { readonly generation: Generation })[];

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
    generation = await model.createGeneration();
    await model.promote(generation);
    healed = [];
  });
  afterEach(() => stores.remove());

  /** Projects with skips, as a process does, until that is so; without it, until it has come to the end twice. */
  const follow = async (
    isDone?: () => boolean | Promise<boolean>,
    { port = log, store = model, of = generation } = {},
  ): Promise<void> => {
    const stopping = new AbortController();
    let ends = 0;
    const onProgress = ({ caughtUp }: { caughtUp: boolean }): Promise<void> => {
      if (caughtUp) ends += 1;
      return Promise.resolve();
    };
    const ended = project(port, store, of, onProgress, stopping.signal, {
      readSkips: async () => readSkips(log, skipsAfterOf(await readRebuilds(log), of)),
      refusals: {
        onParked: () => undefined,
        onHealed: (one) => healed.push({ generation: of, ...one }),
        onPassedOver: () => undefined,
      },
    });
    try {
      await Promise.race([until(isDone ?? (() => ends > 1)), ended]);
    } finally {
      stopping.abort();
      await ended;
    }
  };
  const isAnswered = async (): Promise<boolean> => typeof (await namesOf(ANNE)) !== 'string';

  const namesOf = async (owner: string, of = generation): Promise<string[] | Position> => {
    const { rows, parked } = await model.page(of, owner, undefined, 100_000);
    return parked ? parked.position : rows.map(({ id, row }) => `${id} ${nameIn(row)}`);
  };
  const nameIn = (row: string): string => (JSON.parse(row) as { name: string }).name;

  /** An event that this version cannot read. */
  const bad = async (
    owner: string,
    id: number,
    type = 'PlantWatered',
    data: Json = { id },
  ): Promise<Position> => {
    const stream = plantStream(owner, id);
    const last = (await log.readStream(stream)).at(-1)?.revision;
    return (await appendRaw(log, stream, type, data, last ?? 'none')).position;
  };
  const skip = async (position: Position): Promise<void> => {
    for await (const event of log.readAll('' as Position))
      if (event.position === position) await skipEvent(log, event, 'odd', operator, noon);
  };
  const create = (owner: string, id: number, name: string) => run(log, owner, createPlant(id, name, ''));

  it('loses the list from there on, whoever else is in the partition, and the projection goes on', async () => {
    await create(ANNE, 1, 'before');
    const position = await bad(ANNE, 9);
    await create(ANNE, 2, 'after');
    for (const owner of [NEIGHBOUR, BERT]) await create(owner, 1, 'theirs');
    await catchUp(log, model, generation);
    await expect(model.list(ANNE, undefined, 100)).rejects.toThrow(OwnerParked);
    expect(await namesOf(ANNE)).toBe(position);
    for (const owner of [NEIGHBOUR, BERT]) expect(await namesOf(owner)).toEqual(['1 theirs']);
    const head = await log.head();
    expect((await model.anchors(generation)).every(({ position: at }) => at === head)).toBe(true);
  });

  it('is told of once, after it is in the read model; operations that cannot be read are passed over', async () => {
    const operation = await appendRaw(log, 'operation-rebuilds', 'RebuildPondered', {});
    await bad(ANNE, 8);
    await bad(ANNE, 9);
    await create(BERT, 1, 'his');
    const heard: string[] = [];
    const arrived = new AbortController();
    await project(
      log,
      model,
      generation,
      ({ caughtUp }) => {
        if (caughtUp) arrived.abort();
        return Promise.resolve();
      },
      arrived.signal,
      {
        refusals: {
          onParked: ({ stream, kind }) => heard.push(`${stream} ${kind}`),
          onHealed: () => undefined,
          onPassedOver: ({ stream }, position) => heard.push(`${stream} ${position}`),
        },
      },
    );
    expect(heard).toEqual([
      `operation-rebuilds ${operation.position}`,
      `${plantStream(ANNE, 8)} unknown_type`,
    ]);
    expect(await namesOf(BERT)).toEqual(['1 his']);
  });

  it.each([
    ['a stream of a plant with a damaged id', 'plant-anne/seven'],
    ['a stream of a plant with one more part', 'plant-anne/7/8'],
    ['a stream of a request', 'request-anne/0123'],
  ])('is the one whom %s tells', async (_what, stream) => {
    const { position } = await appendRaw(log, stream, 'PlantWatered', { id: 7 });
    await create(BERT, 1, 'his');
    await catchUp(log, model, generation);
    expect(await namesOf(ANNE)).toBe(position);
    expect(await namesOf(BERT)).toEqual(['1 his']);
  });

  it('is healed by a decision to skip, with all that was left out, and parked at the next event', async () => {
    await create(ANNE, 1, 'before');
    const first = await bad(ANNE, 9);
    await create(ANNE, 2, 'between');
    await run(log, ANNE, deletePlant(1));
    const second = await bad(ANNE, 9);
    await create(ANNE, 3, 'after');
    await follow();
    expect(await namesOf(ANNE)).toBe(first);
    expect(healed).toEqual([]);
    await skip(first);
    await follow(async () => (await namesOf(ANNE)) === second);
    expect(healed).toMatchObject([{ parked: { position: first }, next: { position: second } }]);
    await skip(second);
    await follow(isAnswered);
    expect(await namesOf(ANNE)).toEqual(['2 between', '3 after']);
    expect(healed).toMatchObject([{}, { parked: { position: second }, next: undefined }]);
    await create(ANNE, 4, 'later');
    await catchUp(log, model, generation);
    expect(await namesOf(ANNE)).toEqual(['2 between', '3 after', '4 later']);
    const skips = await readSkipsInForce(log);
    expect(await verify(log, model, generation, { skips })).toMatchObject({ differing: 0, parked: 0 });
  });

  it('is healed by a version that can read the event', async () => {
    await create(ANNE, 1, 'before');
    await create(ANNE, 2, 'of another version');
    const faults = new Faults(log).every('subscribe', async function* (proceed, from, signal) {
      for await (const batch of proceed(from, signal))
        yield {
          ...batch,
          events: batch.events.map((event) =>
            event.stream === plantStream(ANNE, 2) ? { ...event, type: 'PlantPotted' } : event,
          ),
        };
    });
    await catchUp(faults.port, model, generation);
    expect(await namesOf(ANNE)).not.toEqual(['1 before', '2 of another version']);
    await follow(isAnswered);
    expect(await namesOf(ANNE)).toEqual(['1 before', '2 of another version']);
    expect(await model.countParked(generation)).toBe(0);
  });

  it('may write all the time while it is brought up to date, and others are projected meanwhile', async () => {
    const position = await bad(ANNE, 9);
    for (let id = 1; id <= 300; id += 1) await create(BERT, id, 'his');
    await create(ANNE, 1, 'first');
    await catchUp(log, model, generation);
    await skip(position);
    let id = 100;
    const busy = new Faults(log).every('readAll', async function* (proceed, from) {
      for await (const event of proceed(from)) {
        if (id < 105) {
          const written = await create(ANNE, ++id, 'while');
          await create(BERT, 1_000 + id, 'meanwhile');
          await until(async () => (await model.page(generation, BERT, 999, 1)).position >= written.position);
        }
        yield event;
      }
    });
    await follow(isAnswered, { port: busy.port });
    const names = ['1 first', ...[101, 102, 103, 104, 105].map((each) => `${each} while`)];
    await follow(async () => String(await namesOf(ANNE)) === String(names));
  });

  it('is brought up to date also where it is skipped in two steps, the second one meanwhile', async () => {
    const [first, second] = [await bad(ANNE, 9), await bad(ANNE, 8)];
    await create(ANNE, 1, 'after');
    await catchUp(log, model, generation);
    await skip(first);
    const slow = new Faults(log).next('readAll', async function* (proceed, from) {
      await skip(second);
      const head = await log.head();
      await until(async () => (await model.page(generation, BERT, undefined, 1)).position >= head);
      yield* proceed(from);
    });
    await follow(isAnswered, { port: slow.port });
    expect(await namesOf(ANNE)).toEqual(['1 after']);
  });

  it('is no difference for a verification, but what is wrong about others is', async () => {
    await create(ANNE, 1, 'before');
    await bad(ANNE, 9);
    await create(ANNE, 2, 'after');
    await create(BERT, 1, 'his');
    await catchUp(log, model, generation);
    expect(await verify(log, model, generation)).toMatchObject({ differing: 0, parked: 1, unreadable: 0 });
    stores.tamper(`UPDATE plants SET row = '{"name":"forged","tag":""}'`);
    expect(await verify(log, model, generation)).toMatchObject({ differing: 2, parked: 1 });
  });

  it('is healed also among so many others that the log is read several times', async () => {
    const owners = Array.from({ length: 1_001 }, (_, number) => `owner ${number}`);
    await Promise.all(owners.map((owner) => bad(owner, 1)));
    await catchUp(log, model, generation);
    expect(await model.countParked(generation)).toBe(owners.length);
    for await (const event of log.readAll('' as Position))
      if (event.type === 'PlantWatered') await skipEvent(log, event, 'odd', operator, noon);
    await follow(async () => (await model.countParked(generation)) === 0);
    expect(healed).toHaveLength(owners.length);
  });

  it.each([
    [
      'the log',
      (faults: Faults<EventLog>) =>
        faults.next('readAll', () => {
          throw new LogUnavailable('cut');
        }),
      'cut',
    ],
    ['a store', undefined, 'gone'],
  ])(
    'ends the projection where %s fails meanwhile: the next one begins again',
    async (_what, disturb, reason) => {
      const position = await bad(ANNE, 9);
      await catchUp(log, model, generation);
      await skip(position);
      const port = disturb ? disturb(new Faults(log)).port : log;
      const store = disturb ? model : new Faults(model).next('catchUp', failing(gone)).port;
      await expect(follow(() => false, { port, store })).rejects.toThrow(reason);
      await follow(isAnswered);
      expect(await namesOf(ANNE)).toEqual([]);
    },
  );

  it('can be written to, but for the plant with that event, until it is skipped', async () => {
    await create(ANNE, 1, 'before');
    const position = await bad(ANNE, 1);
    await create(ANNE, 2, 'another');
    await expect(run(log, ANNE, deletePlant(1))).rejects.toMatchObject({ kind: 'unknown_type' });
    await skip(position);
    await run(log, ANNE, deletePlant(1));
    await follow();
    expect(await namesOf(ANNE)).toEqual(['2 another']);
  });

  it('has the fold of what can be read, or no list, in random histories with accidents and two projectors', async () => {
    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({ kind: fc.constant('create' as const), owner: fc.nat(2), id: fc.nat(3) }),
      },
      {
        weight: 2,
        arbitrary: fc.record({ kind: fc.constant('delete' as const), owner: fc.nat(2), id: fc.nat(3) }),
      },
      {
        weight: 2,
        arbitrary: fc.record({ kind: fc.constant('bad' as const), owner: fc.nat(2), id: fc.nat(3) }),
      },
      {
        weight: 2,
        arbitrary: fc.record({ kind: fc.constant('skip' as const), owner: fc.nat(2), id: fc.nat(3) }),
      },
      {
        weight: 3,
        arbitrary: fc.record({ kind: fc.constant('project' as const), owner: fc.nat(2), id: fc.nat(6) }),
      },
      {
        weight: 2,
        arbitrary: fc.record({ kind: fc.constant('heal' as const), owner: fc.nat(2), id: fc.nat(3) }),
      },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        const prefix = randomUUID();
        const owners = [0, 1, 2].map((n) => `${prefix} ${n}`);
        // What the log says, in its order: an event that cannot be read is a position.
        const told = new Map<string, ({ id: number; name: string | undefined } | Position)[]>(
          owners.map((owner) => [owner, []]),
        );
        const skipped = new Set<Position>();
        generation = await model.createGeneration();
        const expected = (owner: string): string[] | Position => {
          const plants = new Map<number, string>();
          for (const each of told.get(owner) ?? []) {
            if (typeof each === 'string') {
              if (!skipped.has(each)) return each;
            } else if (each.name === undefined) plants.delete(each.id);
            else plants.set(each.id, each.name);
          }
          return [...plants].sort(([one], [other]) => one - other).map(([id, name]) => `${id} ${name}`);
        };
        let serial = 0;
        for (const { kind, owner: index, id } of steps) {
          const owner = String(owners[index]);
          const history = told.get(owner) ?? [];
          if (kind === 'create') {
            const name = `n${++serial}`;
            const done = await create(owner, id, name).catch(() => undefined);
            if (done) history.push({ id, name });
          } else if (kind === 'delete') {
            const done = await run(log, owner, deletePlant(id)).catch(() => undefined);
            if (done) history.push({ id, name: undefined });
          } else if (kind === 'bad') history.push(await bad(owner, id));
          else if (kind === 'skip') {
            const position = history.find(
              (each): each is Position => typeof each === 'string' && !skipped.has(each),
            );
            if (position === undefined) continue;
            await skip(position);
            skipped.add(position);
          } else if (kind === 'project') {
            const port = new Faults(log).every('subscribe', inPieces(2));
            const store = new Faults(model);
            if (id === 1)
              port.next(
                'subscribe',
                brokenOff(1, () => new LogUnavailable('cut')),
              );
            if (id === 2) store.next('apply', failing(gone));
            if (id === 3) store.next('apply', failingAfterwards(gone));
            const projecting = [catchUp(port.port, store.port, generation)];
            if (id === 4) projecting.push(catchUp(log, model, generation));
            await Promise.allSettled(projecting);
          } else await Promise.all([follow, follow].slice(0, (id % 2) + 1).map((each) => each()));
        }
        const isAsTold = async (of: Generation): Promise<boolean> => {
          for (const owner of owners)
            if (String(await namesOf(owner, of)) !== String(expected(owner))) return false;
          return true;
        };
        await Promise.all([follow(() => isAsTold(generation)), follow(() => isAsTold(generation))]);
        const skips = await readSkipsInForce(log);
        expect(await verify(log, model, generation, { skips })).toMatchObject({
          differing: 0,
          unreadable: 0,
        });
        // A rebuild parks the same owners.
        const again = await model.createGeneration();
        await follow(() => isAsTold(again), { of: again });
      }),
      { numRuns: 25 },
    );
  });
});
