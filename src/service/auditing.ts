import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Logger } from 'pino';
import { openTreeStore } from '../adapters/stores.js';
import { openAuditKey, openPreviousKey, originOf } from '../audit/key.js';
import { Auditor } from '../audit/auditor.js';
import { PublishedTree } from '../audit/published-tree.js';
import { type EventLog } from '../ports/event-log.js';
import { type Load } from '../projector/load.js';
import { Pacing } from '../projector/pacing.js';
import { type Config } from './config.js';
import { now } from './now.js';
import { type Resources } from './resources.js';
import { logAuditor } from './state-lines.js';

/** How long a log may seem shorter than its tree before that is an alarm, in milliseconds: a server may lag behind. */
const SHORT_LOG_MS = 10_000;

/**
 * How long after its first checkpoint an auditor records one in a log without any, and how long after each the next, in
 * milliseconds: a thousandth of the events of a busy log, and 9,000 a year at most.
 */
const RECORD_AFTER_MS = 60_000;
const RECORD_EVERY_MS = 3_600_000;

/** Starts the auditor, if this process has that role. */
export const startAuditor = async (
  log: EventLog,
  { roles, dataDir, auditOrigin, auditRecheckSeconds }: Config,
  load: Load,
  logger: Logger,
  resources: Resources,
): Promise<{ readonly auditor: Auditor; readonly published: PublishedTree } | undefined> => {
  if (!roles.has('auditor')) return undefined;
  const {
    file: keyFile,
    key,
    created,
  } = await openAuditKey(dataDir, auditOrigin ?? originOf(log.identity()));
  const previousKey = await openPreviousKey(dataDir, key);
  const file = join(dataDir, 'tree.db');
  const notice =
    created || existsSync(file)
      ? undefined
      : `there was no ${file} beside ${keyFile}, so the tree is built anew from the log, and of what was signed before this start only what the log records is known here: if it was moved or lost, stop the service, put it back from there or from a backup, and keep the new one too; else compare with checkpoints that auditors have kept (docs/audit.md)`;
  if (notice !== undefined) logger.warn(notice);
  const store = await openTreeStore(file, log.identity());
  resources.add(() => store.close());
  const pacing = new Pacing(load);
  const auditor = new Auditor(log, store, key, {
    now,
    giveWay: (signal) => pacing.giveWay(signal),
    patienceMs: SHORT_LOG_MS,
    recheckMs: auditRecheckSeconds * 1_000,
    notice,
    recording: { afterMs: RECORD_AFTER_MS, everyMs: RECORD_EVERY_MS, previousKey },
    onWarning: (message) => {
      logger.warn(message);
    },
    onState: (status) => {
      logAuditor(logger, status);
    },
  });
  resources.run((signal) => auditor.run(signal));
  const published = new PublishedTree(
    log,
    store,
    now,
    () => {
      auditor.recheckSoon();
    },
    [key],
  );
  return { auditor, published };
};
