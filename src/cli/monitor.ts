import { readFileSync } from 'node:fs';
import { hash } from 'node:crypto';
import { backoffMs, withJitter } from '../async/backoff.js';
import { pause } from '../async/pause.js';
import { NoteRefused } from '../audit/note.js';
import { isThere, replaceDurably } from '../files/new-file.js';
import { askWitness } from '../witness/ask.js';
import {
  LogRefused,
  LogUnreachable,
  Monitor,
  type MonitorOptions,
  type Seen,
  seenText,
} from '../witness/monitor.js';
import { print } from './context.js';
import { UsageError } from './exit-status.js';
import { stopSignal } from './interrupted.js';
import { printable } from './terminal.js';

/** Tries of `--once` to reach the log: some 8 s in all. */
const TRIES = 5;

/** Pauses while the log cannot be reached. */
const PAUSES = { firstMs: 1_000, longestMs: 60_000 };

/** A checkpoint's cosignatures come some milliseconds after it; 10 reads take 5 s. */
const WITNESS_PAUSE_MS = 500;

/** The options of `plants monitor`. */
export interface MonitorQuestion extends Pick<MonitorOptions, 'url' | 'keys' | 'witnesses' | 'required'> {
  /** The file with the last verified checkpoint. */
  readonly state: string | undefined;
  readonly once: boolean;
  readonly everyMs: number;
  readonly json: boolean;
}

/**
 * Follows a log until it is refused, or interrupted. Returns whether all of it holds. Throws UsageError for a state of
 * another log, LogUnreachable (with `once` only), and Interrupted.
 */
export const monitorLog = async (question: MonitorQuestion): Promise<boolean> => {
  const { state, once, everyMs, json, ...options } = question;
  const signal = stopSignal('interrupted; the last verified checkpoint is kept where --state names a file');
  const monitor = openMonitor(options, state);
  let failures = 0;
  for (;;) {
    const before = monitor.last;
    try {
      const seen = await monitor.look(signal);
      failures = 0;
      if (once || before?.size !== seen.size) printSeen(seen, before?.size, json);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof LogRefused) {
        refuse(error, state, json);
        return false;
      }
      if (!(error instanceof LogUnreachable)) throw error;
      failures += 1;
      if (once && failures === TRIES) throw error;
      if (!once && failures === 1) process.stderr.write(`${printable(error.message)}; it is tried again\n`);
    }
    if (once && failures === 0) return true;
    await pause(failures === 0 ? everyMs : withJitter(backoffMs(failures - 1, PAUSES)), signal);
    signal.throwIfAborted();
  }
};

const printSeen = (seen: Seen, before: number | undefined, json: boolean): void => {
  const { origin, size } = seen;
  print(
    { json },
    { verdict: 'verified', origin, size, before: before ?? null },
    printable(seenText(seen, before)),
  );
};

const openMonitor = (
  options: Pick<MonitorOptions, 'url' | 'keys' | 'witnesses' | 'required'>,
  state: string | undefined,
): Monitor => {
  const keep = (note: string): void => {
    if (state !== undefined) replaceDurably(state, note);
  };
  const waitForWitnesses = async (signal: AbortSignal): Promise<void> => {
    await pause(WITNESS_PAUSE_MS, signal);
    signal.throwIfAborted();
  };
  try {
    const kept = state !== undefined && isThere(state) ? readFileSync(state, 'utf8') : undefined;
    return new Monitor({ ...options, ask: askWitness, waitForWitnesses, keep }, kept);
  } catch (error) {
    if (error instanceof NoteRefused)
      throw new UsageError(`--state ${state ?? ''} holds no checkpoint by these keys: ${error.message}`);
    const { code } = error as NodeJS.ErrnoException;
    throw code === undefined ? error : new UsageError(`--state ${state ?? ''} cannot be read: ${code}`);
  }
};

/** Prints why the log is refused, and keeps both notes beside the state. */
const refuse = ({ message, evidence }: LogRefused, state: string | undefined, json: boolean): void => {
  const files = Object.values(evidence ?? {}).map((note: string) => {
    const file = `${state ?? 'monitor'}.evidence-${hash('sha256', note).slice(0, 16)}`;
    replaceDurably(file, note);
    return file;
  });
  const kept = files.length === 0 ? '' : ` (both notes are in ${files.join(' and ')})`;
  print(
    { json },
    { verdict: 'refused', reason: message, evidence: files },
    printable(`refused: ${message}${kept}`),
  );
};
