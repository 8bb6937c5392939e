import { MACHINE } from '../../src/runtime/runtime.js';
import { replaceParts } from './replaced-runtime.js';

/** A deadline that no machine misses, in milliseconds of quick time: the code's own are too short there. */
export const LONG_MS = 600_000;

/**
 * Lets the time of src/runtime/runtime.ts run so many times faster until the file of tests ends: the pauses of the code
 * under test are shorter by that. So are its deadlines, for which there is LONG_MS. Stores and their threads keep to
 * real time. Returns for how long each timer was to run, in milliseconds of that time.
 */
export const quickTime = (times = 6): readonly number[] => {
  const asked: number[] = [];
  const real = (ms: number): number => {
    asked.push(ms);
    return Math.ceil(ms / times);
  };
  replaceParts({
    monotonicMs: () => MACHINE.monotonicMs() * times,
    startTimer: (run, ms) => MACHINE.startTimer(run, real(ms)),
    startIdleTimer: (run, ms) => MACHINE.startIdleTimer(run, real(ms)),
    abortAfter: (ms) => MACHINE.abortAfter(real(ms)),
  });
  return asked;
};
