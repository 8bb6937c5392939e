import { type Context } from './context.js';
import { type Figure } from './results.js';

/** What one contender did in one round. */
export interface Sample {
  readonly value: number;
  readonly processor?: number;
  readonly serversProcessor?: number;
  readonly p50?: number;
  readonly p99?: number;
  readonly p999?: number;
  readonly failed?: number;
}

/** One contender of one workload. */
export interface Entry {
  readonly contender: string;
  readonly unit: string;
  measure(): Promise<Sample>;
}

/** Measures contenders one after the other, and all of them again: what disturbs the machine disturbs each alike. */
export const interleaved = async (
  { sizes, results, say }: Context,
  workload: string,
  entries: readonly Entry[],
  rounds = sizes.repeats,
): Promise<void> => {
  const samples = new Map(entries.map((entry): [Entry, Sample[]] => [entry, []]));
  for (let round = 1; round <= rounds; round++)
    for (const [entry, taken] of samples) {
      const sample = await entry.measure();
      taken.push(sample);
      say(
        `${workload}, round ${round} of ${rounds}: ${entry.contender} ${sample.value.toFixed(1)} ${entry.unit}`,
      );
    }
  for (const [{ contender, unit }, taken] of samples)
    results.figures.push(figureOf(workload, contender, unit, taken));
};

const figureOf = (workload: string, contender: string, unit: string, samples: readonly Sample[]): Figure => {
  const all = (name: Exclude<keyof Sample, 'failed'>): Record<string, number[]> => {
    const values = samples.map((sample) => sample[name]).filter((value) => value !== undefined);
    return values.length === 0 ? {} : { [name]: values };
  };
  const failed = samples.reduce((sum, sample) => sum + (sample.failed ?? 0), 0);
  return {
    workload,
    contender,
    unit,
    values: samples.map(({ value }) => value),
    ...all('processor'),
    ...all('serversProcessor'),
    ...all('p50'),
    ...all('p99'),
    ...all('p999'),
    failed,
  };
};
