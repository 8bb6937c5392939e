import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Anchor, NO_ANCHOR, type Position, START } from '../../src/log/event-log.js';
import {
  ActiveChanged,
  GenerationActive,
  type GenerationInfo,
  NotAsFar,
} from '../../src/lists/generations.js';
import {
  type Generation,
  type Page,
  type PartitionChanges,
  type RowChange,
  GenerationMissing,
  PARTITIONS,
  ReadModelIncomplete,
  ReadModelUnavailable,
  partitionOf,
} from '../../src/lists/read-model.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { never, until } from '../support/waiting.js';

/** The n-th place in an imagined log; the 0-th is before its first event. */
const at = (n: number): Position => (n === 0 ? START : (String(n).padStart(20, '0') as Position));

/** The event at that place. */
const anchor = (n: number): Anchor => ({ position: at(n), event: n === 0 ? '' : `event-${n}` });

const put = (n: number, owner: string, id: number, row = `{"name":"${id}"}`): RowChange => ({
  position: at(n),
  owner,
  id,
  row,
});

const remove = (n: number, owner: string, id: number): RowChange => ({
  position: at(n),
  owner,
  id,
  row: undefined,
});

/** These changes, and the partitions of `also`, as partition changes that move from the place `from` to `upTo`. */
const between = (
  from: number,
  upTo: number,
  changes: readonly RowChange[],
  also: readonly number[] = [],
): PartitionChanges[] => {
  const byPartition = new Map<number, RowChange[]>();
  const of = (partition: number): RowChange[] => {
    const its = byPartition.get(partition) ?? [];
    byPartition.set(partition, its);
    return its;
  };
  for (const change of changes) of(partitionOf(change.owner)).push(change);
  also.forEach(of);
  return Array.from(byPartition, ([partition, its]) => ({
    partition,
    from: at(from),
    upTo: anchor(upTo),
    changes: its,
  }));
};

/** Moves all partitions, with changes or without. */
const advance = (from: number, upTo: number, changes: readonly RowChange[] = []): PartitionChanges[] =>
  between(
    from,
    upTo,
    changes,
    Array.from({ length: PARTITIONS }, (_, partition) => partition),
  );

/** As they were created, in ascending order of their ids. */
const ascending = (...generations: readonly GenerationInfo[]): GenerationInfo[] =>
  [...generations].sort((one, other) => one.generation - other.generation);

const positionsOf = async (model: ReadModelStore, generation: Generation): Promise<Position[]> =>
  (await model.anchors(generation)).map(({ position }) => position);

const ids = (page: Page): number[] => page.rows.map(({ id }) => id);

/** Two owners of different partitions, and their partitions. */
const ANNE = 'anne';
const BELA = 'bela';
const ANNES = partitionOf(ANNE);
const BELAS = partitionOf(BELA);

/** In ascending order, each once: an owner may come more than once. */
const ownersOf = async (model: ReadModelStore, generation: Generation): Promise<string[]> => {
  const owners = new Set<string>();
  for await (const owner of model.owners(generation)) owners.add(owner);
  return [...owners].sort();
};

/**
 * The contract of every read model. `open` gives an instance for the log of that identity; called again with the
 * same one, it gives a second instance on the same store.
 */
