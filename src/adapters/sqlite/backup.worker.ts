/** Makes one backup, and tells how far it is and how it ended. Any message to it aborts that. */
import { parentPort, workerData } from 'node:worker_threads';
import { BackupRefused } from '../../ports/backup.js';
import { LogUnavailable } from '../../ports/event-log.js';
import { backUp } from './backup.js';
import { type BackupMessage } from './backup-thread.js';

const { log, file } = workerData as { readonly log: string; readonly file: string };
const aborted = new AbortController();
parentPort?.once('message', () => {
  aborted.abort(new Error('aborted'));
});

const tell = (message: BackupMessage): void => {
  parentPort?.postMessage(message);
};

try {
  const made = await backUp(log, file, {
    signal: aborted.signal,
    onProgress: (progress) => {
      tell({ progress });
    },
  });
  tell({ made });
} catch (error) {
  const isKnown = error instanceof BackupRefused || error instanceof LogUnavailable;
  tell(isKnown ? { refused: error.message } : { failed: error as Error });
} finally {
  parentPort?.close();
}
