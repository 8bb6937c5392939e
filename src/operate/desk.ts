import { setTimeout as delay } from 'node:timers/promises';
import { type EventLog, type Position } from '../ports/event-log.js';
import { type ReadModel } from '../ports/read-model.js';
import { type Operator } from '../projector/rebuilds.js';

/** What an operator's command works with. */
export interface Desk {
  readonly log: EventLog;
  readonly model: ReadModel;
  /** How many events of the log are after one position, up to another; undefined where its positions do not tell. */
  readonly eventsBetween: ((after: Position, upTo: Position) => number) | undefined;
  readonly operator: Operator;
  readonly now: () => Date;
  /** Aborts, with an Interrupted, when somebody asks the command to stop. */
  readonly signal: AbortSignal;
  /** Print one JSON object, and no progress. */
  readonly json: boolean;
}

/** Prints a command's result: `value` where JSON is wanted, else `text`. */
export const print = ({ json }: Pick<Desk, 'json'>, value: unknown, text: string): void => {
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
};

/** Waits. Throws the signal's reason as soon as that aborts. */
export const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
  try {
    await delay(ms, undefined, { signal });
  } catch {
    signal.throwIfAborted();
  }
};

/** What came from outside, made safe for a terminal: no control character reaches it, and no invisible one. */
export const printable = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu,
    (character) => `\\u{${Number(character.codePointAt(0)).toString(16)}}`,
  );

/** Rows of equal columns, the first of them the headings. */
export const table = (rows: readonly (readonly string[])[]): string => {
  const widthOf = (column: number): number => Math.max(...rows.map((row) => String(row[column]).length));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widthOf(column)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
};

/** Seconds as people say them. */
export const duration = (seconds: number): string => {
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)} min${whole % 60 === 0 ? '' : ` ${whole % 60} s`}`;
  return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
};
