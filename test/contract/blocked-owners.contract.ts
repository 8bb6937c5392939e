import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import { plantStream } from '../../src/domain/stream.js';
import { type Position, START } from '../../src/log/event-log.js';
import {
  type CatchUp,
  type Generation,
  GenerationMissing,
  OwnerBlocked,
  type BlockedOwner,
  PARTITIONS,
  type PartitionChanges,
  partitionOf,
  type RowChange,
} from '../../src/lists/read-model.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';

const OWNER = 'anne (the first)';

/** The n-th place in an imagined log; the 0-th is before its first event. */
const at = (n: number): Position => (n === 0 ? START : (String(n).padStart(20, '0') as Position));

const put = (n: number, id: number, owner = OWNER): RowChange => ({
  position: at(n),
  owner,
  id,
  row: `{"name":"${n}"}`,
});

/** The n-th event of the log cannot be read. */
const refusal = (n: number, owner = OWNER, applied = n - 1): BlockedOwner => ({
  owner,
  position: at(n),
  stream: plantStream(owner, 9),
  revision: n,
  kind: 'unknown_type',
  reason: 'unknown type "Plant|Watered"',
  applied: at(applied),
});

const batch = (
  from: number,
  upTo: number,
  changes: readonly RowChange[],
  refused: readonly BlockedOwner[] = [],
  partition = partitionOf(OWNER),
): PartitionChanges => ({
  partition,
  from: at(from),
  upTo: { position: at(upTo), event: `event-${upTo}` },
  changes,
  refused,
});

const catchUp = (
  blockedAt: number,
  upTo: number,
  changes: readonly RowChange[],
  next?: BlockedOwner,
): CatchUp => ({ owner: OWNER, blockedAt: at(blockedAt), upTo: at(upTo), changes, next });

/** Another owner of the same partition. */
const neighbourOf = (owner: string): string => {
  for (let n = 0; ; n++) if (partitionOf(`neighbour ${n}`) === partitionOf(owner)) return `neighbour ${n}`;
};
const NEIGHBOUR = neighbourOf(OWNER);

