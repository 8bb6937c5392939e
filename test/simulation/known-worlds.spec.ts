import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { type Replay } from './world/shrink.js';
import { simulate, told } from './world/simulation.js';

/** Every world that has ever failed, and what was wrong. */
type Known = Replay & { readonly found: string };

const known = JSON.parse(
  readFileSync(join(process.cwd(), 'test/simulation/seeds.json'), 'utf8'),
) as readonly Known[];

it('the simulated world is well where it failed before', async () => {
  const failures: string[] = [];
  for (const { seed, options } of known) failures.push(...told(await simulate(seed, { options })));
  expect(failures).toEqual([]);
});
