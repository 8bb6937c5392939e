import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { backoffMs, withJitter } from '../../runtime/backoff.js';
import { pause } from '../../runtime/pause.js';
import { NoteRefused } from '../../transparency/note.js';
import { isThere, replaceDurably } from '../../runtime/new-file.js';
import { askWitness } from '../../witness/ask.js';
import {
  LogRefused,
  LogUnreachable,
  Monitor,
  type MonitorOptions as FollowOptions,
  type Seen,
  seenText,
} from '../../witness/monitor.js';
import { nonEmptyText, positiveInteger } from '../arguments.js';
import { exitBy, UsageError } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { print, printable } from '../terminal.js';
import { addKeys, type KeyOptions, trustOf } from '../verifier-keys.js';

/** The longest time between two looks, in seconds: a day. */
const MAX_SECONDS = 86_400;

/** Defines `plants monitor`. */
export const define = (command: Command): void => {
  const cosigns = 'has to cosign, or a file with one in each line; several times for several';
  addKeys(
    command.argument('<url>', 'where the service is, such as https://plants.example', serviceUrl),
    cosigns,
  )
    .option('--state <file>', 'keeps the last verified checkpoint; a restart goes on from it', nonEmptyText)
    .option('--every <seconds>', `how long it waits between two looks, at most ${MAX_SECONDS}`, seconds, 10)
    .option('--once', 'look once, and end')
    .option('--json', 'print one object in each line')
    .addOption(new Option('--token <file>').hideHelp().argParser(tokenIsGone))
    .addHelpText(
      'after',
      `
It needs no token, no database and no settings. It prints a line for each new checkpoint that is signed by one of the
keys and proven to go on from the last one, and ends with one line at the first that is not; both notes are then kept
in files next to --state. A log that cannot be reached is tried again, with --once five times (docs/witnesses.md).

Example:
  npx plants monitor https://plants.example --key plants.vkey --state plants.checkpoint

Exit status: 0 if all of it holds, 1 if something does not, 2 wrong usage, 3 the log cannot be reached, 130 interrupted.`,
    )
    .action(async (url: string, options: MonitorOptions) => {
      exitBy(await monitor(url, options));
    });
};

interface MonitorOptions extends KeyOptions {
  /** The file with the last verified checkpoint. */
  readonly state?: string;
  /** In seconds. */
  readonly every: number;
  readonly once?: true;
  readonly json?: true;
}

const tokenIsGone = (): never => {
  throw new InvalidArgumentError(
    'It was removed: save GET /log/list, and verify your own list with plants check FILE --key VKEY (docs/state-tree.md).',
  );
};

/** The address of a service, without a slash at its end. Throws InvalidArgumentError. */
export const serviceUrl = (value: string): string => {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (!url || !['http:', 'https:'].includes(url.protocol))
    throw new InvalidArgumentError('It must be a URL such as https://plants.example.');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new InvalidArgumentError('It must have no user, query or fragment.');
  return url.href.replace(/\/+$/, '');
};

const seconds = (value: string): number => {
  const number = positiveInteger(value);
  if (number > MAX_SECONDS) throw new InvalidArgumentError(`It must be at most ${MAX_SECONDS}.`);
  return number;
};

/** Tries of `--once` to reach the log: some 8 s in all. */
const TRIES = 5;

/** Pauses while the log cannot be reached. */
const PAUSES = { firstMs: 1_000, longestMs: 60_000 };

/** A checkpoint's cosignatures come some milliseconds after it; 10 reads take 5 s. */
const WITNESS_PAUSE_MS = 500;

/**
 * Follows a log until it is refused, or interrupted. Returns whether all of it holds. Throws UsageError without a key and
 * for a state of another log, LogUnreachable (with `once` only), and Interrupted.
 */
const monitor = async (url: string, options: MonitorOptions): Promise<boolean> => {
  const { state, every, once, json = false } = options;
  const trust = trustOf(options);
  if (trust.keys.length === 0) throw new UsageError("a monitor needs the log's key: give it with --key");
  const signal = stopSignal('interrupted; the last verified checkpoint is kept where --state names a file');
  const monitor = openMonitor({ url, ...trust }, state);
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
    await pause(failures === 0 ? every * 1_000 : withJitter(backoffMs(failures - 1, PAUSES)), signal);
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

/** A monitor that keeps what it verifies in a file, and goes on from there. Throws UsageError where that is none of it. */
export const openMonitor = (
  options: Pick<FollowOptions, 'url' | 'keys' | 'witnesses' | 'required'>,
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
