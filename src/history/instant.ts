/** A moment in UTC, to the nanosecond, as a text of fixed width: the order of the texts is that of the moments. */
export type Instant = string & { readonly __brand: 'Instant' };

/** RFC 3339, section 5.6, with at most nine digits of a second. */
export const RFC_3339 =
  /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

const ISO_LENGTH = '2026-01-30T12:00:00.000Z'.length;

/**
 * The moment that an RFC 3339 text names, or undefined where it names none: a day that its month does not have, an
 * hour 24, no time zone. Seconds are 00 to 59: no clock of ours gives a leap second.
 */
export const parseInstant = (text: string): Instant | undefined => {
  if (isWrittenByDate(text)) return widened(text); // as our own events have it, in a third of the time
  const [whole, year, month, day, hour, minute, second, fraction = '', sign, offsetHours, offsetMinutes] =
    RFC_3339.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const fields = [year, month, day, hour, minute, second].map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const local = new Date(0);
  local.setUTCFullYear(fields[0], fields[1] - 1, fields[2]); // Date.UTC takes the year 26 for 1926
  local.setUTCHours(fields[3], fields[4], fields[5]);
  // A time that rolls over into the next minute, day or month, such as 30 February, is refused.
  const written = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  if (local.toISOString().slice(0, 19) !== written) return undefined;
  const [east, past] = [Number(offsetHours ?? 0), Number(offsetMinutes ?? 0)];
  if (east > 23 || past > 59) return undefined;
  const offset = (east * 60 + past) * (sign === '-' ? 60_000 : -60_000);
  const utc = new Date(local.getTime() + offset).toISOString();
  if (!/^\d{4}-/.test(utc)) return undefined; // the offset leads out of the years that RFC 3339 has
  return `${utc.slice(0, 19)}.${fraction.padEnd(9, '0')}Z` as Instant;
};

/** The moment of a date of the years 0 to 9999. */
export const instantOf = (date: Date): Instant => widened(date.toISOString());

/** Tells whether a text is one that `toISOString` writes for a date of the years 0 to 9999. */
const isWrittenByDate = (text: string): boolean => {
  const date = new Date(text.length === ISO_LENGTH ? text : NaN);
  return !Number.isNaN(date.getTime()) && date.toISOString() === text;
};

/** The text of `toISOString`, to the nanosecond. */
const widened = (iso: string): Instant => `${iso.slice(0, 23)}000000Z` as Instant;
