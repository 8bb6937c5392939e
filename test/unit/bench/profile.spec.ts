import { describe, expect, it } from '@jest/globals';
import { selfTimes } from '../../../bench/profile.js';

const node = (id: number, functionName: string, url = '', lineNumber = 0) => ({
  id,
  callFrame: { functionName, url, lineNumber },
});

describe('the summary of a CPU profile', () => {
  it('adds up the time of a function over all its callers, without idle time and what is not in the span', () => {
    const profile = {
      nodes: [
        node(1, 'list', 'file:///a.js', 6),
        node(2, '(idle)'),
        node(3, 'list', 'file:///a.js', 6),
        node(4, ''),
      ],
      samples: [1, 1, 2, 3, 4, 1],
      timeDeltas: [900, 100, 5_000, 200, 100, 7_000],
      startTime: 10_000,
    };

    expect(selfTimes(profile, { from: 11_000, to: 17_000 })).toEqual([
      { name: 'list', where: 'file:///a.js:7', micros: 300, share: 0.75 },
      { name: '(anonymous)', where: '', micros: 100, share: 0.25 },
    ]);
  });
});
