import { type Command } from 'commander';
import { BackupCut, BackupDamaged } from '../../log/backup.js';
import { LogDamaged } from '../../log/event-log.js';
import { recordRun } from '../../operations/last-runs.js';
import { longOperation } from '../../operations/long-operation.js';
import { type NewestCheckpoint, type ProvenCopy, proveCopy } from '../../operations/prove-copy.js';
import { isThere } from '../../runtime/new-file.js';
import { keyName } from '../../transparency/note.js';
import { onlyFor, Refused } from '../../transparency/refused.js';
import { cosignedBy, openSigned, type Trust } from '../../transparency/signed.js';
import { LogRefused } from '../../witness/monitor.js';
import { positiveInteger } from '../arguments.js';
import { CheckFailed, readWhole } from '../check-files.js';
import { exitBy, EXITS_ASKING, UsageError } from '../exit-status.js';
import { stopSignal } from '../interrupted.js';
import { watched } from '../progress.js';
import { settings } from '../settings.js';
import { duration, print, printable, quantity } from '../terminal.js';
import { addKeys, type KeyOptions, trustOf } from '../verifier-keys.js';
import { openMonitor, serviceUrl } from './monitor.js';

/** Defines `plants check-backup`. */
export const define = (command: Command): void => {
  addProof(command.argument('<file>', 'what plants backup made'), 'key')
    .option('--max-seconds <number>', 'fail where it lacks more than so many seconds', positiveInteger)
    .option('--json', 'print one object, and no progress')
    .addHelpText(
      'after',
      `
Nothing is changed. An old one that is proven is a success. All events are read and hashed again, and have to come to what was signed. "old" is the beginning of
the log, and lacks what came later; "forked" holds other events than were signed; "cut" has lost its end or some events;
"damaged" was changed. Without --against it is held against the checkpoints that it records, and what it lacks is not
known. Where the service proves it, and it is of the log of DATA_DIR, the time is recorded there, for status and metrics.

Example:
  npx plants check-backup /backups/events.db --key plants.vkey --against https://plants.example
${EXITS_ASKING}`,
    )
    .action(async (file: string, options: CheckOptions) => {
      if (!isThere(file)) throw new UsageError(`there is no file ${file}`);
      if (options.maxSeconds !== undefined && options.against === undefined)
        throw new UsageError('--max-seconds needs --against, which shows what a backup lacks');
      const signal = stopSignal('interrupted: nothing was found');
      const asked = { ...options, ...trustOf(options), newest: await newestOf(options, signal) };
      exitBy(await checkBackup(file, asked, signal));
    });
};

/** The options of `addProof`. */
export interface ProofOptions extends KeyOptions {
  /** A file with a checkpoint, or the address of the service. */
  readonly against?: string;
}

interface CheckOptions extends ProofOptions {
  readonly maxSeconds?: number;
  readonly json?: boolean;
}

/** Adds the options that say what a backup is held against; `key` names the one for the keys of the log. */
export const addProof = (command: Command, key: 'key' | 'check-with'): Command =>
  addKeys(command, 'has to have cosigned the checkpoint of --against', key).option(
    '--against <file or url>',
    'the newest checkpoint: one that was kept, or the service, which proves what the backup lacks',
    (value) => (IS_URL.test(value) ? serviceUrl(value) : value),
  );

const IS_URL = /^https?:/;

/** The newest checkpoint that the options name. Throws UsageError, CheckFailed where it does not hold, and LogUnreachable. */
export const newestOf = async (
  { against, ...options }: ProofOptions,
  signal: AbortSignal,
): Promise<NewestCheckpoint | undefined> => {
  const trust = trustOf(options);
  if (trust.keys.length === 0)
    throw new UsageError("a backup is proven by the log's key: plants audit-key prints it");
  if (against === undefined && trust.witnesses.length > 0)
    throw new UsageError('--witness is for a checkpoint of --against: those in a backup are not cosigned');
  if (against === undefined) return undefined;
  try {
    if (!IS_URL.test(against)) {
      const opened = await openSigned(await readWhole(against), trust.keys);
      const { cosignedBy: by } = await cosignedBy(opened, trust);
      const times = by.map(({ time }) => time.getTime());
      return { checkpoint: opened, at: times.length === 0 ? undefined : new Date(Math.max(...times)) };
    }
    const monitor = openMonitor({ url: against, ...trust }, undefined);
    const checkpoint = await monitor.look(signal);
    const faultAfter: NewestCheckpoint['faultAfter'] = (tree) =>
      monitor.faultBetween(tree, checkpoint, signal);
    return { checkpoint, at: new Date(), faultAfter };
  } catch (error) {
    if (!(error instanceof Refused || error instanceof LogRefused)) throw error;
    throw new CheckFailed(`--against ${against}: ${error.message}`);
  }
};

