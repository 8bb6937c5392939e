import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Histogram, Registry } from 'prom-client';
import { BoundHistogram } from '../../../src/metrics/histogram.js';

const NAME = 'plants_durations_seconds';
const HELP = 'How long it took.';

describe('a histogram that is bound to its labels', () => {
  it("is scraped as prom-client's own, whatever was observed", async () => {
    const limits = fc.uniqueArray(fc.double({ min: 1e-4, max: 100, noNaN: true }), {
      minLength: 1,
      maxLength: 8,
    });
    const outcome = fc.constantFrom('good', 'bad', 'with "quotes"');
    await fc.assert(
      fc.asyncProperty(limits, fc.array(fc.tuple(outcome, fc.nat())), async (unsorted, observations) => {
        const buckets = unsorted.sort((one, other) => one - other);
        const registers = [new Registry()];
        const theirs = new Histogram({ name: NAME, help: HELP, labelNames: ['outcome'], buckets, registers });
        const registry = new Registry();
        const ours = new BoundHistogram(registry, NAME, HELP, buckets);
        for (const [outcome, at] of observations) {
          const value = (buckets[at % buckets.length] ?? 0) * (0.5 + (at % 3) / 2); // below a limit, at it, above it
          theirs.observe({ outcome }, value);
          ours.bind({ outcome })(value);
        }
        expect(await registry.metrics()).toBe(await registers[0]?.metrics());
      }),
    );
  });

  it('has a series from when it is bound: the first failure is an increase', async () => {
    const registry = new Registry();
    new BoundHistogram(registry, NAME, HELP, [1]).bind({ outcome: 'bad' });
    expect(await registry.metrics()).toContain(`${NAME}_count{outcome="bad"} 0\n`);
  });
});
