import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import {
  erasedStream,
  ERASURES_STREAM,
  erasureStream,
  plantStream,
  streamsOf,
} from '../../../src/domain/stream.js';
import { type EventLog, LogUnavailable, type Position, START } from '../../../src/log/event-log.js';
import {
  type Generation,
  OwnerBlocked,
  partitionOf,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { type CaughtUp } from '../../../src/projection/blocked-owners.js';
import { project, type ProjectOptions } from '../../../src/projection/projection.js';
import { readRebuilds, readSkips, readSkipsInForce } from '../../../src/commands/read-rebuilds.js';
import { skipsAfterOf } from '../../../src/commands/rebuilds.js';
import { operationEvent, skipEvent } from '../../../src/commands/record-rebuilds.js';
import { verify } from '../../../src/projection/verify.js';
import { brokenOff, failing, failingAfterwards, Faults, inPieces } from '../../support/domain-faults.js';
import { known } from '../../support/domain-model.js';
import { appendRaw, catchUp, noon, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { never, until } from '../../support/waiting.js';
import { quickTime } from '../../support/quick-time.js';

quickTime();

const operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };
const gone = (): Error => new ReadModelUnavailable('gone');
const cut = (): Error => new LogUnavailable('cut');

/** Two owners of one partition, and one of another. */
const ANNE = 'anne';
const NEIGHBOUR = (() => {
  for (let n = 0; ; n++) if (partitionOf(`neighbour ${n}`) === partitionOf(ANNE)) return `neighbour ${n}`;
})();
const BERT = 'bert';

let stores: Stores;
let log: EventLog;
let model: ReadModelStore;
let generation: Generation;
type CaughtUpIn = CaughtUp & { readonly generation: Generation };
/** Streams of unreadable events that were reported, and owners that were caught up. */
let told: (string | CaughtUpIn)[];

beforeEach(async () => {
  stores = new Stores();
  log = await stores.log();
  model = await stores.model(log);
  generation = await model.createGeneration();
  await model.promote(generation);
  told = [];
});
afterEach(() => stores.remove());

/** Projects with skips, as a process does, until that is so; without it, until it has come to the end twice. */
const follow = async (
  isDone?: () => boolean | Promise<boolean>,
  { port = log, store = model, of = generation, ...more }: Following = {},
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
      onBlocked: ({ stream, kind }) => told.push(`${stream} ${kind}`),
      onCaughtUp: (one) => told.push({ generation: of, ...one }),
      onPassedOver: ({ stream }) => told.push(stream),
    },
    ...more,
  });
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  ended.then(over, over);
  try {
    await until(async () => isOver || (await (isDone?.() ?? ends > 1)));
  } finally {
    stopping.abort();
    await ended;
  }
};
type Following = ProjectOptions & { port?: EventLog; store?: ReadModelStore; of?: Generation };

const caughtUp = (): (string | CaughtUpIn)[] => told.filter((one) => typeof one !== 'string');

/** An owner's plants, or the position at which the owner was blocked. */
const namesOf = async (owner: string, of = generation): Promise<string[] | Position> => {
  const { rows, blocked } = await model.page(of, owner, undefined, 100_000);
  return blocked
    ? blocked.position
    : rows.map(({ id, row }) => `${id} ${(JSON.parse(row) as { name: string }).name}`);
};
const isAnswered = async (): Promise<boolean> => typeof (await namesOf(ANNE)) !== 'string';

const create = (owner: string, id: number, name: string) => run(log, owner, createPlant(id, name, ''));
/** Appends an event that this version cannot read. */
const bad = async (owner: string, id: number): Promise<Position> => {
  const stream = plantStream(owner, id);
  const last = (await log.readStream(stream)).at(-1)?.revision;
  return (await appendRaw(log, stream, 'PlantWatered', { id }, last ?? 'none')).position;
};
const skip = async (position: Position): Promise<void> => {
  await skipEvent(log, known(await log.eventAt(position)), 'odd', operator, noon);
};

