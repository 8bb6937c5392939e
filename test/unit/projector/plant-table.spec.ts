import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Position, START } from '../../../src/ports/event-log.js';
import { PlantTable, PositionTable } from '../../../src/projector/plant-table.js';

const anyOwner = fc.integer({ min: 0, max: 300 });
const anyId = fc.oneof(fc.integer({ min: -3, max: 30 }), fc.maxSafeInteger());
const anyStep = fc.tuple(anyOwner, anyId, fc.option(fc.maxSafeInteger(), { nil: undefined }));

describe('a table of plants', () => {
  it('holds for each owner what was set last, whatever was set and removed before', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 600 }), (steps) => {
        const table = new PlantTable(0);
        const owners = new Map<number, Map<number, number>>();
        for (const [owner, id, number] of steps) {
          table.set(owner, id, number);
          const plants = owners.get(owner) ?? new Map<number, number>();
          owners.set(owner, plants);
          if (number === undefined) plants.delete(id);
          else plants.set(id, number);
        }
        for (const [owner, id] of steps) expect(table.get(owner, id)).toBe(owners.get(owner)?.get(id));
        for (let owner = -1; owner < 302; owner++)
          expect(new Set(table.ids(owner))).toEqual(new Set(owners.get(owner)?.keys()));
        expect(table.size).toBe([...owners.values()].reduce((size, plants) => size + plants.size, 0));
      }),
    );
  });

  it('knows nothing of owners and ids that were never set', () => {
    const table = new PlantTable(0);
    table.set(0, 0, 7);
    expect([table.get(0, 1), table.get(1, 0), table.get(-1, 0), table.get(0, 2 ** 32)]).toEqual(
      Array.from({ length: 4 }),
    );
    expect(table.get(0, -0)).toBe(7);
  });

  it('takes 64 bytes of memory for a plant at most, and is quick with many of one owner', () => {
    const table = new PlantTable(0);
    let found = 0;
    for (let id = 0; id < 300_000; id++) table.set(0, id * 2 ** 21, id);
    for (let id = 0; id < 300_000; id++) if (table.get(0, id * 2 ** 21) === id) found += 1;
    expect(found).toBe(300_000); // where each looked at all others, this would take hours
    expect(table.bytes / 300_000).toBeLessThan(64);
  });
});

describe('a table of positions', () => {
  it('holds the last one of each number, and the start for any other', () => {
    const table = new PositionTable();
    expect([table.get(0), table.get(-1)]).toEqual([START, START]);
    table.set(3, START);
    for (let number = 0; number < 1_000; number += 2)
      table.set(number, `first ${String(number).padStart(9)}` as Position);
    table.set(500, 'second and last' as Position);
    expect([table.get(500), table.get(998)]).toEqual(['second and last', 'first       998']);
    expect([table.get(1), table.get(3), table.get(1_000), table.get(9_999)]).toEqual(Array(4).fill(START));
  });
});