/** The result of a check of a backup; `events` where its pages and its checksum hold. */
interface Found extends Partial<Pick<ProvenCopy, 'proven' | 'reason' | 'lacks'>> {
  readonly verdict: ProvenCopy['verdict'] | 'cut' | 'damaged';
  readonly events?: number;
}

interface Asked extends Pick<Trust, 'keys'>, Pick<CheckOptions, 'maxSeconds' | 'json'> {
  readonly newest: NewestCheckpoint | undefined;
  /** All that was written before is in it. */
  readonly madeAt?: Date;
}

/**
 * Checks a backup, prints what it is, and records in DATA_DIR that it was proven by the service. Returns whether it is
 * proven. Throws BackupRefused for what is no backup, and LogUnreachable.
 */
export const checkBackup = async (
  file: string,
  { keys, newest, maxSeconds = Infinity, json = false, madeAt }: Asked,
  signal: AbortSignal,
): Promise<boolean> => {
  const [adapter, { openSqliteLogReader }] = await Promise.all([
    import('../../log/sqlite/backup.js'),
    import('../../log/sqlite/log-reader.js'),
  ]);
  const checking = longOperation(signal, async (onProgress, ended): Promise<Found> => {
    const copied = await adapter.checkBackup(file, { onProgress, signal: ended });
    const log = await openSqliteLogReader(file);
    try {
      const copy = await proveCopy(log, { keys, newest }, ended, onProgress);
      const at = madeAt ?? (copy.lacks?.events === 0 ? new Date() : copy.lastAt);
      if (isProven(copy) && newest?.faultAfter && at) await record(log.identity(), copied.events, at);
      return { ...copy, events: copied.events };
    } finally {
      await log.close();
    }
  });
  const found = await watched({ json }, checking).catch(
    onlyFor<Error, Found>([BackupCut, BackupDamaged, LogDamaged], (error): Found => ({
      verdict: error instanceof BackupCut ? 'cut' : 'damaged',
      reason: error.message,
    })),
  );
  const { verdict, reason = null, events = null, proven = null, lacks } = found;
  const size = newest?.checkpoint.size ?? null;
  const lacking = { lacksEvents: lacks?.events ?? null, lacksSeconds: lacks?.seconds ?? null };
  print(
    { json },
    { verdict, reason, file, events, proven, size, ...lacking },
    printable(`${verdict}: ${reason ?? textOf(found, file, keys.map(keyName).join(' or '))}`),
  );
  return isProven(found) && (!lacks || lacks.events === 0 || (lacks.seconds ?? Infinity) <= maxSeconds);
};

const isProven = ({ verdict }: Found): boolean => verdict === 'proven' || verdict === 'old';

const textOf = ({ events = 0, proven = 0, lacks }: Found, file: string, by: string): string => {
  const rest = events > proven ? `; of the ${events - proven} after them nothing signed tells` : '';
  const missing = (): string => {
    if (!lacks) return 'what it lacks is not known without --against';
    if (lacks.events === 0) return 'it lacks nothing of the newest checkpoint';
    const time = lacks.seconds === undefined ? 'an unknown time' : `${duration(lacks.seconds)} at most`;
    return `it lacks ${quantity(lacks.events, 'event')}, of ${time}`;
  };
  return `${file} holds the first ${quantity(proven, 'event')} that were signed by ${by}${rest}; ${missing()}`;
};

/** Records a proven backup, where it is of the embedded log of the settings. */
const record = async (identity: string, events: number, at: Date): Promise<void> => {
  const { dataDir, eventLog } = settings();
  if (eventLog.kind !== 'sqlite' || !isThere(eventLog.file)) return;
  const { withLog } = await import('../with-stores.js');
  if ((await withLog((log) => Promise.resolve(log.identity()))) !== identity) return;
  await recordRun(dataDir, 'proven-backup', { at: at.toISOString(), events });
};
