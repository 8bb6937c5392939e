import { type Logger } from 'pino';
import { type Registry } from 'prom-client';
import { Eraser } from '../erasure/eraser.js';
import { showErasures } from '../metrics/tree.js';
import { type EventLog } from '../ports/event-log.js';
import { type ReadModelStore } from '../ports/read-model-store.js';
import { type TreeStore } from '../ports/tree-store.js';
import { now } from './now.js';
import { type Resources } from './resources.js';

/** Carries out erasures in this process, if it has the role auditor. */
export const startEraser = (
  log: EventLog,
  model: ReadModelStore,
  tree: { readonly auditor: unknown; readonly store: TreeStore } | undefined,
  { logger, registry }: { readonly logger: Logger; readonly registry: Registry },
  resources: Resources,
): Eraser | undefined => {
  if (!tree?.auditor) return undefined;
  const eraser = new Eraser(log, model, tree.store, {
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
