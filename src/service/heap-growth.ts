import { setFlagsFromString } from 'node:v8';

/**
 * Percent by which V8's heap may grow after a full collection before the next one. V8's default is up to 300; with it the
 * heap of a busy service held 100 MB of garbage. Measured: docs/performance.md, "Memory under hostile clients". Node 24 and
 * 26 heed it little.
 */
const GROWTH_PERCENT = 50;

/**
 * Makes V8 collect garbage of this process, its threads included, before it takes much memory from the system.
 * Node documents that most flags must not change once V8 runs; V8 reads this one at the end of each collection.
 */
export const limitHeapGrowth = (): void => {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
};
