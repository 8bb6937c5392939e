import { Worker } from 'node:worker_threads';
import { type BackupProgress, BackupRefused, type CopiedLog, type MakeBackup } from '../../ports/backup.js';

/** What the thread that makes a backup tells. */
export type BackupMessage =
  | { readonly progress: BackupProgress }
  | { readonly made: CopiedLog }
  | { readonly refused: string }
  | { readonly failed: Error };

/** Makes backups of a log in a thread of their own: copying and comparing hold up whatever else their thread does. */
export const backUpApart =
  (log: string): MakeBackup =>
  async (file, { onProgress, signal }) => {
    signal.throwIfAborted();
    const worker = new Worker(new URL('./backup.worker.js', import.meta.url), { workerData: { log, file } });
    const abort = (): void => {
      worker.postMessage('abort');
    };
    signal.addEventListener('abort', abort);
    try {
      return await new Promise<CopiedLog>((resolve, reject) => {
        worker.on('error', reject);
        worker.on('exit', () => {
          reject(new BackupRefused(`the backup ${file} was broken off: try again`));
        });
        worker.on('message', (message: BackupMessage) => {
          if ('progress' in message) onProgress(message.progress);
          else if ('made' in message) resolve(message.made);
          else if (signal.aborted) reject(signal.reason as Error);
          else reject('refused' in message ? new BackupRefused(message.refused) : message.failed);
        });
      });
    } finally {
      signal.removeEventListener('abort', abort);
    }
  };
