/**
 * The depth to which the values of an event may be nested. Ours are nested three deep; what goes deeper than this was not
 * written by this service, and would exhaust the stack of one checker sooner than that of another.
 */
export const MAX_DEPTH = 100;

/** Tells whether a JSON value has more levels of objects and arrays than these. */
export const isDeeperThan = (value: unknown, levels: number): boolean => {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
};
