import { CommanderError } from 'commander';
import { Interrupted } from './interrupted.js';

/** The exit statuses. An interrupted command ends, as in shells, with 128 plus the number of the signal. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unreachable: 3, SIGINT: 130, SIGTERM: 143 } as const;

/** Ends with the exit status of a command that has found all well, or not. */
export const exitBy = (isWell: boolean): void => {
  process.exitCode = isWell ? EXIT.ok : EXIT.failed;
};

/** The last lines of a command's help. */
export const EXITS = '\nExit status: 0 success, 1 failure, 2 wrong usage or settings, 130 interrupted.';

/** Of a command that may ask a running service. */
export const EXITS_ASKING = EXITS.replace('130', '3 the service cannot be reached, 130');

/** The arguments of a command cannot be used. The message is one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

const statuses = (status: number, names: readonly string[]): Record<string, number> =>
  Object.fromEntries(names.map((name) => [name, status]));

/**
 * Errors by their names, whose message is one line that says what to do. Any other error is a defect, and printed with
 * its stack. By name, so that a short command does not load whatever another one may throw.
 */
const KNOWN: Readonly<Record<string, number>> = {
  ...statuses(EXIT.usage, ['ConfigError', 'LogMissing', 'TokenRefused', 'UnknownPosition', 'UsageError']),
  ...statuses(EXIT.failed, ['StartError', 'LocalKeyError', 'AuditKeyError', 'EventRefused']),
  ...statuses(EXIT.failed, [
    'LogDamaged',
    'LogInUse',
    'LogUnavailable',
    'OutcomeUnknown',
    'TreeUnavailable',
    'StateAltered',
    'StreamErased',
  ]),
  ...statuses(EXIT.failed, [
    'GenerationMissing',
    'ReadModelAhead',
    'ReadModelIncomplete',
    'ReadModelTampered',
  ]),
  ...statuses(EXIT.failed, ['ReadModelUnavailable', 'WitnessStoreUnavailable', 'ServiceRefused']),
  ...statuses(EXIT.failed, ['OperationRefused', 'RebuildNotUnderWay', 'UnknownOwner']),
  ...statuses(EXIT.failed, ['BackupRefused', 'CheckFailed', 'CopyRefused', 'ExportRefused']),
  ...statuses(EXIT.unreachable, ['LogUnreachable', 'ServiceUnreachable']),
};

const NOT_ALLOWED = 'run this as a user who may, such as that of the service, or change its permissions';
const NO_PATH =
  'correct the setting or option that names it (DATA_DIR, EVENT_LOG, READ_MODEL, TMPDIR, --to and the like)';

/** The advice for errors of the file system. */
const FILE_ADVICE: Readonly<Record<string, string>> = {
  EACCES: NOT_ALLOWED,
  EPERM: NOT_ALLOWED,
  ENOTDIR: `a part of that path is no folder: ${NO_PATH}`,
  ELOOP: `its symbolic links lead in a circle: ${NO_PATH}`,
};

const fileFault = (error: Error): string | undefined => {
  const { code = '', path } = error as NodeJS.ErrnoException;
  const advice = FILE_ADVICE[code];
  return path === undefined || advice === undefined
    ? undefined
    : `${path} cannot be used (${code}): ${advice}`;
};

/** The text that is printed for an error (none where Commander has printed it) and its exit status. */
export const outcomeOf = (
  error: unknown,
): { readonly message: string | undefined; readonly exitStatus: number } => {
  if (error instanceof CommanderError)
    return error.exitCode === 0
      ? { message: undefined, exitStatus: EXIT.ok }
      : { message: jsonErrors ? error.message.replace(/^error: /, '') : undefined, exitStatus: EXIT.usage };
  if (error instanceof Interrupted) return { message: error.message, exitStatus: EXIT[error.signal] };
  if (!(error instanceof Error)) return { message: String(error), exitStatus: EXIT.failed };
  const exitStatus = KNOWN[error.name];
  return exitStatus !== undefined
    ? { message: error.message, exitStatus }
    : { message: fileFault(error) ?? error.stack ?? error.message, exitStatus: EXIT.failed };
};

/** True if errors are printed as JSON. Commander's own errors come before it has parsed any option. */
export const jsonErrors = process.argv.includes('--json');
