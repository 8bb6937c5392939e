import { join } from 'node:path';
import { type Logger } from 'pino';
import { type Registry } from 'prom-client';
import { openTreeStore, sharedHeadOf } from './stores.js';
import { openAuditKey, openPreviousKey, originOf } from '../audit/key.js';
import { Eraser } from '../erasure/eraser.js';
import { type Bell } from '../runtime/bell.js';
import { isThere } from '../runtime/new-file.js';
import { showErasures } from './metrics/tree.js';
import { ListProofs } from '../audit/list-proofs.js';
import { CosignedNotes } from '../audit/cosigned-notes.js';
import { PublishedTree } from '../audit/published-tree.js';
import { decorate } from '../log/decorate.js';
import { type EventLog } from '../log/event-log.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { type Alarm, type TreeStore } from '../audit/tree-store.js';
import { AuditorThread } from './auditor-thread.js';
import { type Config } from './config.js';
import { now } from './now.js';
import { type Resources } from './resources.js';

/** The tree that this process publishes, with its auditor. */
interface OpenedTree {
  readonly auditor: AuditorThread;
  readonly published: PublishedTree;
  readonly lists: ListProofs;
  readonly store: TreeStore;
  /** Ends the auditor's thread. */
  readonly stop: () => Promise<void>;
}

/** Opens the tree and starts the auditor, if this process has that role. */
export const openTree = async (
  log: EventLog,
  { roles, dataDir, auditOrigin, auditWitnesses, environment }: Config,
  logger: Logger,
  resources: Resources,
  /** Rings at each new state of the auditor. */
  news: Pick<Bell, 'ring'>,
): Promise<OpenedTree | undefined> => {
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
      : `there was no ${file} beside ${keyFile}, so the tree is rebuilt from the log, and of what was signed before this start only what the log records is known here: if it was moved or lost, stop the service, put it back from there or from a backup, and keep the new one too; else compare with checkpoints that auditors have kept (docs/audit.md)`;
  if (notice !== undefined) logger.warn(notice);
  const opened = await openTreeStore(file, log.identity());
  resources.add(() => opened.close());
  const previousKey = await openPreviousKey(dataDir, key);
  const auditor = new AuditorThread(
    { shared: sharedHeadOf(log), key, previousKey, notice },
    environment(),
    log,
    now,
    logger,
    news,
  );
  const stop = resources.run((signal) => auditor.run(signal));
  const store = writtenBy(auditor, opened);
  const recheckSoon = (): void => {
    auditor.recheckSoon();
  };
  const isFailing = (name: string): boolean => {
    const { witnesses = [] } = auditor.status.witnessing ?? {};
    return witnesses.some(
      ({ witness, state }) => witness === name && state !== 'waiting' && state !== 'cosigns',
    );
  };
  const keys = auditWitnesses?.targets.map((target) => target.key) ?? [];
  const notes = auditWitnesses && new CosignedNotes(store, keys, auditWitnesses.required, [key], isFailing);
  const published = new PublishedTree(log, store, now, recheckSoon, [key], notes);
  const lists = new ListProofs(log, store, published, now, recheckSoon);
  return { auditor, published, lists, store, stop };
};

/** The store, to which the auditor's thread writes: this thread does not wait for its locks and fsyncs. */
const writtenBy = (auditor: AuditorThread, store: TreeStore): TreeStore =>
  decorate(store, {
    raise: async (alarm) => {
      if (!(await store.alarm())) await auditor.write({ kind: 'raise', alarm });
    },
    lift: async (by, reason) => (await auditor.write({ kind: 'lift', by, reason })) as Alarm | undefined,
    scrub: async (erasures) => {
      await auditor.write({ kind: 'scrub', erasures });
    },
  });

/** Carries out erasures in this process, which has that tree. */
export const startEraser = (
  log: EventLog,
  model: ReadModelStore,
  tree: TreeStore,
  { logger, registry }: { readonly logger: Logger; readonly registry: Registry },
  resources: Resources,
): Eraser => {
  const eraser = new Eraser(log, model, tree, {
    now,
    onDone: (message) => {
      logger.info(message);
    },
    onProblem: (reason) => {
      logger.warn({ reason }, 'an erasure is failing, retrying');
    },
  });
  showErasures(registry, eraser);
  resources.run((signal) => eraser.run(signal));
  return eraser;
};
