/** Figures of the last quarter of an hour, as the page has received them, and the lines that are drawn of them. */
import { type SystemStatus } from './status.js';

export const SPAN_MS = 15 * 60_000;

/** One value stands for so long, in milliseconds: the greatest of that time. */
const STEP_MS = 5_000;

const STEPS = SPAN_MS / STEP_MS;

/** So many steps without a value are bridged: a timer of a busy browser may be late. */
const BRIDGED_STEPS = 2;

/** A rate is that of so many steps before, since processes report every two seconds and not at the same time. */
const RATE_STEPS = 6;

/** One value for each step, the oldest first; undefined where nothing was known. */
export type Series = readonly (number | undefined)[];

interface Sample {
  /** Distance of the lists from the end of the log. */
  readonly seconds: number | undefined;
  readonly events: number | undefined;
  /** Events that an auditor has taken into its tree. */
  readonly taken: number | undefined;
}

const greater = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Math.max(one, other);

export class Samples {
  readonly #steps = new Map<number, Sample>();

  /** Takes note of a status that holds at a time, in milliseconds. */
  add(at: number, { lag, processes }: Pick<SystemStatus, 'lag' | 'processes'>): void {
    const step = Math.floor(at / STEP_MS);
    const before = this.#steps.get(step);
    const sizes = processes.flatMap(({ auditor }) => (auditor ? [auditor.size] : []));
    this.#steps.set(step, {
      seconds: greater(before?.seconds, lag.seconds ?? undefined),
      events: greater(before?.events, lag.events ?? undefined),
      taken: sizes.length > 0 ? Math.max(...sizes) : undefined,
    });
    for (const old of this.#steps.keys()) if (old < step - STEPS - RATE_STEPS) this.#steps.delete(old);
  }

  /** Distance of the lists from the end of the log, up to `now`. */
  lag(now: number, unit: 'seconds' | 'events'): Series {
    return this.#series(now, (step) => this.#near(step)?.[unit]);
  }

  /** Events of each second up to `now`; without a value where no auditor has counted them. */
  rate(now: number): Series {
    return this.#series(now, (step) => {
      const taken = this.#near(step)?.taken;
      for (let back = RATE_STEPS; back > 1; back -= 1) {
        const earlier = this.#steps.get(step - back)?.taken;
        // Fewer than before: the tree was made again.
        if (taken !== undefined && earlier !== undefined && earlier <= taken)
          return (taken - earlier) / ((back * STEP_MS) / 1_000);
      }
      return undefined;
    });
  }

  #series(now: number, valueAt: (step: number) => number | undefined): Series {
    const last = Math.floor(now / STEP_MS);
    return Array.from({ length: STEPS }, (_, index) => valueAt(last - STEPS + 1 + index));
  }

  #near(step: number): Sample | undefined {
    for (let back = 0; back <= BRIDGED_STEPS; back += 1) {
      const found = this.#steps.get(step - back);
      if (found) return found;
    }
    return undefined;
  }
}

/** The greatest value, and how long before the end it was, in seconds; undefined where there is none. */
export const peakOf = (
  series: Series,
): { readonly value: number; readonly secondsAgo: number } | undefined => {
  let at = -1;
  series.forEach((value, index) => {
    if (value !== undefined && value >= (series[at] ?? -Infinity)) at = index;
  });
  const value = series[at];
  return value === undefined
    ? undefined
    : { value, secondsAgo: ((series.length - 1 - at) * STEP_MS) / 1_000 };
};

/** The top of a scale for values up to this one: 1, 2 or 5 times a power of ten, and at least 1. */
export const topOf = (greatest: number): number => {
  const power = 10 ** Math.floor(Math.log10(Math.max(greatest, 1)));
  return [1, 2, 5].map((step) => step * power).find((top) => top >= greatest) ?? 10 * power;
};

/** Paths of a line and of the area below it, in a box as wide as the series is long and 100 high. */
export const pathsOf = (series: Series, top: number): { readonly line: string; readonly area: string } => {
  const runs: { readonly x: number; readonly ys: number[] }[] = [];
  series.forEach((value, x) => {
    if (value === undefined) return;
    if (x === 0 || series[x - 1] === undefined) runs.push({ x, ys: [] });
    runs.at(-1)?.ys.push(Math.round(1_000 - (1_000 * value) / top) / 10);
  });
  const along = ({ x, ys }: (typeof runs)[number]): string =>
    ys.map((y, index) => `L${x + index} ${y}`).join('');
  return {
    // A run of one value has no length: it is drawn as a point by the caps of its ends.
    line: runs.map((run) => `M${along(run).slice(1)}${run.ys.length === 1 ? 'h0' : ''}`).join(''),
    area: runs.map((run) => `M${run.x} 100${along(run)}V100Z`).join(''),
  };
};
