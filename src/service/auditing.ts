import { join } from 'node:path';
import { type Logger } from 'pino';
import { fileLock } from '../adapters/sqlite/file-lock.js';
import { openTreeStore } from '../adapters/stores.js';
import { openAuditKey, openPreviousKey, originOf } from '../audit/key.js';
import { Auditor } from '../audit/auditor.js';
import { CosignedNotes, textFile } from '../audit/cosigned-notes.js';
import { WitnessedBefore } from '../audit/witnessed-before.js';
import { Witnessing, type WitnessTarget } from '../audit/witnessing.js';
import { isThere } from '../files/new-file.js';
import { askWitness } from '../witness/ask.js';
import { ListProofs } from '../audit/list-proofs.js';
import { PublishedTree } from '../audit/published-tree.js';
import { type SignerKey } from '../audit/note.js';
import { type EventLog } from '../ports/event-log.js';
import { type TreeStore } from '../ports/tree-store.js';
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

/** How often a witness that fails is asked again, in milliseconds. */
const WITNESS_PAUSES = { firstMs: 1_000, longestMs: 60_000 };

/**
 * How long witnesses are waited for before the first signature, in milliseconds. Those that work answer in a tenth of it;
 * where one is gone, clients wait so long for their first receipt after a start.
 */
const WITNESSES_FIRST_MS = 3_000;

/** Who cosigns the checkpoints, and what of that is kept. */
interface Witnesses {
  readonly targets: readonly WitnessTarget[];
  readonly notes: CosignedNotes;
}

/** The tree that this process publishes, with its auditor. */
interface OpenedTree {
  readonly auditor: Auditor;
  readonly published: PublishedTree;
  readonly lists: ListProofs;
  readonly store: TreeStore;
}

/** Opens the tree and starts the auditor, if this process has that role. */
export const openTree = async (
  log: EventLog,
  config: Config,
  load: Load,
  logger: Logger,
  resources: Resources,
): Promise<OpenedTree | undefined> => {
  const { roles, dataDir, auditOrigin, auditWitnesses } = config;
  if (!roles.has('auditor')) return undefined;
  const {
    file: keyFile,
    key,
    created,
  } = await openAuditKey(dataDir, auditOrigin ?? originOf(log.identity()));
  const file = join(dataDir, 'tree.db');
  const notice =
    created || isThere(file)
      ? undefined
      : `there was no ${file} beside ${keyFile}, so the tree is built anew from the log, and of what was signed before this start only what the log records is known here: if it was moved or lost, stop the service, put it back from there or from a backup, and keep the new one too; else compare with checkpoints that auditors have kept (docs/audit.md)`;
  if (notice !== undefined) logger.warn(notice);
  const store = await openTreeStore(file, log.identity());
  resources.add(() => store.close());
  const witnesses = auditWitnesses && {
    targets: auditWitnesses.targets,
    notes: new CosignedNotes(
      textFile(join(dataDir, 'witnessed.json')),
      auditWitnesses.targets.map((target) => target.key),
      auditWitnesses.required,
      [key],
      fileLock(join(dataDir, 'witnessed.lock')),
    ),
  };
  const auditor = await startAuditor({ log, store, key, notice, load, witnesses }, config, logger, resources);
  const recheckSoon = (): void => {
    auditor.recheckSoon();
  };
  const published = new PublishedTree(log, store, now, recheckSoon, [key], witnesses?.notes);
  return { auditor, published, lists: new ListProofs(log, store, published, now, recheckSoon), store };
};

const startAuditor = async (
  {
    log,
    store,
    key,
    notice,
    load,
    witnesses,
  }: {
    readonly log: EventLog;
    readonly store: TreeStore;
    readonly key: SignerKey;
    readonly notice: string | undefined;
    readonly load: Load;
    readonly witnesses: Witnesses | undefined;
  },
  { dataDir, auditRecheckSeconds }: Config,
  logger: Logger,
  resources: Resources,
): Promise<Auditor> => {
  const previousKey = await openPreviousKey(dataDir, key);
  const pacing = new Pacing(load);
  const witnessing = witnesses && startWitnessing(log, store, key, witnesses, logger, resources);
  const auditor = new Auditor(log, store, key, {
    now,
    giveWay: (signal) => pacing.giveWay(signal),
    patienceMs: SHORT_LOG_MS,
    recheckMs: auditRecheckSeconds * 1_000,
    notice,
    recording: { afterMs: RECORD_AFTER_MS, everyMs: RECORD_EVERY_MS, previousKey },
    witnessing,
    witnessedBefore:
      witnesses &&
      new WitnessedBefore(log, store, key, witnesses.targets, {
        ask: askWitness,
        timeoutMs: WITNESSES_FIRST_MS,
        patienceMs: SHORT_LOG_MS,
      }),
    onWarning: (message) => {
      logger.warn(message);
    },
    onState: (status) => {
      logAuditor(logger, status);
    },
  });
  resources.run((signal) => auditor.run(signal));
  return auditor;
};

const startWitnessing = (
  log: EventLog,
  store: TreeStore,
  key: SignerKey,
  { targets, notes }: Witnesses,
  logger: Logger,
  resources: Resources,
): Witnessing => {
  const witnessing = new Witnessing(log, store, key, targets, notes, {
    now,
    ask: askWitness,
    patienceMs: SHORT_LOG_MS,
    pauses: WITNESS_PAUSES,
    onState: ({ witness, state, reason }) => {
      const level = state === 'disagrees' ? 'error' : state === 'cosigns' ? 'info' : 'warn';
      logger[level]({ witness, reason }, `the witness ${witness}: ${state}`);
    },
  });
  resources.run((signal) => witnessing.run(signal));
  return witnessing;
};
