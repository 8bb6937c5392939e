import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { replaceDurably } from '../runtime/new-file.js';

/** The last `plants backup`. */
const LastBackup = z.object({ at: z.iso.datetime(), head: z.string(), events: z.int() });

/** The last comparison of the lists with the log, by `plants verify`, the schedule or a rebuild. */
const LastVerify = z.object({ at: z.iso.datetime(), differing: z.int().min(0) });

export type LastBackup = z.infer<typeof LastBackup>;
export type LastVerify = z.infer<typeof LastVerify>;

const backupFile = (dataDir: string): string => join(dataDir, 'last-backup.json');
const verifyFile = (dataDir: string): string => join(dataDir, 'last-verify.json');

/** Records a backup in DATA_DIR, for the metrics of the processes there. Rejects with what the file system throws. */
export const recordBackup = (dataDir: string, backup: LastBackup): Promise<void> =>
  record(backupFile(dataDir), backup);

/** Records a comparison in DATA_DIR, for the metrics of the processes there. Rejects as above. */
export const recordVerify = (dataDir: string, verified: LastVerify): Promise<void> =>
  record(verifyFile(dataDir), verified);

/** The last backup that was recorded. Undefined where there is none, or it cannot be parsed. */
export const lastBackup = async (dataDir: string): Promise<LastBackup | undefined> =>
  LastBackup.safeParse(await read(backupFile(dataDir))).data;

/** The last comparison that was recorded. Undefined as above. */
export const lastVerify = async (dataDir: string): Promise<LastVerify | undefined> =>
  LastVerify.safeParse(await read(verifyFile(dataDir))).data;

const record = (file: string, run: LastBackup | LastVerify): Promise<void> =>
  new Promise((resolve) => {
    replaceDurably(file, `${JSON.stringify(run)}\n`);
    resolve();
  });

/** The value of a JSON file; undefined where the file does not exist or is no JSON. */
const read = async (file: string): Promise<unknown> => {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
};
