import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { AlteredRun } from '../../support/altered-run.js';

/** Each way to alter a log, once. `npm run test:altered` makes 500 alterations of a log of 100,000 events. */
const WAYS = 19;

let run: AlteredRun;
beforeAll(async () => {
  run = await AlteredRun.of(300, 20_261_122);
});
afterAll(() => run.remove());

it('a log that was altered by hand is seen by the service, by who exports it, and by who has kept a checkpoint', async () => {
  const ways = new Set<string>();
  for (let nth = 0; nth < WAYS; nth++) ways.add(await run.next({ whole: true, commands: false }));
  expect(ways.size).toBe(WAYS);
});
