import { type Position, START } from '../../ports/event-log.js';

/** Where EventStoreDB says that an event is: two numbers of 64 bits, equal but for events of explicit transactions. */
export interface LogPosition {
  readonly commit: bigint;
  readonly prepare: bigint;
}

/** As many digits as the greatest number of 64 bits has. */
const DIGITS = 20;

/** What a server sends where it knows no position. */
export const NOWHERE = 2n ** 64n - 1n;

/** The commit position, by which EventStoreDB orders its log, and then the prepare position. */
export const toPosition = ({ commit, prepare }: LogPosition): Position =>
  `${String(commit).padStart(DIGITS, '0')}${String(prepare).padStart(DIGITS, '0')}` as Position;

/** Throws TypeError for what `toPosition` never gives. */
export const fromPosition = (position: Position): LogPosition => {
  if (!/^[0-9]{40}$/.test(position)) throw noPosition(position);
  const commit = BigInt(position.slice(0, DIGITS));
  const prepare = BigInt(position.slice(DIGITS));
  if (commit >= NOWHERE || prepare > NOWHERE) throw noPosition(position);
  return { commit, prepare };
};

/** Where a position is among the bytes of the server's log. Throws TypeError for what `toPosition` never gives. */
export const commitOf = (position: Position): bigint =>
  position === START ? 0n : fromPosition(position).commit;

const noPosition = (position: Position): TypeError =>
  new TypeError(`${JSON.stringify(position)} is not a position of this log`);
