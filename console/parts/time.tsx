/** Times: local, with UTC beside them. */

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** An instant in UTC, to the second: 2026-01-31 12:00:00 UTC. */
export const utcOf = (time: Date): string => `${time.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** An instant in the time zone of this browser. */
export const localOf = (time: Date): string => `${DAY.format(time)}, ${CLOCK.format(time)}`;

/** An instant, as RFC 3339 or in milliseconds since 1970; as it stands where it is none. */
export const Time = ({ at }: { readonly at: string | number }) => {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return <span>{String(at)}</span>;
  return (
    <time class="time" dateTime={time.toISOString()}>
      {localOf(time)} <span class="utc">{utcOf(time)}</span>
    </time>
  );
};

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** A length of time in its greatest unit: 3 min. */
export const lengthOf = (ms: number): string => {
  const [unit, size] = UNITS.find(([, one]) => ms >= one) ?? ['s', 1_000];
  return `${Math.floor(ms / size)} ${unit}`;
};
