import { orElse } from './refused.js';

/** The JSON value in a text, or undefined. */
export const jsonIn = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

/** True for a JSON object, false for an array. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Levels of objects and arrays that an event may have, its own included (docs/audit.md). */
const MAX_LEVELS = 101;

/**
 * RFC 8785: the one way to write a JSON value. JavaScript writes numbers and texts as it asks, and sorts by UTF-16 code
 * units as it does; fields that are undefined are none. Throws RangeError for what has no canonical form: a lone surrogate, a number beyond all bounds,
 * values nested deeper than 101 levels.
 */
export const canonical = (value: unknown, levels = MAX_LEVELS): string => {
  if (typeof value === 'string' && !value.isWellFormed()) throw new RangeError('a lone surrogate');
  if (typeof value === 'number' && !Number.isFinite(value)) throw new RangeError('no number');
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (levels === 0) throw new RangeError('nested too deep');
  if (Array.isArray(value)) return `[${value.map((inner) => canonical(inner, levels - 1)).join(',')}]`;
  const fields = value as Readonly<Record<string, unknown>>;
  let text = '';
  for (const name of Object.keys(fields).sort())
    if (fields[name] !== undefined)
      text += `${text === '' ? '' : ','}${canonical(name)}:${canonical(fields[name], levels - 1)}`;
  return `{${text}}`;
};

/** As `canonical`; undefined for what has no canonical form. */
export const canonicalIfAny = (value: unknown): string | undefined =>
  orElse(
    () => canonical(value),
    [RangeError],
    () => undefined,
  );
