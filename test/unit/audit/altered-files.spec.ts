import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type State } from '../../support/altered/kind.js';
import { KINDS, statesOf, WAYS } from '../../support/altered/kinds.js';
import { faultOf, Matrix } from '../../support/altered/matrix.js';
import { tableOf } from '../../support/altered/table.js';

let matrix: Matrix;
beforeAll(async () => {
  matrix = await Matrix.of({ events: 300, seed: 20_261_122, recheckMs: 20 });
});
afterAll(() => matrix.remove());

/** Most of them are quick: a restart opens the files twice. */
const TURNS: readonly State[] = ['running', 'started', 'running', 'started', 'running', 'restarted'];

/** Every kind, in one of its states; `npm run test:all -- --lane altered` makes 800 alterations of a log of 20,000 events. */
const cases = Object.entries(KINDS).map(([kind, ways], nth): [string, State, string] => {
  const state = TURNS[nth % TURNS.length] ?? 'started';
  return [kind, statesOf(kind).includes(state) ? state : 'started', ways[nth % ways.length] ?? ''];
});

describe('files that were altered', () => {
  it.each(cases)('are seen, and what was altered is named: %s, %s', async (_kind, state, way) => {
    expect(faultOf(await matrix.one(way, state, false))).toBeUndefined();
  });

  it('are of every kind', () => {
    expect(Object.values(KINDS).flat().sort()).toEqual(Object.keys(WAYS).sort());
  });

  it('are counted by kind and state', () => {
    const finding = { by: 'alarm', message: '', readings: 1 } as const;
    const outcome = { state: 'running', atNextStart: false, kept: undefined } as const;
    const table = tableOf([
      { ...outcome, way: 'event: a name', finding, isNamed: true, ms: 1_000 },
      { ...outcome, way: 'event: its id', finding, isNamed: false, ms: 3_000 },
      { ...outcome, way: 'event: its type', finding: undefined, isNamed: false, ms: 9_000, kept: 'extended' },
    ]);
    expect(table.trim().split('\n').slice(2)).toEqual([
      '| what an event says | running | 3 | 2 | 1 | 1.0 | 3.0 | alarm 2, kept checkpoint extended 1 |',
    ]);
  });
});
