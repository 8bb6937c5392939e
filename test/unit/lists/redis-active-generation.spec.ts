import { expect, it } from '@jest/globals';
import { ActiveGeneration } from '../../../src/lists/redis/active-generation.js';
import { type ActiveNow } from '../../../src/lists/redis/calls.js';
import { type Generation } from '../../../src/lists/read-model.js';
import { type Position } from '../../../src/log/event-log.js';

const [OLD, NEW] = [10, 20] as [Generation, Generation];

/** The position that a write waits for, in a partition whose generations are at these positions. */
const reached = (positions: Readonly<Record<string, string>>, ...answers: ActiveNow[]) => {
  let keys = answers[0];
  const active = new ActiveGeneration<{ race: <T>(promise: Promise<T>) => Promise<T> }>({
    call: (_ms, work) => work({ race: (promise) => promise }),
    activeNow: () => Promise.resolve((keys = answers.shift() ?? keys) ?? { active: NEW, replaced: OLD }),
    storedAnchors: (generation) => {
      const position = positions[generation] as Position | undefined;
      return Promise.resolve([position && { position, event: position }]);
    },
  });
  return async () => (await active.positions([7])).get(7);
};

const AT_FIRST = { active: OLD, replaced: undefined };
const SWITCHED = { active: NEW, replaced: OLD };
const BY_AN_OLDER_VERSION = { active: NEW, replaced: undefined };
const BACK = { active: OLD, replaced: NEW };

it('no write is listed while other processes may answer from a generation that was replaced', async () => {
  const both = reached({ [OLD]: '5', [NEW]: '9' }, AT_FIRST, AT_FIRST, BY_AN_OLDER_VERSION);
  expect([await both(), await both()]).toEqual(['5', '5']);
});

it('nor where this process has begun after the switch', async () => {
  expect(await reached({ [OLD]: '5', [NEW]: '9' }, SWITCHED)()).toBe('5');
});

it('nor where it was back already when this process looked again', async () => {
  const both = reached({ [OLD]: '9', [NEW]: '5' }, AT_FIRST, AT_FIRST, BACK);
  expect([await both(), await both()]).toEqual(['9', '5']);
});

it('a generation that is gone is waited for by none', async () => {
  expect(await reached({ [NEW]: '9' }, SWITCHED)()).toBe('9');
});
