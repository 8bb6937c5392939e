import { type Figure, type Results, roundsOf, type Sample } from './results.js';
import { median, ratios } from './statistics.js';

/** A figure that must be reached: its median, or the median of its ratios to another contender of that workload. */
interface Wanted {
  readonly against?: string;
  /** The field of the samples that is compared: their value, unless it is named. */
  readonly of?: keyof Sample;
  readonly least?: number;
  readonly most?: number;
}

/** Memory is in MB, processor time in µs, a start in s. */
const MUST_REACH: readonly (readonly [workload: string, contender: string, wanted: Wanted])[] = [
  ['list-20', 'embedded', { against: 'bare', least: 0.75 }],
  ['list-20', 'embedded', { against: 'crud', least: 3.5 }],
  ['list-20', 'embedded', { against: 'typeorm', least: 20 }],
  ['list-20', 'embedded', { against: 'emmett', least: 12 }],
  ['list-100', 'servers', { against: 'bare', least: 0.5 }],
  ['create-256', 'embedded', { against: 'crud', least: 3 }],
  ['create-256', 'embedded', { against: 'typeorm', least: 8 }],
  ['create-256', 'embedded', { against: 'typeorm-key', least: 8 }],
  ['create-256', 'embedded', { against: 'emmett', least: 15 }],
  ['create-256', 'embedded', { against: 'stubbed', least: 0.7 }],
  ['create-256', 'servers', { against: 'typeorm-key', least: 1.6 }],
  ['create-256', 'embedded', { of: 'processor', most: 85 }],
  ['create-1', 'embedded', { of: 'processor', most: 300 }],
  ['create-1', 'embedded', { against: 'crud', of: 'p50', most: 1.8 }],
  ['owners-zipf', 'embedded', { against: 'crud', least: 1.6 }],
  ['owners-uniform', 'embedded', { against: 'crud', least: 1.6 }],
  ['owners-create', 'embedded', { against: 'crud', least: 2 }],
  ['owners-in-turn', 'embedded', { of: 'processor', most: 170 }],
  ['owner-size', 'all plants', { against: '1,000 plants', least: 0.83 }],
  ['rebuild', 'embedded', { against: 'bare loop', least: 0.6 }],
  ['rebuild-redis', 'to Redis', { against: 'bare pipeline', least: 0.6 }],
  ['memory in a rebuild', 'embedded', { most: 200 }],
  // It may swing with collections: more than this from the middle to the end of a rebuild is growth.
  ['memory in a rebuild, growth', 'embedded', { most: 1.15 }],
  ['start', 'large log', { most: 1.5 }],
];

/** The median of the ratios of each round: what both were disturbed by is in neither. */
export const ratioOf = (one?: Figure, other?: Figure, of?: keyof Sample): number =>
  median(ratios(roundsOf(one, of), roundsOf(other, of)));

/** Each figure that must be reached, with its verdict: `not run` where one of its measurements is missing or is 0. */
export const reachedOf = (results: Results) =>
  MUST_REACH.map(([workload, contender, { against, of, least = 0, most = Infinity }]) => {
    const figure = results.find(workload, contender);
    const measured =
      against === undefined
        ? median(roundsOf(figure, of))
        : ratioOf(figure, results.find(workload, against), of);
    const reached = measured >= least && measured <= most ? 'reached' : 'missed';
    return {
      figure: `${workload}: ${contender}${against === undefined ? '' : ` / ${against}`}${of === undefined ? '' : `, ${of}`}`,
      wanted: most === Infinity ? `at least ${least}` : `at most ${most}`,
      measured,
      verdict: Number.isFinite(measured) ? reached : 'not run',
    };
  });
