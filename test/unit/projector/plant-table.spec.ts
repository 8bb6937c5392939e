import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { PlantTable } from '../../../src/projector/plant-table.js';

const anyOwner = fc.integer({ min: 0, max: 300 });
const anyId = fc.oneof(fc.integer({ min: -3, max: 30 }), fc.maxSafeInteger());
const anyStep = fc.tuple(anyOwner, anyId, fc.option(fc.maxSafeInteger(), { nil: undefined }));

describe('a table of plants', () => {
  it('holds for each owner what was set last, whatever was set and removed before', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 600 }), (steps) => {
        const table = new PlantTable();
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
    const table = new PlantTable();
    table.set(0, 0, 7);
    expect([table.get(0, 1), table.get(1, 0), table.get(-1, 0), table.get(0, 2 ** 32)]).toEqual(
      Array.from({ length: 4 }),
    );
    expect(table.get(0, -0)).toBe(7);
  });

  it('takes 64 bytes of memory for a plant at most, and is quick with many of one owner', () => {
    const table = new PlantTable();
    let found = 0;
    for (let id = 0; id < 300_000; id++) table.set(0, id * 2 ** 21, id);
    for (let id = 0; id < 300_000; id++) if (table.get(0, id * 2 ** 21) === id) found += 1;
    expect(found).toBe(300_000); // where each looked at all others, this would take hours
    expect(table.bytes / 300_000).toBeLessThan(64);
  });
});
