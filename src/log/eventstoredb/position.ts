import { type Position, START } from '../event-log.js';

/** An event's position in EventStoreDB: two numbers of 64 bits, equal but for events of explicit transactions. */
export interface LogPosition {
  readonly commit: bigint;
  readonly prepare: bigint;
}

/** Digits of the greatest number of 64 bits. */
const DIGITS = 20;

/** Sent by a server that does not know the position. */
export const NOWHERE = 2n ** 64n - 1n;

/** True for positions that `toPosition` may have returned: one of another log, or an invented one, is not so. */
export const isPosition = (position: Position): boolean => {
  if (!/^[0-9]{40}$/.test(position)) return false;
  const { commit, prepare } = numbersOf(position);
  return commit < NOWHERE && prepare <= NOWHERE;
};

/** The commit position, by which EventStoreDB orders its log, and then the prepare position. */
export const toPosition = ({ commit, prepare }: LogPosition): Position =>
  `${String(commit).padStart(DIGITS, '0')}${String(prepare).padStart(DIGITS, '0')}` as Position;

/** Throws TypeError for what `toPosition` never returns. */
export const fromPosition = (position: Position): LogPosition => {
  if (!isPosition(position)) throw new TypeError(`${JSON.stringify(position)} is not a position of this log`);
  return numbersOf(position);
};

const numbersOf = (position: Position): LogPosition => ({
  commit: BigInt(position.slice(0, DIGITS)),
  prepare: BigInt(position.slice(DIGITS)),
});

/** The offset of a position in the server's log, in bytes. Throws TypeError for what `toPosition` never returns. */
export const commitOf = (position: Position): bigint =>
  position === START ? 0n : fromPosition(position).commit;
