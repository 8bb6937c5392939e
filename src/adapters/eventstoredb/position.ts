import { type Position, START } from '../../ports/event-log.js';

/** An event's position in EventStoreDB: two numbers of 64 bits, equal but for events of explicit transactions. */
export interface LogPosition {
  readonly commit: bigint;
  readonly prepare: bigint;
}

/** Digits of the greatest number of 64 bits. */
const DIGITS = 20;

/** Sent by a server that does not know the position. */
export const NOWHERE = 2n ** 64n - 1n;

/** Whether a position may be one of EventStoreDB, and not of another log. */
export const isPosition = (position: Position): boolean => /^[0-9]{40}$/.test(position);

/** The commit position, by which EventStoreDB orders its log, and then the prepare position. */
export const toPosition = ({ commit, prepare }: LogPosition): Position =>
  `${String(commit).padStart(DIGITS, '0')}${String(prepare).padStart(DIGITS, '0')}` as Position;

/** Throws TypeError for what `toPosition` never returns. */
export const fromPosition = (position: Position): LogPosition => {
  if (!isPosition(position)) throw noPosition(position);
  const commit = BigInt(position.slice(0, DIGITS));
  const prepare = BigInt(position.slice(DIGITS));
  if (commit >= NOWHERE || prepare > NOWHERE) throw noPosition(position);
  return { commit, prepare };
};

/** The offset of a position in the server's log, in bytes. Throws TypeError for what `toPosition` never returns. */
export const commitOf = (position: Position): bigint =>
  position === START ? 0n : fromPosition(position).commit;

const noPosition = (position: Position): TypeError =>
  new TypeError(`${JSON.stringify(position)} is not a position of this log`);
