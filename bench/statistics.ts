/** The middle one of some values, or the mean of the two in the middle. NaN for none. */
export const median = (values: readonly number[]): number => {
  const sorted = ascending(values);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
};

/** The difference between the greatest and the least value, as a share of the median. */
export const spread = (values: readonly number[]): number =>
  (Math.max(...values) - Math.min(...values)) / median(values);

/** The least value that at least this share of all values does not exceed (nearest rank). NaN for none. */
export const percentile = (values: readonly number[], share: number): number => {
  const sorted = ascending(values);
  return sorted[Math.max(Math.ceil(share * sorted.length), 1) - 1] ?? NaN;
};

/** The percentiles that a load tells of its latencies. */
export const percentiles = (values: readonly number[]) => ({
  p50: percentile(values, 0.5),
  p99: percentile(values, 0.99),
  p999: percentile(values, 0.999),
});

/** Each value divided by the other list's value of the same round, as far as both go. */
export const ratios = (values: readonly number[], others: readonly number[]): number[] =>
  values.slice(0, others.length).map((value, round) => value / (others[round] ?? NaN));

const ascending = (values: readonly number[]): number[] => [...values].sort((one, other) => one - other);