describe('an owner with an event that cannot be read', () => {
  it('loses the list from there on, whoever else is in the partition, and the projection goes on', async () => {
    await create(ANNE, 1, 'before');
    const position = await bad(ANNE, 9);
    await create(ANNE, 2, 'after');
    for (const owner of [NEIGHBOUR, BERT]) await create(owner, 1, 'theirs');
    await catchUp(log, model, generation);
    await expect(model.list(ANNE, undefined, 100)).rejects.toThrow(OwnerBlocked);
    expect(await namesOf(ANNE)).toBe(position);
    for (const owner of [NEIGHBOUR, BERT]) expect(await namesOf(owner)).toEqual(['1 theirs']);
    const head = await log.head();
    expect((await model.anchors(generation)).every(({ position: at }) => at === head)).toBe(true);
  });

  it('is told of once; operations that cannot be read are passed over', async () => {
    await appendRaw(log, 'operation-rebuilds', 'RebuildPondered', {});
    await bad(ANNE, 8);
    await bad(ANNE, 9);
    await create(BERT, 1, 'his');
    await follow();
    expect(told).toEqual(['operation-rebuilds', `${plantStream(ANNE, 8)} unknown_type`]);
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

  it('is answered again once that event is erased: what an erasure takes may not be caught up yet', async () => {
    const position = await bad(ANNE, 9);
    await catchUp(log, model, generation);
    const hash = Buffer.alloc(32).toString('base64');
    const metadata = { schemaVersion: 1 };
    const redacted = { position, id: randomUUID(), type: 'Erased', data: { leafHash: hash }, metadata };
    const data = { erasure: 'e', events: 1, digest: hash };
    const event = operationEvent(ERASURES_STREAM, undefined, { type: 'OwnerErased', data }, operator, noon());
    const [subject, into] = [erasureStream('e'), erasedStream('e')];
    const record = { stream: ERASURES_STREAM, expected: 'none', event } as const;
    await log.erase({ prefixes: streamsOf(ANNE), subject, redacted: [redacted], into, record }, never());
    await create(ANNE, 1, 'again');
    await follow(isAnswered);
    expect(await namesOf(ANNE)).toEqual(['1 again']);
  });

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
});

describe('a blocked owner is brought up to date', () => {
  it('by a skip, with all that was left out, up to the next event that cannot be read', async () => {
    await create(ANNE, 1, 'before');
    const first = await bad(ANNE, 9);
    await create(ANNE, 2, 'between');
    await run(log, ANNE, deletePlant(1));
    const second = await bad(ANNE, 9);
    await create(ANNE, 3, 'after');
    await follow();
    expect(await namesOf(ANNE)).toBe(first);
    expect(caughtUp()).toEqual([]);
    await skip(first);
    await follow(async () => (await namesOf(ANNE)) === second);
    expect(caughtUp()).toMatchObject([{ blocked: { position: first }, next: { position: second } }]);
    await skip(second);
    await follow(isAnswered);
    expect(await namesOf(ANNE)).toEqual(['2 between', '3 after']);
    expect(caughtUp()).toMatchObject([{}, { blocked: { position: second }, next: undefined }]);
    await create(ANNE, 4, 'later');
    await catchUp(log, model, generation);
    expect(await namesOf(ANNE)).toEqual(['2 between', '3 after', '4 later']);
    const skips = await readSkipsInForce(log);
    expect(await verify(log, model, generation, { skips })).toMatchObject({ differing: 0, parked: 0 });
  });

  it('by a version that can read the event', async () => {
    await create(ANNE, 1, 'before');
    await create(ANNE, 2, 'of another version');
    const older = new Faults(log).every('subscribe', async function* (...subscription) {
      for await (const event of inPieces(1)(...subscription)) {
        const isNew = event.events[0]?.stream === plantStream(ANNE, 2);
        yield isNew
          ? { ...event, events: event.events.map((one) => ({ ...one, type: 'PlantPotted' })) }
          : event;
      }
    });
    await catchUp(older.port, model, generation);
    expect(await isAnswered()).toBe(false);
    await follow(isAnswered);
    expect(await namesOf(ANNE)).toEqual(['1 before', '2 of another version']);
    expect(await model.countBlocked(generation)).toBe(0);
  });

  it('while others are projected, and that owner writes all the time', async () => {
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

  it('by skips in two steps, the second one while that is under way', async () => {
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

  it('with all that the partition contains, where another projector has brought that further', async () => {
    const position = await bad(ANNE, 1);
    for (let id = 1; id <= 10; id += 1) await create(BERT, id, 'his');
    await create(ANNE, 2, 'two');
    const last = await create(ANNE, 3, 'three');
    // As the other one has left it: all other partitions are at the start.
    const blocked = {
      ...{ owner: ANNE, position, stream: plantStream(ANNE, 1), revision: 0, kind: 'unknown_type' as const },
      ...{ reason: 'unknown type', applied: START },
    };
    const upTo = { position: last.position, event: known(await log.eventAt(last.position)).id };
    const partition = partitionOf(ANNE);
    await model.apply(generation, [{ partition, from: START, upTo, changes: [], refused: [blocked] }]);
    await skip(position);
    const port = new Faults(log).every('subscribe', inPieces(1)).port;
    await follow(isAnswered, { port, batchSize: () => 1 });
    expect(await namesOf(ANNE)).toEqual(['2 two', '3 three']);
  });

  it('among so many others that the log is read several times', async () => {
    const owners = Array.from({ length: 1_001 }, (_, number) => `owner ${number}`);
    const positions = await Promise.all(owners.map((owner) => bad(owner, 1)));
    await catchUp(log, model, generation);
    expect(await model.countBlocked(generation)).toBe(owners.length);
    for (const position of positions) await skip(position);
    await follow(async () => (await model.countBlocked(generation)) === 0);
    expect(caughtUp()).toHaveLength(owners.length);
  });

  it.each([
    [
      'the log',
      new Error('cut'),
      () => ({
        port: new Faults(log).next('readAll', () => {
          throw cut();
        }).port,
      }),
    ],
    ['the store', gone(), () => ({ store: new Faults(model).next('catchUp', failing(gone)).port })],
  ])('by the next projection where %s fails meanwhile', async (_what, { message }, disturbed) => {
    const position = await bad(ANNE, 9);
    await catchUp(log, model, generation);
    await skip(position);
    await expect(follow(() => false, disturbed())).rejects.toThrow(message);
    await follow(isAnswered);
    expect(await namesOf(ANNE)).toEqual([]);
  });
});

it('every owner has the fold of what can be read, or no list, in random histories with accidents and two projectors', async () => {
  const step = fc
    .oneof(
      ...(
        [
          ['create', 6],
          ['delete', 2],
          ['bad', 2],
          ['skip', 2],
          ['project', 3],
          ['follow', 2],
        ] as const
      ).map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind) })),
    )
    .chain((kind) =>
      fc.record({ kind: fc.constant(kind), owner: fc.nat(2), id: fc.nat(kind === 'project' ? 6 : 3) }),
    );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const prefix = randomUUID();
      const owners = [0, 1, 2].map((n) => `${prefix} ${n}`);
      // The expected history of each owner, in log order: an event that cannot be read is a position.
      const said = owners.map((): ({ id: number; name: string | undefined } | Position)[] => []);
      const skipped = new Set<Position>();
      generation = await model.createGeneration();
      const expected = (history: (typeof said)[number]): string[] | Position => {
        const plants = new Map<number, string>();
        for (const each of history) {
          if (typeof each === 'string') {
            if (!skipped.has(each)) return each;
          } else if (each.name === undefined) plants.delete(each.id);
          else plants.set(each.id, each.name);
        }
        return [...plants].sort(([one], [other]) => one - other).map(([id, name]) => `${id} ${name}`);
      };
      let serial = 0;
      for (const { kind, owner: index, id } of steps) {
        const [owner, history] = [known(owners[index]), known(said[index])];
        if (kind === 'create' || kind === 'delete') {
          const name = kind === 'create' ? `n${++serial}` : undefined;
          const command = name === undefined ? deletePlant(id) : createPlant(id, name, '');
          const done = await run(log, owner, command).catch(() => undefined);
          if (done) history.push({ id, name });
        } else if (kind === 'bad') history.push(await bad(owner, id));
        else if (kind === 'skip') {
          const isLeft = (each: unknown) => typeof each === 'string' && !skipped.has(each as Position);
          const position = history.find(isLeft) as Position | undefined;
          if (position === undefined) continue;
          await skip(position);
          skipped.add(position);
        } else if (kind === 'project') {
          const port = new Faults(log).every('subscribe', inPieces(2));
          const store = new Faults(model);
          if (id === 1) port.next('subscribe', brokenOff(1, cut));
          if (id === 2) store.next('apply', failing(gone));
          if (id === 3) store.next('apply', failingAfterwards(gone));
          const projecting = [catchUp(port.port, store.port, generation)];
          if (id === 4) projecting.push(catchUp(log, model, generation));
          await Promise.allSettled(projecting);
        } else await Promise.all([follow, follow].slice(id % 2).map((each) => each()));
      }
      const isAsSaid = async (of: Generation): Promise<boolean> => {
        for (const [index, owner] of owners.entries())
          if (String(await namesOf(owner, of)) !== String(expected(known(said[index])))) return false;
        return true;
      };
      await follow(); // to the end of the log, which holds other histories too
      await Promise.all([follow(() => isAsSaid(generation)), follow(() => isAsSaid(generation))]);
      const skips = await readSkipsInForce(log);
      expect(await verify(log, model, generation, { skips })).toMatchObject({ differing: 0, unreadable: 0 });
      // A rebuild blocks the same owners.
      const again = await model.createGeneration();
      await follow(() => isAsSaid(again), { of: again });
    }),
    { numRuns: 25 },
  );
});
