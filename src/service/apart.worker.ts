/** Does one task, and tells how far it is and how it ended. Any message to it aborts that. */
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { backUp } from '../log/sqlite/backup.js';
import { openEventLog, openReadModel, openTreeStore } from './stores.js';
import { isThere } from '../runtime/new-file.js';
import { type OperationProgress } from '../operations/long-operation.js';
import { type Verification, verifyLists } from '../operations/verification.js';
import { EventRefused } from '../domain/errors.js';
import { BackupRefused, type CopiedLog } from '../log/backup.js';
import { LogDamaged, LogUnavailable } from '../log/event-log.js';
import {
  GenerationMissing,
  ReadModelAhead,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../lists/read-model.js';
import { StateAltered, TreeUnavailable } from '../audit/tree-store.js';
import { type Task, type TaskMessage } from './apart.js';
import { loadConfig } from './config.js';

/** Errors whose message is one line that says what to do. */
const KNOWN = [
  ...[BackupRefused, LogDamaged, LogUnavailable, EventRefused, TreeUnavailable, StateAltered],
  ...[GenerationMissing, ReadModelAhead, ReadModelIncomplete, ReadModelUnavailable],
];

const aborted = new AbortController();
const { signal } = aborted;
parentPort?.once('message', () => {
  aborted.abort(new Error('aborted'));
});

const tell = (message: TaskMessage): void => {
  parentPort?.postMessage(message);
};

const onProgress = (progress: OperationProgress): void => {
  tell({ progress });
};

const { eventLog, readModel, dataDir } = loadConfig(process.env);

const verify = async (): Promise<Verification> => {
  const log = await openEventLog(eventLog, { access: 'read' }); // this process may be its owner
  try {
    const model = await openReadModel(readModel, log.identity(), () => undefined, 'read');
    const file = join(dataDir, 'tree.db');
    const tree = isThere(file) ? await openTreeStore(file, log.identity()) : undefined;
    try {
      return await verifyLists(
        { log, model },
        {
          ...{ tree, signal, onProgress },
          onCompared: (compared) => {
            tell({ compared });
            return Promise.resolve();
          },
        },
      );
    } finally {
      await tree?.close();
      await model.close();
    }
  } finally {
    await log.close();
  }
};

const run = (task: Task): Promise<Verification | CopiedLog> => {
  if (task.kind === 'verify') return verify();
  if (eventLog.kind !== 'sqlite') throw new Error('only a log in a file is backed up');
  return backUp(eventLog.file, task.file, { onProgress, signal });
};

try {
  tell({ outcome: await run(workerData as Task) });
} catch (error) {
  const isKnown = KNOWN.some((known) => error instanceof known);
  tell(isKnown ? { refused: (error as Error).message } : { failed: error as Error });
} finally {
  parentPort?.close();
}
