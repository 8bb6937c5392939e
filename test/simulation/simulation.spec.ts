import { readFileSync } from 'node:fs';
import { SourceTextModule } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { PLANTED_FAULTS } from './mutants/mutants.js';
import { simulate, told } from './world/simulation.js';

/** Worlds of the short form: `npm run simulate -- --minutes M` runs more. */
const WORLDS = 8;

describe('the simulated world', () => {
  it(`is well in ${WORLDS} worlds`, async () => {
    const failures: string[] = [];
    for (let seed = 1; seed <= WORLDS; seed += 1) failures.push(...told(await simulate(seed)));
    expect(failures).toEqual([]);
  });

  it('has the same trace when the same seed runs again', async () => {
    for (const seed of [3, 5, 8]) {
      const [first, again] = [await simulate(seed), await simulate(seed)];
      expect(again.hash).toBe(first.hash);
      expect(again.steps).toBe(first.steps);
    }
  });

  it('has a line in the source for each planted fault, and only one, and JavaScript in its place', () => {
    const timesIn = (text: string, part: string): number => text.split(part).length - 1;
    for (const { name, edits = [] } of PLANTED_FAULTS)
      for (const { file, find, replace } of edits) {
        const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8');
        expect([name, file, timesIn(text, find)]).toEqual([name, file, 1]);
        expect(
          () =>
            new SourceTextModule(
              text.replace(find, () => replace),
              { identifier: name },
            ),
        ).not.toThrow();
      }
  });

  // Faults of the stores: those of the source are run by `npm run simulate:mutants`.
  it.each(['expected-revision-ignored', 'position-apart-from-rows', 'unknown-as-unavailable'])(
    'finds a planted fault: %s',
    async (name) => {
      const mutant = PLANTED_FAULTS.find((fault) => fault.name === name)?.mutant;
      if (!mutant) throw new Error(`there is no fault ${name}`);
      let found = false;
      for (let seed = 1; seed <= 60 && !found; seed += 1)
        found = (await simulate(seed, { mutant })).broken.length > 0;
      expect(found).toBe(true);
    },
  );
});
