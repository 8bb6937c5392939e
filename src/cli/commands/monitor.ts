import { type Command, InvalidArgumentError, Option } from 'commander';
import { type VerifierKey } from '../../audit/note.js';
import { nonEmptyText, positiveInteger } from '../arguments.js';
import { EXIT, UsageError } from '../exit-status.js';
import { demandOf, verifierKeysOf } from '../verifier-keys.js';

/** The longest time between two looks, in seconds: a day. */
const MAX_SECONDS = 86_400;

/** Defines `plants monitor`. */
export const monitorCommand = (command: Command): void => {
  command
    .argument('<url>', 'where the service is, such as https://plants.example', serviceUrl)
    .option(
      '--key <vkey>',
      "the log's key, or a file with one in each line: plants audit-key prints it; several times for old and new keys",
      verifierKeysOf('ed25519'),
      [],
    )
    .option(
      '--witness <vkey>',
      'the key of a witness that has to cosign, or a file with one in each line; several times for several',
      verifierKeysOf('cosignature'),
      [],
    )
    .option('--witnesses-required <number>', 'how many of them have to; all unless set', positiveInteger)
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
in files beside --state. A log that cannot be reached is tried again, with --once five times (docs/witnesses.md).

Example:
  npx plants monitor https://plants.example --key plants.vkey --state plants.checkpoint

Exit status: 0 if all of it holds, 1 if something does not, 2 wrong usage, 3 the log cannot be reached, 130 interrupted.`,
    )
    .action(monitor);
};

interface MonitorArguments {
  readonly key: readonly VerifierKey[];
  readonly witness: readonly VerifierKey[];
  readonly witnessesRequired?: number;
  readonly state?: string;
  readonly every: number;
  readonly once?: true;
  readonly json?: true;
}

const monitor = async (url: string, given: MonitorArguments): Promise<void> => {
  const { key: keys, witness, witnessesRequired } = given;
  if (keys.length === 0) throw new UsageError("a monitor needs the log's key: give it with --key");
  const { witnesses, required } = demandOf(witness, witnessesRequired);
  const { state, every, once = false, json = false } = given;
  const { monitorLog } = await import('../monitor.js');
  const holds = await monitorLog({
    url,
    keys,
    witnesses,
    required,
    state,
    once,
    everyMs: every * 1_000,
    json,
  });
  process.exitCode = holds ? EXIT.ok : EXIT.failed;
};

const tokenIsGone = (): never => {
  throw new InvalidArgumentError(
    'It is gone: save GET /log/list, and verify your own list with plants check FILE --key VKEY (docs/state-tree.md).',
  );
};

const serviceUrl = (value: string): string => {
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