export const readModelContract = (
  name: string,
  open: (logIdentity: string) => Promise<ReadModelStore>,
): void => {
  describe(`read model: ${name}`, () => {
    const opened: ReadModelStore[] = [];

    const openFor = async (logIdentity: string): Promise<ReadModelStore> => {
      const model = await open(logIdentity);
      opened.push(model);
      return model;
    };

    const openNew = (): Promise<ReadModelStore> => openFor(randomUUID());

    const openActive = async (): Promise<{ model: ReadModelStore; log: string; generation: Generation }> => {
      const log = randomUUID();
      const model = await openFor(log);
      const generation = await model.createGeneration();
      await model.promote(generation);
      return { model, log, generation };
    };

    afterEach(() => Promise.all(opened.splice(0).map((model) => model.close())));

    describe('generations', () => {
      it('has none at first', async () => {
        const model = await openNew();
        await expect(model.generations()).resolves.toEqual([]);
      });

      it('makes new ones with other ids, inactive, with every partition at the start', async () => {
        const model = await openNew();
        const first = await model.createGeneration();
        const second = await model.createGeneration();
        expect(Number.isSafeInteger(first) && first > 0).toBe(true);
        expect(second).not.toBe(first);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation: first, active: false }, { generation: second, active: false }),
        );
        await expect(model.anchors(first)).resolves.toEqual(Array(PARTITIONS).fill(NO_ANCHOR));
      });

      it('has one active generation at most', async () => {
        const model = await openNew();
        const first = await model.createGeneration();
        const second = await model.createGeneration();
        await model.promote(first);
        await model.promote(first);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation: first, active: true }, { generation: second, active: false }),
        );
        await model.promote(second);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation: first, active: false }, { generation: second, active: true }),
        );
      });

      it('is invisible to another log, and may be active beside that one’s', async () => {
        const { model, generation } = await openActive();
        await model.apply(generation, between(0, 1, [put(1, ANNE, 7)]));
        const other = await openNew();
        await expect(other.generations()).resolves.toEqual([]);
        await expect(other.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
        const its = await other.createGeneration();
        await other.promote(its);
        expect(ids(await other.list(ANNE, undefined, 10))).toEqual([]);
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([7]);
      });

      it('promotes none that is behind the active one in any partition', async () => {
        const { model, generation } = await openActive();
        await model.apply(generation, advance(0, 5));
        const next = await model.createGeneration();
        const lagging = advance(0, 9).map((changes) =>
          changes.partition === 63 ? { ...changes, upTo: anchor(4) } : changes,
        );
        await model.apply(next, lagging);
        await expect(model.promote(next)).rejects.toThrow(NotAsFar);
        await expect(model.promote(next, generation)).rejects.toThrow(NotAsFar);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation, active: true }, { generation: next, active: false }),
        );
        await model.apply(next, advance(4, 5));
        await model.promote(next);
        await expect(model.generations()).resolves.toContainEqual({ generation: next, active: true });
      });

      it('refuses lists once the active one was deactivated, until another one is promoted', async () => {
        const { model, log, generation } = await openActive();
        const other = await openFor(log);
        await model.apply(generation, advance(0, 9));
        const next = await model.createGeneration();
        await model.deactivate(next); // which is not the active one
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([]);
        await model.deactivate(generation);
        await model.deactivate(generation);
        await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation, active: false }, { generation: next, active: false }),
        );
        await model.drop(generation);
        await model.promote(next, 'none'); // however far the other one was
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([]);
        await until(async () => (await other.list(ANNE, undefined, 10)).generation === next);
      });

      it('promotes only in place of the one that is named, if one is', async () => {
        const model = await openNew();
        const [first, second] = [await model.createGeneration(), await model.createGeneration()];
        await expect(model.promote(first, second)).rejects.toThrow(ActiveChanged);
        await expect(model.promote(first, first)).rejects.toThrow(ActiveChanged);
        await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
        await model.promote(first, 'none');
        for (const another of ['none', second, (second + 1) as Generation] as const)
          await expect(model.promote(second, another)).rejects.toThrow(ActiveChanged);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation: first, active: true }, { generation: second, active: false }),
        );
        await model.promote(second, first);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation: first, active: false }, { generation: second, active: true }),
        );
      });

      it('changes nothing by promoting the active one, whatever it was to replace', async () => {
        const { model, generation } = await openActive();
        const old = await model.createGeneration();
        await model.apply(generation, between(0, 1, [put(1, ANNE, 7)]));
        for (const replaces of [undefined, generation, 'none', old, (old + 1) as Generation] as const)
          await model.promote(generation, replaces);
        await expect(model.generations()).resolves.toEqual(
          ascending({ generation, active: true }, { generation: old, active: false }),
        );
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([7]);
      });

      it('lets one of many replace the same generation', async () => {
        const { model, log, generation } = await openActive();
        const other = await openFor(log);
        const heirs = await Promise.all(Array.from({ length: 6 }, () => model.createGeneration()));
        const outcomes = await Promise.allSettled(
          heirs.map((heir, index) => (index % 2 === 0 ? model : other).promote(heir, generation)),
        );
        const won = heirs.filter((_, index) => outcomes[index]?.status === 'fulfilled');
        const lost = outcomes.flatMap((outcome) =>
          outcome.status === 'rejected' ? [outcome.reason as Error] : [],
        );
        expect(lost.map(({ name }) => name)).toEqual(Array(5).fill('ActiveChanged'));
        const active = (await model.generations()).filter((each) => each.active);
        expect(active.map((each) => each.generation)).toEqual(won);
      });

      it('goes back to the generation before by one more switch', async () => {
        const { model, generation } = await openActive();
        const next = await model.createGeneration();
        await model.apply(next, between(0, 1, [put(1, ANNE, 2)]));
        await model.promote(next);
        await model.apply(generation, between(0, 1, [put(1, ANNE, 1)]));
        await model.promote(generation);
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([1]);
      });

      it('knows no generation that was never made', async () => {
        const { model, generation } = await openActive();
        const none = (generation + 1) as Generation;
        await expect(model.promote(none)).rejects.toThrow(GenerationMissing);
        await expect(model.anchors(none)).rejects.toThrow(GenerationMissing);
        await expect(model.apply(none, between(0, 1, [put(1, ANNE, 1)]))).rejects.toThrow(GenerationMissing);
        await expect(model.page(none, ANNE, undefined, 10)).rejects.toThrow(GenerationMissing);
        await expect(ownersOf(model, none)).rejects.toThrow(GenerationMissing);
        await expect(model.drop(none)).resolves.toBeUndefined();
        await expect(model.generations()).resolves.toEqual([{ generation, active: true }]);
      });

      it('drops a generation, and never gives its id again', async () => {
        const { model, generation } = await openActive();
        await model.apply(generation, between(0, 1, [put(1, ANNE, 1)]));
        const old = await model.createGeneration();
        const rows = Array.from({ length: 2_500 }, (_, index) => put(index + 1, ANNE, index));
        await model.apply(old, between(0, 2_500, rows));
        await model.drop(old);
        await model.drop(old);
        await expect(model.generations()).resolves.toEqual([{ generation, active: true }]);
        await expect(model.anchors(old)).rejects.toThrow(GenerationMissing);
        await expect(model.promote(old)).rejects.toThrow(GenerationMissing);
        await expect(model.page(old, ANNE, undefined, 10)).rejects.toThrow(GenerationMissing);
        await expect(ownersOf(model, old)).rejects.toThrow(GenerationMissing);
        await expect(model.apply(old, between(0, 1, [put(1, ANNE, 1)]))).rejects.toThrow(GenerationMissing);
        await expect(model.createGeneration()).resolves.not.toBe(old);
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([1]);
      });

      it('is gone as soon as its drop has begun', async () => {
        const { model, log } = await openActive();
        const other = await openFor(log);
        const old = await model.createGeneration();
        const rows = Array.from({ length: 20_000 }, (_, index) => put(index + 1, ANNE, index));
        await model.apply(old, between(0, 20_000, rows));
        // Wherever the drop stands, another instance sees all of the generation or none of it.
        const drop = { ended: false };
        const dropped = model.drop(old).then(() => (drop.ended = true));
        const seen: boolean[] = [];
        while (!drop.ended) {
          const listed = (await other.generations()).some(({ generation }) => generation === old);
          const whole = await other.anchors(old).then(
            (anchors) => anchors[ANNES]?.position === at(20_000),
            (error: unknown) => (error instanceof GenerationMissing ? undefined : error),
          );
          const first = await other.page(old, ANNE, undefined, 1).then(
            (page) => ids(page)[0],
            (error: unknown) => (error instanceof GenerationMissing ? undefined : error),
          );
          if (first !== undefined) expect(first).toBe(0);
          if (!listed) expect([whole, first]).toEqual([undefined, undefined]);
          if (whole !== undefined) expect(whole).toBe(true);
          seen.push(listed);
          await nextTurn();
        }
        await dropped;
        expect(seen).toEqual(seen.toSorted((a, b) => Number(b) - Number(a)));
      });

      it('is either dropped or promoted, never active in part', async () => {
        const { model, log } = await openActive();
        const other = await openFor(log);
        const rows = Array.from({ length: 3_000 }, (_, index) => put(index + 1, ANNE, index));
        for (const promoteFirst of [true, false]) {
          const next = await model.createGeneration();
          await model.apply(next, between(0, 3_000, rows));
          const promote = (): Promise<void> => other.promote(next);
          const drop = (): Promise<void> => model.drop(next);
          const [first, second] = promoteFirst ? [promote, drop] : [drop, promote];
          const outcomes = await Promise.allSettled([first(), second()]);
          const failures = outcomes.flatMap((outcome) =>
            outcome.status === 'rejected' ? [outcome.reason as Error] : [],
          );
          expect(failures).toHaveLength(1);
          if (failures[0] instanceof GenerationActive)
            expect((await model.list(ANNE, undefined, 5_000)).rows).toHaveLength(3_000);
          else expect(failures[0]).toBeInstanceOf(GenerationMissing);
        }
      });

      it('does not drop the active generation', async () => {
        const { model, generation } = await openActive();
        await model.apply(generation, between(0, 1, [put(1, ANNE, 7)]));
        await expect(model.drop(generation)).rejects.toThrow(GenerationActive);
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([7]);
      });

      it('switches all at once under readers', async () => {
        const { model, log, generation } = await openActive();
        const writer = await openFor(log);
        const rows = (count: number, row: string): RowChange[] =>
          Array.from({ length: count }, (_, index) => put(index + 1, ANNE, index, row));
        await model.apply(generation, advance(0, 60, rows(50, 'old')));
        const next = await model.createGeneration();
        await model.apply(next, advance(0, 60, rows(40, 'new')));
        const seen = new Set<string>();
        const switching = { ended: false };
        const switched = (async () => {
          for (let round = 0; round < 25 || seen.size < 2; round++) {
            await writer.promote(next);
            await writer.promote(generation);
          }
          switching.ended = true;
        })();
        while (!switching.ended) {
          const page = await model.list(ANNE, undefined, 100);
          seen.add(`${page.rows.length} ${[...new Set(page.rows.map(({ row }) => row))].join('+')}`);
          await nextTurn();
        }
        await switched;
        expect([...seen].toSorted()).toEqual(['40 new', '50 old']);
      });
    });

    describe('partitions', () => {
      it('puts an owner into the partition where it always was', () => {
        const known = { '': 5, anne: 7, bela: 63, 'user@example.com': 58, é: 27, '\ud800': 3, '🪴': 40 };
        expect(Object.fromEntries(Object.keys(known).map((owner) => [owner, partitionOf(owner)]))).toEqual(
          known,
        );
      });

      it('spreads owners evenly', () => {
        const counts = Array<number>(PARTITIONS).fill(0);
        for (let index = 0; index < 64_000; index++) {
          const partition = partitionOf(`owner-${index}`);
          counts[partition] = (counts[partition] ?? Number.NaN) + 1;
        }
        expect(Math.min(...counts)).toBeGreaterThan(800);
        expect(Math.max(...counts)).toBeLessThan(1_200);
      });
    });

    describe('lists', () => {
      it('gives no list before a generation is active', async () => {
        const model = await openNew();
        await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
        const generation = await model.createGeneration();
        await model.apply(generation, between(0, 1, [put(1, ANNE, 7)]));
        await expect(model.list(ANNE, undefined, 10)).rejects.toThrow(ReadModelIncomplete);
        await model.promote(generation);
        await expect(model.list(ANNE, undefined, 10)).resolves.toEqual({
          rows: [{ id: 7, row: '{"name":"7"}' }],
          more: false,
          ...anchor(1),
          generation,
        });
      });

      it('gives an owner without plants an empty list, with the position that it stands for', async () => {
        const { model, generation } = await openActive();
        await expect(model.list(ANNE, undefined, 10)).resolves.toEqual({
          rows: [],
          more: false,
          ...anchor(0),
          generation,
        });
        await model.apply(generation, advance(0, 3));
        await expect(model.list(ANNE, undefined, 10)).resolves.toEqual({
          rows: [],
          more: false,
          ...anchor(3),
          generation,
        });
      });

      it('reads rows and position together, whatever is applied meanwhile', async () => {
        const { model, log, generation } = await openActive();
        const writer = await openFor(log);
        await model.apply(generation, between(0, 1, [put(1, ANNE, 7, '1')]));
        const applying = { ended: false };
        const applied = (async () => {
          for (let n = 1; n < 1_000; n += 50)
            await Promise.all(
              Array.from({ length: 50 }, (_, index) =>
                writer.apply(
                  generation,
                  between(n + index, n + index + 1, [put(n + index + 1, ANNE, 7, `${n + index + 1}`)]),
                ),
              ),
            );
          applying.ended = true;
        })();
        while (!applying.ended) {
          for (let read = 0; read < 50; read++) {
            const { rows, position } = await model.list(ANNE, undefined, 1);
            if (position !== at(Number(rows[0]?.row))) expect(rows[0]?.row).toBe(position);
          }
          await nextTurn();
        }
        await applied;
        await expect(model.list(ANNE, undefined, 1)).resolves.toMatchObject({ position: at(1_001) });
      });

      it('orders by id as a number, to both ends of the safe integers', async () => {
        const { model, generation } = await openActive();
        const ascending = [
          Number.MIN_SAFE_INTEGER,
          Number.MIN_SAFE_INTEGER + 1,
          -1_000_000_000_000,
          -10,
          -9,
          -1,
          0,
          1,
          2,
          10,
          2_147_483_648,
          4_294_967_296,
          Number.MAX_SAFE_INTEGER - 1,
          Number.MAX_SAFE_INTEGER,
        ];
        const shuffled = ascending.toSorted((a, b) => String(a).localeCompare(String(b)));
        const changes = shuffled.map((id, index) => put(index + 1, ANNE, id));
        await model.apply(generation, between(0, changes.length, changes));
        expect(ids(await model.list(ANNE, undefined, 100))).toEqual(ascending);
        for (const [index, after] of ascending.entries())
          expect(ids(await model.list(ANNE, after, 100))).toEqual(ascending.slice(index + 1));
        await model.apply(
          generation,
          between(changes.length, 99, [
            remove(98, ANNE, Number.MAX_SAFE_INTEGER),
            remove(99, ANNE, Number.MIN_SAFE_INTEGER),
          ]),
        );
        expect(ids(await model.list(ANNE, undefined, 100))).toEqual(ascending.slice(1, -1));
      });

      it('gives long lists in bytes, as short ones in rows', async () => {
        const { model, generation } = await openActive();
        await expect((await openNew()).longList(ANNE, undefined, 500)).rejects.toThrow(ReadModelIncomplete);
        const none = await model.longList(ANNE, undefined, 500);
        expect([String(none.body), none.lastId, none.more]).toEqual(['[]', undefined, false]);
        const all = Array.from({ length: 301 }, (_, index) => (index - 150) * 3);
        const changes = all.map((id, index) => put(index + 1, ANNE, id, `{"name":"${id} 🌵"}`));
        await model.apply(generation, between(0, 301, changes));
        for (const [after, limit] of [
          [undefined, 1],
          [undefined, 100],
          [undefined, 101],
          [-4, 200],
          [undefined, 300],
          [undefined, 301],
          [undefined, 1_000],
          [450, 1_000],
        ] as const) {
          const { rows, more } = await model.list(ANNE, after, limit);
          for (let time = 1; time <= 2; time += 1)
            expect(await model.longList(ANNE, after, limit)).toEqual({
              body: Buffer.from(`[${rows.map(({ row }) => row).join(',')}]`),
              lastId: rows.at(-1)?.id,
              more,
              ...anchor(301),
              generation,
            });
        }
        await model.apply(generation, between(301, 302, [remove(302, ANNE, -450)]));
        await expect(model.longList(ANNE, undefined, 1_000)).resolves.toMatchObject({
          body: Buffer.from(
            `[${all
              .slice(1)
              .map((id) => `{"name":"${id} 🌵"}`)
              .join(',')}]`,
          ),
          ...anchor(302),
          generation,
        });
      });

      it('gives long lists of one state, whatever is applied meanwhile', async () => {
        const { model, log, generation } = await openActive();
        const writer = await openFor(log);
        const IDS = Array.from({ length: 250 }, (_, id) => id);
        const all = (n: number): PartitionChanges[] =>
          between(
            n - 1,
            n,
            IDS.map((id) => put(n, ANNE, id, `"${at(n)}"`)),
          );
        await writer.apply(generation, all(1));
        const applying = { ended: false };
        const applied = (async () => {
          for (let n = 2; n <= 40; n += 1) await writer.apply(generation, all(n));
        })().finally(() => (applying.ended = true));
        while (!applying.ended) {
          const lists = await Promise.all([200, 250].map((limit) => model.longList(ANNE, undefined, limit)));
          for (const { body, position } of lists)
            expect([...new Set(JSON.parse(String(body)) as string[])]).toEqual([position]);
          // Lists that are kept are given without a turn of the event loop: the answers to `apply` need one.
          await nextTurn();
        }
        await applied;
      });

      it('gives hundreds of plants page by page', async () => {
        const { model, generation } = await openActive();
        const all = Array.from({ length: 700 }, (_, index) => (index - 350) * 3);
        const changes = all.map((id, index) => put(index + 1, ANNE, id));
        await model.apply(generation, between(0, 700, changes));
        for (const limit of [7, 99, 100, 350, 699, 700, 701]) {
          const pages: number[][] = [];
          let after: number | undefined;
          for (;;) {
            const page = await model.list(ANNE, after, limit);
            pages.push(ids(page));
            if (!page.more) break;
            expect(page.rows).toHaveLength(limit);
            after = page.rows.at(-1)?.id;
          }
          expect(pages.flat()).toEqual(all);
          expect(pages).toHaveLength(Math.ceil(700 / limit));
        }
        // A cursor stays good when the plant that it names is gone, or never was.
        expect(ids(await model.list(ANNE, 1, 1))).toEqual([3]);
        await expect(model.list(ANNE, 1047, 1)).resolves.toMatchObject({ rows: [], more: false });
        await expect(model.list(ANNE, 1044, 1)).resolves.toMatchObject({ rows: [{ id: 1047 }], more: false });
        await expect(model.list(ANNE, 1041, 1)).resolves.toMatchObject({ rows: [{ id: 1044 }], more: true });
      });

      it('gives rows byte for byte', async () => {
        const { model, generation } = await openActive();
        const texts = [
          JSON.stringify({ name: "Epipremnum aureum 'Marble Queen'", tag: 'aroid' }),
          JSON.stringify({ name: 'Spathiphyllum “Sensation”', tag: '"quoted" \\ back\\slash' }),
          JSON.stringify({ name: '龟背竹', tag: '观叶植物' }),
          JSON.stringify({ name: 'Монстера деликатесная', tag: 'ароидные' }),
          JSON.stringify({ name: 'صبار', tag: 'نباتات' }),
          JSON.stringify({ name: 'गेंदा', tag: 'ดาวเรือง' }),
          JSON.stringify({ name: '🪴👩🏽‍🌾', tag: '🌵' }),
          JSON.stringify({ name: 'e\u0301 is not \u00e9', tag: '' }),
          JSON.stringify({ name: '\ud800 alone', tag: '\u2028\u0000' }),
          '{ "tag" : 1e2,\n\t"name":null }',
          ' ',
          '',
          '12345678901234567890.0',
        ];
        const changes = texts.map((row, id) => put(id + 1, ANNE, id, row));
        await model.apply(generation, between(0, texts.length, changes));
        const page = await model.list(ANNE, undefined, 100);
        expect(page.rows.map(({ row }) => row)).toEqual(texts);
        expect(page.rows.map(({ row }) => Buffer.from(row).toString('hex'))).toEqual(
          texts.map((text) => Buffer.from(text).toString('hex')),
        );
      });

      it('gives a list that was asked for before as it is now, after a change and after a switch', async () => {
        const { model, generation } = await openActive();
        const list = async (): Promise<[number[], Position]> => {
          const page = await model.list(ANNE, undefined, 10);
          return [ids(page), page.position];
        };
        await model.apply(generation, between(0, 1, [put(1, ANNE, 1)]));
        expect([await list(), await list()]).toEqual([
          [[1], at(1)],
          [[1], at(1)],
        ]);
        await model.apply(generation, between(1, 3, [put(2, ANNE, 2), remove(3, ANNE, 1)]));
        expect(await list()).toEqual([[2], at(3)]);
        expect((await model.list(ANNE, 1, 10)).rows).toHaveLength(1);
        expect((await model.list(ANNE, 2, 10)).rows).toHaveLength(0);
        // As far as the first, with other rows: an event that was skipped is not skipped any more.
        const other = await model.createGeneration();
        await model.apply(other, between(0, 3, [put(1, ANNE, 1)]));
        await model.promote(other, generation);
        expect(await list()).toEqual([[1], at(3)]);
        await model.promote(generation, other);
        expect(await list()).toEqual([[2], at(3)]);
      });

      it('keeps every owner apart from every other', async () => {
        const { model, generation } = await openActive();
        const owners = [
          ...['a', 'A', 'é', 'e\u0301', '\ud800', '\udfff', '\ufffd', '\ud83c\udf35', '\udf35\ud83c'],
          ...['a/b', 'a', 'a%2Fb', '%', '%%', '%25', ':', '{', '}', '{a}', '{}', 'a:b', '*', '?', '[a]', "'"],
          ...[
            ' ',
            '  ',
            '0',
            '-1',
            'x'.repeat(5_000),
            `${'x'.repeat(5_000)}y`,
            '🪴'.repeat(400),
            '\u0000',
            '_',
          ],
        ].filter((owner, index, all) => all.indexOf(owner) === index);
        const changes = owners.map((owner, index) => put(index + 1, owner, 1, JSON.stringify(index)));
        await model.apply(generation, between(0, owners.length, changes));
        for (const [index, owner] of owners.entries()) {
          const page = await model.list(owner, undefined, 10);
          expect(page.rows.map(({ row }) => row)).toEqual([JSON.stringify(index)]);
        }
        await expect(model.list('nobody', undefined, 10)).resolves.toMatchObject({ rows: [], more: false });
        await expect(model.list('', undefined, 10)).resolves.toMatchObject({ rows: [], more: false });
      });
    });

    describe('pages of a generation', () => {
      it('are those of its rows, whether it is active or not', async () => {
        const { model, generation } = await openActive();
        const next = await model.createGeneration();
        await model.apply(generation, between(0, 2, [put(1, ANNE, 7, 'now'), put(2, ANNE, 8, 'now')]));
        await model.apply(
          next,
          between(
            0,
            3,
            [1, -2, 3].map((id, index) => put(index + 1, ANNE, id, 'next')),
            [BELAS],
          ),
        );
        await expect(model.page(generation, ANNE, undefined, 10)).resolves.toEqual(
          await model.list(ANNE, undefined, 10),
        );
        await expect(model.page(next, ANNE, undefined, 2)).resolves.toEqual({
          rows: [
            { id: -2, row: 'next' },
            { id: 1, row: 'next' },
          ],
          more: true,
          ...anchor(3),
          generation: next,
        });
        await expect(model.page(next, ANNE, 1, 2)).resolves.toEqual({
          rows: [{ id: 3, row: 'next' }],
          more: false,
          ...anchor(3),
          generation: next,
        });
        await expect(model.page(next, BELA, undefined, 2)).resolves.toEqual({
          rows: [],
          more: false,
          ...anchor(3),
          generation: next,
        });
      });

      it('are of the log’s own generations', async () => {
        const { generation } = await openActive();
        const other = await openNew();
        await expect(other.page(generation, ANNE, undefined, 10)).rejects.toThrow(GenerationMissing);
      });
    });

    describe('owners', () => {
      /** More than any adapter reads in one step, in every partition. */
      const MANY = Array.from({ length: 2_000 }, (_, index) => `owner ${index}`);

      const changesOf = (owners: readonly string[]): RowChange[] =>
        owners.map((owner, index) => put(index + 1, owner, index));

      it('are those who have plants, by their names', async () => {
        const { model, generation } = await openActive();
        await expect(ownersOf(model, generation)).resolves.toEqual([]);
        const odd = ['', 'é', '\ud800', '🪴', 'a/b', '%', '*', 'g1:owner:anne', '{a}', 'x'.repeat(3_000)];
        const changes = changesOf([ANNE, BELA, ...odd]);
        const end = changes.length;
        await model.apply(
          generation,
          between(0, end + 3, [
            ...changes,
            put(end + 1, ANNE, -1),
            put(end + 2, 'gone', 1),
            remove(end + 3, 'gone', 1),
          ]),
        );
        const next = await model.createGeneration();
        await model.apply(next, between(0, 1, [put(1, 'next', 1)]));
        await expect(ownersOf(model, generation)).resolves.toEqual([ANNE, BELA, ...odd].sort());
        await expect(ownersOf(model, next)).resolves.toEqual(['next']);
      });

      it('are all there, though others come and go meanwhile', async () => {
        const { model, log, generation } = await openActive();
        const writer = await openFor(log);
        await model.apply(generation, advance(0, 2_000, changesOf(MANY)));
        const reading = { ended: false };
        const applied = (async () => {
          for (let n = 2_000; !reading.ended; n += 200) {
            const guests = Array.from({ length: 100 }, (_, index) => `guest ${n} ${index}`);
            const come = guests.map((owner, index) => put(n + index + 1, owner, 1));
            const go = guests.map((owner, index) => remove(n + index + 101, owner, 1));
            await writer.apply(generation, between(2_000, n + 100, come));
            await writer.apply(generation, between(2_000, n + 200, go));
            await nextTurn(); // a store in this process answers without one
          }
        })();
        const rounds: string[][] = [];
        try {
          for (let round = 0; round < 3; round++) rounds.push(await ownersOf(model, generation));
        } finally {
          reading.ended = true;
          await applied;
        }
        const sorted = MANY.toSorted();
        for (const owners of rounds)
          expect(owners.filter((owner) => owner.startsWith('owner '))).toEqual(sorted);
      });

      it('come in steps, between which others have their turn', async () => {
        const { model, generation } = await openActive();
        await model.apply(generation, advance(0, 2_000, changesOf(MANY)));
        const reading = { ended: false };
        const turns = (async () => {
          let count = 0;
          for (; !reading.ended; count++) await nextTurn();
          return count;
        })();
        const owners = await ownersOf(model, generation).finally(() => (reading.ended = true));
        expect(owners).toHaveLength(2_000);
        expect(await turns).toBeGreaterThanOrEqual(4);
      });

      it('end with an error, not early, when the generation is dropped or the read model closed', async () => {
        const { model, log, generation } = await openActive();
        const other = await openFor(log);
        const old = await model.createGeneration();
        await model.apply(old, advance(0, 2_000, changesOf(MANY)));
        await model.apply(generation, advance(0, 2_000, changesOf(MANY)));
        const rest = async (owners: AsyncIterator<string>): Promise<number> => {
          let count = 0;
          while (!(await owners.next()).done) count++;
          return count;
        };
        const ofOld = model.owners(old)[Symbol.asyncIterator]();
        const ofActive = model.owners(generation)[Symbol.asyncIterator]();
        await Promise.all([ofOld.next(), ofActive.next()]);
        await other.drop(old);
        await expect(rest(ofOld)).rejects.toThrow(GenerationMissing);
        await model.close();
        await expect(rest(ofActive)).rejects.toThrow(ReadModelUnavailable);
      });
    });

    describe('apply', () => {
      it('moves the partitions that it names, and no other', async () => {
        const { model, generation } = await openActive();
        await expect(
          model.apply(generation, between(0, 4, [put(2, ANNE, 1), put(3, BELA, 1)])),
        ).resolves.toEqual([at(4), at(4)]);
        const positions = await positionsOf(model, generation);
        expect(positions.flatMap((position, partition) => (position === START ? [] : [partition]))).toEqual(
          [ANNES, BELAS].toSorted((a, b) => a - b),
        );
      });

      const begun = [put(1, ANNE, 1, 'first'), remove(2, ANNE, 1)];
      const first = between(0, 2, begun);

      it.each<[string, batches: PartitionChanges[][], rows: string, upTo: number]>([
        [
          'takes the changes of a row in order',
          [between(0, 5, [...begun, put(3, ANNE, 1, 'second'), put(4, ANNE, 3, 'goes'), remove(5, ANNE, 3)])],
          '1 second',
          5,
        ],
        [
          'refuses a gap, and changes nothing',
          [between(0, 2, [put(2, ANNE, 1, 'stays')]), between(3, 5, [put(4, ANNE, 2), remove(5, ANNE, 1)])],
          '1 stays',
          2,
        ],
        [
          'changes nothing the second time',
          [first, between(2, 4, [put(3, ANNE, 1, 'new'), put(4, ANNE, 2, 'other')]), first],
          '1 new, 2 other',
          4,
        ],
        [
          'applies of a batch that overlaps only what is new',
          [first, between(0, 3, [...begun, put(3, ANNE, 2, 'third')])],
          '2 third',
          3,
        ],
      ])('%s', async (_what, batches, rows, upTo) => {
        const { model, generation } = await openActive();
        let reached: Position[] = [];
        for (const batch of batches) reached = await model.apply(generation, batch);
        expect(reached).toEqual([at(upTo)]);
        const page = await model.list(ANNE, undefined, 10);
        expect(page).toMatchObject({ more: false, ...anchor(upTo), generation });
        expect(page.rows.map(({ id, row }) => `${id} ${row}`).join(', ')).toBe(rows);
      });

      it('applies the other partitions of a call that refuses one', async () => {
        const { model, generation } = await openActive();
        await model.apply(generation, between(0, 2, [put(2, ANNE, 1)]));
        const both = between(2, 5, [put(3, BELA, 1), put(4, ANNE, 2)]);
        await expect(model.apply(generation, both)).resolves.toEqual([START, at(5)]);
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([1, 2]);
        expect(ids(await model.list(BELA, undefined, 10))).toEqual([]);
      });

      it('advances idle partitions, and never back', async () => {
        const { model, generation } = await openActive();
        await expect(model.apply(generation, advance(0, 8))).resolves.toEqual(Array(PARTITIONS).fill(at(8)));
        await expect(model.apply(generation, advance(0, 3))).resolves.toEqual(Array(PARTITIONS).fill(at(8)));
        await expect(positionsOf(model, generation)).resolves.toEqual(Array(PARTITIONS).fill(at(8)));
        await expect(model.apply(generation, [])).resolves.toEqual([]);
      });

      it('keeps generations apart', async () => {
        const { model, generation } = await openActive();
        const next = await model.createGeneration();
        await model.apply(next, between(0, 1, [put(1, ANNE, 1, 'next')]));
        await expect(model.list(ANNE, undefined, 10)).resolves.toEqual({
          rows: [],
          more: false,
          ...anchor(0),
          generation,
        });
        await model.apply(generation, between(0, 2, [put(1, ANNE, 1, 'now'), remove(2, ANNE, 1)]));
        await model.apply(next, between(1, 2, [put(2, ANNE, 2, 'next')]));
        await model.promote(next);
        await expect(model.list(ANNE, undefined, 10)).resolves.toMatchObject({
          rows: [
            { id: 1, row: 'next' },
            { id: 2, row: 'next' },
          ],
        });
      });

      it('ends as the fold of the log, whatever two projectors deliver', async () => {
        const owners = [ANNE, BELA, 'c', 'd/e'];
        const log = fc.array(
          fc.record({
            owner: fc.constantFrom(...owners),
            id: fc.integer({ min: -2, max: 2 }),
            row: fc.option(fc.string({ unit: 'grapheme', maxLength: 8 }), { nil: undefined }),
          }),
          { minLength: 1, maxLength: 40 },
        );
        // A projector jumps back (it delivers again) or ahead (it leaves a gap), then delivers a batch.
        const deliveries = fc.array(
          fc.record({
            projector: fc.integer({ min: 0, max: 1 }),
            jump: fc.oneof(
              { weight: 3, arbitrary: fc.constant(0) },
              { weight: 1, arbitrary: fc.integer({ min: -20, max: 8 }) },
            ),
            size: fc.integer({ min: 0, max: 15 }),
            idle: fc.boolean(),
          }),
          { minLength: 1, maxLength: 16 },
        );
        await fc.assert(
          fc.asyncProperty(log, deliveries, async (events, steps) => {
            const model = await openNew();
            const generation = await model.createGeneration();
            await model.promote(generation);
            const changes = events.map((event, index) => ({ ...event, position: at(index + 1) }));
            const fold = (owner: string, upTo: Position): { id: number; row: string }[] => {
              const rows = new Map<number, string>();
              for (const { id, row, position, owner: whose } of changes)
                if (whose === owner && position <= upTo)
                  if (row === undefined) rows.delete(id);
                  else rows.set(id, row);
              return [...rows].map(([id, row]) => ({ id, row })).sort((a, b) => a.id - b.id);
            };
            const stand = Array<Position>(PARTITIONS).fill(START);
            const projectors = [0, 0];
            for (const { projector, jump, size, idle } of steps) {
              const here = projectors[projector] ?? 0;
              const from = Math.max(0, Math.min(events.length, here + jump));
              const upTo = Math.min(events.length, from + size);
              projectors[projector] = upTo;
              const batch = idle
                ? advance(from, upTo, changes.slice(from, upTo))
                : between(from, upTo, changes.slice(from, upTo));
              for (const { partition } of batch) {
                const stands = stand[partition] ?? START;
                if (stands >= at(from) && stands < at(upTo)) stand[partition] = at(upTo);
              }
              await expect(model.apply(generation, batch)).resolves.toEqual(
                batch.map(({ partition }) => stand[partition]),
              );
            }
            await expect(positionsOf(model, generation)).resolves.toEqual(stand);
            for (const owner of owners) {
              const position = stand[partitionOf(owner)] ?? START;
              await expect(model.list(owner, undefined, 100)).resolves.toEqual({
                rows: fold(owner, position),
                more: false,
                ...anchor(Number(position)),
                generation,
              });
            }
            await Promise.all(opened.splice(0).map((each) => each.close()));
          }),
          { numRuns: 60 },
        );
      });

      it('ends as the fold of the log when two instances apply at the same time', async () => {
        const { model, log, generation } = await openActive();
        const other = await openFor(log);
        const events = Array.from({ length: 400 }, (_, index) =>
          index % 7 === 3
            ? remove(index + 1, index % 2 ? ANNE : BELA, (index * 5) % 11)
            : put(index + 1, index % 2 ? ANNE : BELA, (index * 5) % 11, `${index}`),
        );
        const project = async (instance: ReadModelStore, size: number): Promise<void> => {
          for (let from = 0; from < events.length; from += size) {
            const upTo = Math.min(events.length, from + size);
            await instance.apply(generation, between(from, upTo, events.slice(from, upTo), [ANNES, BELAS]));
          }
        };
        await Promise.all([project(model, 7), project(other, 11)]);
        for (const owner of [ANNE, BELA]) {
          const rows = new Map<number, string>();
          for (const { id, row } of events.filter((event) => event.owner === owner))
            if (row === undefined) rows.delete(id);
            else rows.set(id, row);
          await expect(other.list(owner, undefined, 100)).resolves.toEqual({
            rows: [...rows].map(([id, row]) => ({ id, row })).sort((a, b) => a.id - b.id),
            more: false,
            ...anchor(400),
            generation,
          });
        }
      });
    });

    describe('reached', () => {
      /** True if a promise has settled, without waiting for it. */
      const settled = async (promise: Promise<unknown>): Promise<boolean> => {
        await nextTurn();
        const pending = Symbol('pending');
        return (await Promise.race([promise.catch(() => undefined), Promise.resolve(pending)])) !== pending;
      };

      it('resolves at once for what the partition has reached', async () => {
        const { model, generation } = await openActive();
        await model.reached(ANNES, START, never());
        await model.apply(generation, between(0, 2, [put(2, ANNE, 1)]));
        await model.reached(ANNES, at(1), never());
        await model.reached(ANNES, at(2), never());
      });

      it('resolves once this instance applies it, and not before', async () => {
        const { model, generation } = await openActive();
        const waiting = model.reached(ANNES, at(5), never());
        await model.apply(generation, between(0, 4, [put(4, ANNE, 1)]));
        await model.apply(generation, between(0, 9, [put(5, BELA, 1)]));
        await expect(settled(waiting)).resolves.toBe(false);
        await model.apply(generation, between(4, 5, [put(5, ANNE, 1)]));
        await waiting;
      });

      it('resolves once another instance applies it', async () => {
        const { model, log, generation } = await openActive();
        const other = await openFor(log);
        const waiting = model.reached(ANNES, at(5), never());
        await expect(settled(waiting)).resolves.toBe(false);
        await other.apply(generation, between(0, 5, [put(5, ANNE, 1)]));
        await waiting;
        expect(ids(await model.list(ANNE, undefined, 10))).toEqual([1]);
      });

      it('waits for the active generation, not for another', async () => {
        const { model, generation } = await openActive();
        const next = await model.createGeneration();
        const waiting = model.reached(ANNES, at(5), never());
        await model.apply(next, advance(0, 5, [put(5, ANNE, 1)]));
        await model.apply(generation, between(0, 4, [put(4, ANNE, 1)]));
        await expect(settled(waiting)).resolves.toBe(false);
        await model.promote(next);
        await waiting;
      });

      it('waits for a generation to be active, even from the start', async () => {
        const model = await openNew();
        const waiting = model.reached(ANNES, START, never());
        const generation = await model.createGeneration();
        await expect(settled(waiting)).resolves.toBe(false);
        await model.promote(generation);
        await waiting;
      });

      it('rejects with the reason of the signal', async () => {
        const { model, generation } = await openActive();
        const reason = new Error('long enough');
        await expect(model.reached(ANNES, at(5), AbortSignal.abort(reason))).rejects.toBe(reason);
        const abort = new AbortController();
        const impatient = model.reached(ANNES, at(5), abort.signal);
        const patient = model.reached(ANNES, at(5), never());
        abort.abort(reason);
        await expect(impatient).rejects.toBe(reason);
        await model.apply(generation, between(0, 5, [put(5, ANNE, 1)]));
        await patient;
      });

      it('lets hundreds go at once', async () => {
        const { model, generation } = await openActive();
        const waiting = Array.from({ length: 500 }, (_, index) =>
          model.reached(index % PARTITIONS, at(1 + (index % 5)), never()),
        );
        await model.apply(generation, advance(0, 5));
        await Promise.all(waiting);
      });
    });

    describe('the lease', () => {
      /** Longer than any of these tests takes. */
      const LONG = 60_000;

      it('is held by one, who may keep it, until he returns it', async () => {
        const log = randomUUID();
        const [model, other] = [await openFor(log), await openFor(log)];
        expect(await model.takeLease('one', LONG)).toBe(true);
        expect(await other.takeLease('two', LONG)).toBe(false);
        expect(await model.takeLease('one', LONG)).toBe(true);
        expect(await other.takeLease('two', LONG)).toBe(false);
        await model.returnLease('one');
        expect(await other.takeLease('two', LONG)).toBe(true);
        expect(await model.takeLease('one', LONG)).toBe(false);
      });

      it('is not returned by anybody else', async () => {
        const model = await openNew();
        await model.returnLease('nobody');
        expect(await model.takeLease('one', LONG)).toBe(true);
        await model.returnLease('two');
        expect(await model.takeLease('two', LONG)).toBe(false);
      });

      it('runs out, but not before its time, which begins again whenever it is kept', async () => {
        const model = await openNew();
        const began = performance.now();
        await model.takeLease('one', 100);
        await model.takeLease('one', 300);
        while (!(await model.takeLease('two', LONG))) await nextTurn();
        // The clocks of two programs, each rounded to a millisecond.
        expect(performance.now() - began).toBeGreaterThan(298);
        expect(await model.takeLease('one', LONG)).toBe(false);
      });

      it('is another one for each log', async () => {
        const [model, other] = [await openNew(), await openNew()];
        expect(await model.takeLease('one', LONG)).toBe(true);
        expect(await other.takeLease('two', LONG)).toBe(true);
      });

      it('goes to one of many who ask at once', async () => {
        const log = randomUUID();
        const models = await Promise.all(Array.from({ length: 4 }, () => openFor(log)));
        const taken = await Promise.all(
          models.flatMap((model, number) =>
            [1, 2, 3, 4, 5].map((asker) => model.takeLease(`asker ${number} ${asker}`, LONG)),
          ),
        );
        expect(taken.filter(Boolean)).toHaveLength(1);
      });
    });

    describe('reports', () => {
      /** Longer than any of these tests takes. */
      const LONG = 60_000;

      it('are what every process told last, in order', async () => {
        const log = randomUUID();
        const [model, other] = [await openFor(log), await openFor(log)];
        await expect(model.reports()).resolves.toEqual([]);
        const text = JSON.stringify({ state: 'following: "Живой" 🪴\n', lag: 1.5, more: 'x'.repeat(4_000) });
        // Not in the order of UTF-8.
        await model.report('\uff5e', '{}', LONG);
        await model.report('🪴', '{}', LONG);
        await model.report('api:1', 'first', LONG);
        await other.report('api', text, LONG);
        await other.report('api:1', '', LONG);
        const reports = [
          { process: 'api', text },
          { process: 'api:1', text: '' },
          { process: '🪴', text: '{}' },
          { process: '\uff5e', text: '{}' },
        ];
        await expect(model.reports()).resolves.toEqual(reports);
        await expect(other.reports()).resolves.toEqual(reports);
        await expect((await openNew()).reports()).resolves.toEqual([]);
      });

      it('are gone when their time has run out, but not before, which begins again with each', async () => {
        const model = await openNew();
        const began = performance.now();
        await model.report('stays', 'a', LONG);
        await model.report('goes', 'b', 100);
        await model.report('goes', 'c', 300);
        while ((await model.reports()).length > 1) await nextTurn();
        // The clocks of two programs, each rounded to a millisecond.
        expect(performance.now() - began).toBeGreaterThan(298);
        await expect(model.reports()).resolves.toEqual([{ process: 'stays', text: 'a' }]);
        await model.report('goes', 'd', LONG);
        await expect(model.reports()).resolves.toEqual([
          { process: 'goes', text: 'd' },
          { process: 'stays', text: 'a' },
        ]);
      });
    });

    describe('close', () => {
      it('finishes what was handed over, rejects who waits, and refuses what comes later', async () => {
        const { model, log, generation } = await openActive();
        const applied = model.apply(generation, between(0, 1, [put(1, ANNE, 1)]));
        const waiting = expect(model.reached(ANNES, at(9), never())).rejects.toThrow(ReadModelUnavailable);
        await nextTurn();
        const closing = model.close();
        await Promise.all([closing, waiting, model.close()]);
        await expect(applied).resolves.toEqual([at(1)]);
        await model.close();
        const later = await Promise.allSettled([
          model.generations(),
          model.createGeneration(),
          model.promote(generation),
          model.drop(generation),
          model.anchors(generation),
          model.apply(generation, []),
          model.list(ANNE, undefined, 10),
          model.reached(ANNES, START, never()),
          model.takeLease('one', 1_000),
          model.returnLease('one'),
          model.page(generation, ANNE, undefined, 10),
          ownersOf(model, generation),
          model.report('one', '{}', 1_000),
          model.reports(),
        ]);
        for (const call of later)
          expect(call).toMatchObject({ status: 'rejected', reason: { name: 'ReadModelUnavailable' } });
        const again = await openFor(log);
        expect(ids(await again.list(ANNE, undefined, 10))).toEqual([1]);
      });
    });
  });
};
