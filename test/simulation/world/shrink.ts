import { type Options, simpler } from './options.js';
import { type Mutant, type Result, simulate } from './simulation.js';

/** Runs a finding again. */
export interface Replay {
  readonly seed: number;
  readonly options: Options;
}

/** Worlds that are run to find a smaller one. */
const MOST_RUNS = 60;

/** The smallest world found in which the seed breaks the same rule: with fewer kinds of faults, and in less time. */
export const shrink = async (found: Result, mutant?: Mutant): Promise<Result> => {
  let best = found;
  let runs = 0;
  const rule = found.broken[0]?.rule;
  const isWorse = async (options: Options): Promise<boolean> => {
    if (runs === MOST_RUNS) return false;
    runs += 1;
    const result = await simulate(found.seed, { options, ...(mutant && { mutant }) });
    if (result.broken[0]?.rule !== rule) return false;
    best = result;
    return true;
  };
  for (let isSmaller = true; isSmaller;) {
    isSmaller = false;
    for (const options of simpler(best.options))
      if (await isWorse(options)) {
        isSmaller = true;
        break;
      }
  }
  // The shortest beginning: halved for as long as it still fails.
  let [enough, tooLittle] = [best.options.durationMs, 0];
  while (enough - tooLittle > Math.max(100, enough / 50) && runs < MOST_RUNS) {
    const middle = (enough + tooLittle) / 2;
    if (await isWorse({ ...best.options, durationMs: middle })) enough = middle;
    else tooLittle = middle;
  }
  return best;
};