/** The part of the read models' contract that is about blocked owners; `open` as in readModelContract. */
export const blockedOwnersContract = (
  name: string,
  open: (logIdentity: string) => Promise<ReadModelStore>,
): void => {
  describe(`read model: ${name}: a blocked owner`, () => {
    const opened: ReadModelStore[] = [];
    let log: string;
    let model: ReadModelStore;
    let generation: Generation;

    const openAgain = async (): Promise<ReadModelStore> => {
      const again = await open(log);
      opened.push(again);
      return again;
    };

    const start = async (): Promise<void> => {
      log = randomUUID();
      model = await openAgain();
      generation = await model.createGeneration();
      await model.promote(generation);
    };

    afterEach(() => Promise.all(opened.splice(0).map((each) => each.close())));

    const namesOf = async (owner: string, of = model): Promise<string[]> =>
      (await of.list(owner, undefined, 100)).rows.map(
        ({ id, row }) => `${id}:${(JSON.parse(row) as { name: string }).name}`,
      );

    const rowsOf = async (owner = OWNER): Promise<string[]> =>
      (await model.page(generation, owner, undefined, 100)).rows.map(
        ({ id, row }) => `${id}:${(JSON.parse(row) as { name: string }).name}`,
      );

    const blockedOf = async (of = model, which = generation): Promise<BlockedOwner[]> => {
      const found: BlockedOwner[] = [];
      for await (const each of of.blocked(which)) found.push(each);
      expect(await of.countBlocked(which)).toBe(found.length);
      return found;
    };

    const blockedAt = async (n: number, of = model): Promise<void> => {
      const error = await of.list(OWNER, undefined, 100).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(OwnerBlocked);
      expect((error as OwnerBlocked).blocked.position).toBe(at(n));
      await expect(of.longList(OWNER, undefined, 101)).rejects.toThrow(OwnerBlocked);
    };

    it('has no list from the refused event on, while the others of the partition have theirs', async () => {
      await start();
      expect(await blockedOf()).toEqual([]);
      const changes = [put(1, 1), put(2, 5, NEIGHBOUR), put(4, 2), put(5, 6, NEIGHBOUR)];
      expect(await model.apply(generation, [batch(0, 5, changes, [refusal(3)])])).toEqual([at(5)]);
      await blockedAt(3);
      expect(await namesOf(NEIGHBOUR)).toEqual(['5:2', '6:5']);
      expect(await blockedOf()).toEqual([refusal(3)]);
      expect(await rowsOf()).toEqual(['1:1']);
      expect(await model.page(generation, OWNER, undefined, 1)).toMatchObject({
        position: at(5),
        blocked: refusal(3),
      });
    });

    it('is known as such to other instances and to ones that open later, and to a list that was kept', async () => {
      await start();
      const other = await openAgain();
      await model.apply(generation, [batch(0, 1, [put(1, 1)])]);
      for (const each of [model, other, model, other]) expect(await namesOf(OWNER, each)).toEqual(['1:1']);
      await model.apply(generation, [batch(1, 2, [], [refusal(2)])]);
      for (const each of [model, other, await openAgain()]) {
        await blockedAt(2, each);
        expect(await blockedOf(each)).toEqual([refusal(2)]);
      }
    });

    it('gets nothing of later batches, however often and by however many they are applied', async () => {
      await start();
      const batches = [
        batch(0, 3, [put(1, 1), put(3, 2)], [refusal(2)]),
        batch(3, 5, [put(4, 1), put(5, 3, NEIGHBOUR)]),
        batch(5, 6, [], [refusal(6)]),
        batch(1, 6, [put(3, 2), put(4, 1), put(5, 3, NEIGHBOUR)], [refusal(2), refusal(6)]),
      ];
      for (const each of [...batches, ...batches]) await model.apply(generation, [each]);
      await blockedAt(2);
      expect(await rowsOf()).toEqual(['1:1']);
      expect(await namesOf(NEIGHBOUR)).toEqual(['3:5']);
      expect(await blockedOf()).toEqual([refusal(2)]);
    });

    it('keeps what a plant was before the event, where the same batch changes it after that', async () => {
      await start();
      await model.apply(generation, [batch(0, 4, [put(1, 1), put(3, 1)], [refusal(2), refusal(4)])]);
      expect(await rowsOf()).toEqual(['1:1']);
    });

    it('is refused with its batch where the partition has lost data', async () => {
      await start();
      expect(await model.apply(generation, [batch(2, 3, [], [refusal(3)])])).toEqual([START]);
      expect(await blockedOf()).toEqual([]);
    });

    it('is brought up to date by what was left out, at once, and then goes on', async () => {
      await start();
      await model.apply(generation, [batch(0, 4, [put(1, 1), put(3, 2)], [refusal(2)])]);
      expect(await model.catchUp(generation, catchUp(2, 4, [put(2, 9), put(3, 2)]))).toBe(true);
      expect(await namesOf(OWNER)).toEqual(['1:1', '2:3', '9:2']);
      expect(await blockedOf()).toEqual([]);
      await model.apply(generation, [batch(4, 5, [put(5, 3)])]);
      expect(await namesOf(OWNER)).toEqual(['1:1', '2:3', '3:5', '9:2']);
    });

    it('is brought up to date once: whoever comes later changes nothing, nor does a batch from before', async () => {
      await start();
      const first = batch(0, 4, [put(1, 1), put(3, 1)], [refusal(2)]);
      await model.apply(generation, [first]);
      const whole = catchUp(2, 4, [{ ...put(2, 1), row: undefined }, put(3, 2)]);
      expect(await model.catchUp(generation, whole)).toBe(true);
      expect(await model.catchUp(generation, whole)).toBe(false);
      expect(await model.catchUp(generation, catchUp(2, 4, [put(2, 7)]))).toBe(false);
      // By a projector that cannot read the event, and has not heard of any of this.
      const late = [put(1, 1), put(5, 3, NEIGHBOUR), put(6, 4)];
      await model.apply(generation, [first]);
      await model.apply(generation, [batch(0, 6, late, [refusal(2)])]);
      expect(await namesOf(OWNER)).toEqual(['2:3', '4:6']);
      expect(await namesOf(NEIGHBOUR)).toEqual(['3:5']);
    });

    it('is brought up to date only to where its partition stands', async () => {
      await start();
      await model.apply(generation, [batch(0, 3, [put(1, 1)], [refusal(2)])]);
      await model.apply(generation, [batch(3, 5, [put(5, 2)])]);
      for (const upTo of [3, 4, 6])
        expect(await model.catchUp(generation, catchUp(2, upTo, [put(2, 9)]))).toBe(false);
      expect(await model.catchUp(generation, catchUp(1, 5, [put(2, 9)]))).toBe(false);
      await blockedAt(2);
      expect(await rowsOf()).toEqual(['1:1']);
      expect(await model.catchUp(generation, catchUp(2, 5, [put(2, 9), put(5, 2)]))).toBe(true);
      expect(await namesOf(OWNER)).toEqual(['1:1', '2:5', '9:2']);
    });

    it('is blocked at its next refused event', async () => {
      await start();
      await model.apply(generation, [
        batch(0, 6, [put(1, 1), put(3, 2), put(5, 3)], [refusal(2), refusal(4)]),
      ]);
      const next = refusal(4);
      expect(await model.catchUp(generation, catchUp(2, 6, [put(2, 9), put(3, 2)], next))).toBe(true);
      await blockedAt(4);
      expect(await blockedOf()).toEqual([next]);
      expect(await rowsOf()).toEqual(['1:1', '2:3', '9:2']);
      expect(await model.catchUp(generation, catchUp(2, 6, []))).toBe(false);
      expect(await model.catchUp(generation, catchUp(4, 6, [put(5, 3)]))).toBe(true);
      expect(await namesOf(OWNER)).toEqual(['1:1', '2:3', '3:5', '9:2']);
    });

    it('is so in its own generation only, which takes it along when it is dropped', async () => {
      await start();
      const second = await model.createGeneration();
      await model.apply(generation, [batch(0, 2, [put(1, 1)], [refusal(2)])]);
      await model.apply(second, [
        ...Array.from({ length: PARTITIONS }, (_, partition) => batch(0, 2, [], [], partition)).filter(
          ({ partition }) => partition !== partitionOf(OWNER),
        ),
        batch(0, 2, [put(1, 1), put(2, 9)]),
      ]);
      await blockedAt(2);
      await model.promote(second);
      expect(await namesOf(OWNER)).toEqual(['1:1', '9:2']);
      expect(await blockedOf(model, second)).toEqual([]);
      await model.drop(generation);
      await expect(model.countBlocked(generation)).rejects.toThrow(GenerationMissing);
      await expect(blockedOf()).rejects.toThrow(GenerationMissing);
      await expect(model.catchUp(generation, catchUp(2, 2, []))).rejects.toThrow(GenerationMissing);
      const third = await model.createGeneration();
      expect(await blockedOf(model, third)).toEqual([]);
    });

    it('may be one of many', async () => {
      await start();
      const names = Array.from({ length: 700 }, (_, n) => `owner ${n}%`);
      const byPartition = new Map<number, BlockedOwner[]>();
      for (const [n, owner] of names.entries()) {
        const partition = partitionOf(owner);
        byPartition.set(partition, [...(byPartition.get(partition) ?? []), refusal(n + 1, owner)]);
      }
      await model.apply(
        generation,
        Array.from(byPartition, ([partition, refused]) => batch(0, 1_000, [], refused, partition)),
      );
      expect((await blockedOf()).map(({ owner }) => owner).sort()).toEqual([...names].sort());
    });
  });
};
