import { Worker } from 'node:worker_threads';
import { type OperationProgress } from '../operations/long-operation.js';
import { type OperatedSystem } from '../operations/local.js';
import { type Verification } from '../operations/verification.js';
import { type CopiedLog } from '../log/backup.js';
import { OperationRefused } from '../commands/rebuilds.js';
import { type Config } from './config.js';

/** A task for a thread, on the stores of the settings that it gets as its environment. */
export type Task = { readonly kind: 'backup'; readonly file: string } | { readonly kind: 'verify' };

/** `compared` is the number of plants that differ from the log for certain. */
export type TaskMessage =
  | { readonly progress: OperationProgress }
  | { readonly compared: number }
  | { readonly outcome: unknown }
  | { readonly refused: string }
  | { readonly failed: Error };

/**
 * Runs a task in a thread of its own, with connections of its own: it would hold up other work of this thread.
 * Throws OperationRefused with the message of a store's error, and the signal's reason.
 */
const apart = async <Outcome>(
  task: Task,
  { environment }: Pick<Config, 'environment'>,
  signal: AbortSignal,
  onMessage: (message: TaskMessage) => void,
): Promise<Outcome> => {
  signal.throwIfAborted();
  const worker = new Worker(new URL('./apart.worker.js', import.meta.url), {
    workerData: task,
    env: environment(),
  });
  const abort = (): void => {
    worker.postMessage('abort');
  };
  signal.addEventListener('abort', abort);
  try {
    return await new Promise<Outcome>((resolve, reject) => {
      worker.on('error', reject);
      worker.on('exit', () => {
        reject(new Error(`the thread of a ${task.kind} has ended`));
      });
      worker.on('message', (message: TaskMessage) => {
        if ('outcome' in message) resolve(message.outcome as Outcome);
        else if (signal.aborted) reject(signal.reason as Error);
        else if ('refused' in message) reject(new OperationRefused(message.refused));
        else if ('failed' in message) reject(message.failed);
        else onMessage(message);
      });
    });
  } finally {
    signal.removeEventListener('abort', abort);
  }
};

/** The operations that are carried out in threads of their own, on the stores of the settings. */
export const operationsApart = (config: Config): Pick<OperatedSystem, 'backUp' | 'verify'> => ({
  backUp:
    config.eventLog.kind === 'sqlite'
      ? (file, onProgress, signal) =>
          apart<CopiedLog>({ kind: 'backup', file }, config, signal, (message) => {
            if ('progress' in message) onProgress(message.progress);
          })
      : undefined,
  verify: async ({ signal, onProgress, onCompared }) => {
    let recorded = Promise.resolve();
    const found = await apart<Verification>({ kind: 'verify' }, config, signal, (message) => {
      if ('progress' in message) onProgress(message.progress);
      else if ('compared' in message) recorded = onCompared(message.compared);
    });
    await recorded;
    return found;
  },
});
