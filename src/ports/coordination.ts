/** What a process says about itself. */
export interface Report {
  readonly process: string;
  readonly text: string;
}

/**
 * What the processes of one log know of each other. Nothing here has to outlive a restart of the store.
 *
 * Every method throws ReadModelUnavailable where the store cannot be reached or used, in bounded time.
 */
export interface Coordination {
  /**
   * Takes the projector's lease, or keeps it, until `forMs` milliseconds from now by the store's clock. False, and
   * nothing changes, while another holder's has not run out. It only saves work: several who believe that they hold
   * it do no harm, and a store that loses its data loses it too.
   */
  takeLease(holder: string, forMs: number): Promise<boolean>;

  /** Gives the lease back, so that another may take it at once. Nothing happens where `holder` does not hold it. */
  returnLease(holder: string): Promise<void>;

  /**
   * Tells `text` about a process, in place of what was told before, for `forMs` (whole) milliseconds from now by
   * the store's clock. A few KB at most: the store keeps it in memory, and does not look into it.
   */
  report(process: string, text: string, forMs: number): Promise<void>;

  /** What was told about each process and still holds, in ascending order of `process` as JavaScript compares. */
  reports(): Promise<Report[]>;
}
