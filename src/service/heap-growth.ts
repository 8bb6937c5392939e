import { setFlagsFromString } from 'node:v8';

/**
 * How much V8's heap may grow over what was alive at its last full collection before it collects again, in percent.
 * Unset, V8 takes up to 300, and garbage of 100 MB lay in the heap of a service that was asked for much.
 * Measured: docs/performance.md, "Memory under hostile clients".
 */
const GROWTH_PERCENT = 50;

/**
 * Makes V8 collect garbage of this process, its workers included, before it takes much memory from the system.
 * Node documents that most flags must not change once V8 runs; this one is read anew at the end of each collection.
 */
export const limitHeapGrowth = (): void => {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
};
