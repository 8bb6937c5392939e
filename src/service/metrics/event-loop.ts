import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { type Registry } from 'prom-client';
import { startIdleTimer } from '../../runtime/runtime.js';
import { showGauge } from './gauge.js';

/** The step of the measurement, in milliseconds: a delay of less than that is not seen. */
const STEP_MS = 10;

/** For how long it goes on after the last request, in milliseconds. */
const AFTER_MS = 5_000;

const SECOND = 1e9;

/** The figures of prom-client, with its words: the smallest, the greatest, and so on. */
const FIGURES: readonly (readonly [name: string, help: string, of: (delays: IntervalHistogram) => number])[] =
  [
    ['min', 'The minimum recorded event loop delay.', ({ min }) => min],
    ['max', 'The maximum recorded event loop delay.', ({ max }) => max],
    ['mean', 'The mean of the recorded event loop delays.', ({ mean }) => mean],
    ['stddev', 'The standard deviation of the recorded event loop delays.', ({ stddev }) => stddev],
    ['p50', 'The 50th percentile of the recorded event loop delays.', (delays) => delays.percentile(50)],
    ['p90', 'The 90th percentile of the recorded event loop delays.', (delays) => delays.percentile(90)],
    ['p99', 'The 99th percentile of the recorded event loop delays.', (delays) => delays.percentile(99)],
  ];

/**
 * Replaces prom-client's figures of the event loop's delays since the last scrape by the same ones that are measured
 * while requests come: the measurement wakes the process a hundred times a second. Returns what each request calls.
 */
export const showEventLoop = (registry: Registry): (() => void) => {
  const delays = monitorEventLoopDelay({ resolution: STEP_MS });
  for (const [figure, help, of] of FIGURES) {
    const name = `nodejs_eventloop_lag_${figure}_seconds`;
    registry.removeSingleMetric(name);
    showGauge(registry, name, help, () => {
      const value = delays.count > 0 ? of(delays) / SECOND : 0;
      if (figure === 'p99') delays.reset(); // the last of them
      return value;
    });
  }
  let last = -Infinity;
  let isOn = false;
  const offLater = (): void => {
    const leftMs = last + AFTER_MS - performance.now();
    if (leftMs > 0) startIdleTimer(offLater, leftMs);
    else isOn = !delays.disable();
  };
  return () => {
    last = performance.now();
    if (isOn) return;
    isOn = delays.enable();
    startIdleTimer(offLater, AFTER_MS);
  };
};
