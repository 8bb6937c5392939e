/** Counters that all processes of the service share. They may be lost at any time: nothing durable rests on them. */
export interface SharedCounters {
  /**
   * Adds to a counter, which is made where it is missing, and forgotten `seconds` after it was made. Answers what it is
   * now, and when it will be forgotten, in milliseconds. Throws ReadModelUnavailable, in bounded time.
   */
  add(
    name: string,
    amount: number,
    seconds: number,
  ): Promise<{ readonly total: number; readonly msLeft: number }>;

  /** May be called twice. */
  close(): Promise<void>;
}
