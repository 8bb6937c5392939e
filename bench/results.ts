/** One thing that was measured of one contender: a value for each round. */
export interface Figure {
  readonly workload: string;
  /** A contender, or what else was measured. */
  readonly contender: string;
  readonly unit: string;
  readonly values: readonly number[];
  /** Processor time of the answering process for one request (or event), in microseconds. */
  readonly processor?: readonly number[];
  /** The same of the databases that work for it. */
  readonly serversProcessor?: readonly number[];
  /** Latencies in milliseconds; of a closed loop but for the steady run. */
  readonly p50?: readonly number[];
  readonly p99?: readonly number[];
  readonly p999?: readonly number[];
  /** Requests of all rounds that were not answered with success. */
  readonly failed?: number;
}

/** What could not be measured, and why. */
export interface Missing {
  readonly what: string;
  readonly why: string;
}

/** What a run has found so far. */
export class Results {
  readonly figures: Figure[] = [];
  readonly missing: Missing[] = [];
  /** What was shown to hold, in words. */
  readonly proofs: string[] = [];
  /** What does not work, whatever the figures: the run fails. */
  readonly broken: string[] = [];

  find(workload: string, contender: string): Figure | undefined {
    return this.figures.find((one) => one.workload === workload && one.contender === contender);
  }

  notRun(what: string, why: string): void {
    if (!this.missing.some((one) => one.what === what)) this.missing.push({ what, why });
  }
}
