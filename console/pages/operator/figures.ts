/** Numbers with their units, as a person reads them. */

const WHOLE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

/** A number with one decimal place where it is below ten, else without. */
export const number = (value: number): string => (Math.abs(value) < 10 ? FINE : WHOLE).format(value);

/** So many of something: 1 event, 12,000 events. */
export const counted = (count: number, one: string): string =>
  `${number(count)} ${one}${count === 1 ? '' : 's'}`;

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** A length of time in its two greatest units: 3 h 20 min; below a minute in seconds. */
export const duration = (seconds: number): string => {
  const at = UNITS.findIndex(([, size]) => size > 1 && seconds >= size);
  const [unit, size] = UNITS[at] ?? [];
  if (unit === undefined) return `${number(seconds)} s`;
  const [smaller = '', step = 1] = UNITS[at + 1] ?? [];
  const rest = Math.floor((seconds % size) / step);
  return `${Math.floor(seconds / size)} ${unit}${rest === 0 ? '' : ` ${rest} ${smaller}`}`;
};

/** A share from 0 to 1 in percent. It says 100 % only where all is done. */
export const percent = (share: number): string => `${Math.floor(share * 100)} %`;
