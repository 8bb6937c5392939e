/** The events that are left out of lists and decisions by an operator's decision, by `eventKey`. */
export type Skips = ReadonlySet<string>;

export const NO_SKIPS: Skips = new Set();

/** The name of an event in Skips: its stream and revision, which are the same in a copy of the log. */
export const eventKey = ({
  stream,
  revision,
}: {
  readonly stream: string;
  readonly revision: bigint | number;
}): string => `${stream}@${revision}`;
