/** Which events are left out of lists and decisions, since an operator has decided so: see `skipName`. */
export type Skips = ReadonlySet<string>;

export const NO_SKIPS: Skips = new Set();

/** How an event is named among the skipped ones: by its place, which is the same in a copy of the log. */
export const skipName = ({
  stream,
  revision,
}: {
  readonly stream: string;
  readonly revision: bigint | number;
}): string => `${stream}@${revision}`;
