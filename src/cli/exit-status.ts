import { CommanderError } from 'commander';
import { BackupRefused } from '../adapters/sqlite/backup-refused.js';
import { AuditKeyError } from '../audit/key.js';
import { ExportRefused } from '../audit/bundle-write.js';
import { LocalKeyError } from '../http/auth/local-key.js';
import { EventRefused } from '../plants/errors.js';
import { LogDamaged, LogUnavailable, OutcomeUnknown, UnknownPosition } from '../ports/event-log.js';
import {
  GenerationMissing,
  ReadModelAhead,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
} from '../ports/read-model.js';
import { TreeUnavailable } from '../ports/tree-store.js';
import { WitnessStoreUnavailable } from '../ports/witness-store.js';
import { OperationRefused } from '../rebuilds/rebuilds.js';
import { ConfigError } from '../service/setting-values.js';
import { LogMissing, StartError } from '../service/start-error.js';
import { LogUnreachable } from '../witness/monitor.js';
import { CheckFailed } from './check-files.js';
import { CopyRefused } from './copy-log.js';
import { Interrupted } from './interrupted.js';
import { TokenRefused } from './token.js';

/** The exit statuses. An interrupted command ends, as in shells, with 128 plus the number of the signal. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unreachable: 3, SIGINT: 130, SIGTERM: 143 } as const;

/** The last lines of each command's help. */
export const EXITS = '\nExit status: 0 success, 1 failure, 2 wrong usage or settings, 130 interrupted.';

/** The arguments of a command cannot be used. The message is one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

type ErrorClass = abstract new (...args: never[]) => Error;

/** Errors whose message is one line that says what to do. Any other error is a defect, and printed with its stack. */
const KNOWN: readonly (readonly [exitStatus: number, classes: readonly ErrorClass[]])[] = [
  [EXIT.usage, [ConfigError, LogMissing, TokenRefused, UnknownPosition, UsageError]],
  [EXIT.failed, [StartError, LocalKeyError, AuditKeyError]],
  [EXIT.failed, [LogDamaged, LogUnavailable, OutcomeUnknown, EventRefused, TreeUnavailable]],
  [EXIT.failed, [GenerationMissing, ReadModelAhead, ReadModelIncomplete, ReadModelTampered]],
  [EXIT.failed, [ReadModelUnavailable, OperationRefused, WitnessStoreUnavailable]],
  [EXIT.unreachable, [LogUnreachable]],
  [EXIT.failed, [BackupRefused, CheckFailed, CopyRefused, ExportRefused]],
];

const NOT_ALLOWED = 'run this as a user who may, such as that of the service, or change its permissions';
const NO_PATH =
  'correct the setting or option that names it (DATA_DIR, EVENT_LOG, READ_MODEL, TMPDIR, --to and the like)';

/** What to do about errors of the file system. */
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
  const known = KNOWN.find(([, classes]) => classes.some((known) => error instanceof known));
  return known
    ? { message: error.message, exitStatus: known[0] }
    : { message: fileFault(error) ?? error.stack ?? error.message, exitStatus: EXIT.failed };
};

/** Whether errors are printed as JSON. Commander's own errors come before it has parsed any option. */
export const jsonErrors = process.argv.includes('--json');
