/** A process's report. */
export interface Report {
  readonly process: string;
  readonly text: string;
}

/**
 * The lease and the reports of one log's processes, which need not outlive a restart of the store. Every method throws
 * ReadModelUnavailable where the store cannot be used, in bounded time.
 */
export interface Coordination {
  /** True if this process alone can write to the store: then no other process takes the lease. */
  readonly isSole: boolean;

  /**
   * Takes or renews the projector's lease until `forMs` milliseconds from now by the store's clock. False, without a
   * change, while another holder's has not expired. It only saves work: several holders do no harm.
   */
  takeLease(holder: string, forMs: number): Promise<boolean>;

  /** Returns the lease, so that another process can take it at once. No effect where `holder` does not hold it. */
  returnLease(holder: string): Promise<void>;

  /**
   * Replaces a process's report, for `forMs` (whole) milliseconds from now by the store's clock. A few KB at most,
   * which the store keeps in memory.
   */
  report(process: string, text: string, forMs: number): Promise<void>;

  /** The reports that have not expired, in ascending order of `process` as JavaScript compares. */
  reports(): Promise<Report[]>;
}
