import { type Stage } from './contenders.js';

/** One measurement of a contender, in one round. */
export interface Sample {
  readonly value: number;
  /** Seconds that the round took, where the value is something else. */
  readonly seconds?: number;
  /** The most memory that the process had. */
  readonly peakMegabytes?: number;
  /** Processor time of the answering process for one request (or event), in microseconds. */
  readonly processor?: number;
  /** The same of the databases that work for it. */
  readonly serversProcessor?: number;
  /** Latencies in milliseconds; of a closed loop but for the steady runs. */
  readonly p50?: number;
  readonly p99?: number;
  readonly p999?: number;
  /** Requests that were not answered with success. */
  readonly failed?: number;
}

/** One thing that was measured of one contender, or of what else the workload has, in each round. */
export interface Figure {
  readonly workload: string;
  readonly contender: string;
  readonly unit: string;
  readonly samples: readonly Sample[];
}

/** One of a figure's numbers, round by round; none where it was not measured. */
export const roundsOf = (figure: Figure | undefined, name: keyof Sample = 'value'): number[] =>
  figure?.samples.flatMap((sample) => sample[name] ?? []) ?? [];

/** The results of a run so far. */
export class Results {
  readonly figures: Figure[] = [];
  /** Reasons, by the contender or part that could not be measured. */
  readonly notRun: Record<string, string> = {};
  /** Sentences of the checks that passed. */
  readonly proofs: string[] = [];
  /** Failures that no figure shows; one of them fails the run. */
  readonly broken: string[] = [];
  /** Versions of the servers that took part. */
  readonly servers: Record<string, string> = {};

  find(workload: string, contender: string): Figure | undefined {
    return this.figures.find((one) => one.workload === workload && one.contender === contender);
  }

  add(workload: string, contender: string, unit: string, values: readonly number[]): void {
    this.figures.push({ workload, contender, unit, samples: values.map((value) => ({ value })) });
  }
}

/** The sizes of a whole run. Times are in seconds. */
export const FULL = {
  repeats: 3,
  /** One measurement. */
  seconds: 5,
  /** The load of each contender before anything counts. */
  warmUpSeconds: 3,
  /** Of the large log. */
  events: 1_000_000,
  /** Those that share them; as many are there where many owners ask. */
  owners: 100_000,
  /** Those of them who ask for most of it. */
  activeOwners: 20_000,
  /** Times that the service is killed under load, and its start is measured. */
  kills: 3,
  starts: 5,
  steadySeconds: 15,
};
export type Sizes = Readonly<typeof FULL>;

/** Runs every workload once, as a test of the bench: its figures mean nothing. */
export const QUICK: Sizes = {
  ...{ repeats: 1, seconds: 1, warmUpSeconds: 0, steadySeconds: 1 },
  ...{ events: 10_000, owners: 1_000, activeOwners: 200 },
  ...{ kills: 1, starts: 1 },
};

/** The arguments of every workload. */
export interface Context {
  readonly stage: Stage;
  readonly sizes: Sizes;
  readonly results: Results;
  /** True for a workload, or a part of one, that was asked for. */
  readonly wants: (name: string) => boolean;
  /** Tells a person how far the run is. */
  readonly say: (line: string) => void;
}

/** More failed requests than this share of those of a second, and ten, and a contender does not work. */
const MOST_FAILED = 0.01;

/** Measures contenders one after the other, and all of them again: what disturbs the machine disturbs each alike. */
export const interleaved = async (
  { sizes, results, say }: Context,
  workload: string,
  unit: string,
  contenders: Readonly<Record<string, (round: number) => Promise<Sample>>>,
  rounds = sizes.repeats,
): Promise<void> => {
  const samples = Object.keys(contenders).map((): Sample[] => []);
  for (let round = 1; round <= rounds; round++)
    for (const [number, [contender, measure]] of Object.entries(contenders).entries()) {
      const sample = await measure(round);
      samples[number]?.push(sample);
      const { value, failed = 0 } = sample;
      // Deletes may run out of plants on a machine that deletes faster than it creates.
      if (failed > MOST_FAILED * value + 10 && workload !== 'delete')
        results.broken.push(`${workload}: ${contender}: ${failed} requests failed`);
      say(`${workload}, round ${round} of ${rounds}: ${contender} ${value.toFixed(1)} ${unit}`);
    }
  for (const [number, contender] of Object.keys(contenders).entries())
    results.figures.push({ workload, contender, unit, samples: samples[number] ?? [] });
};
