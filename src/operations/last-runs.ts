import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { replaceDurably } from '../runtime/new-file.js';

/** The records of the last run of each kind in DATA_DIR, for status and metrics of the processes there. */
interface Runs {
  /** `plants backup`. */
  readonly backup: Readonly<{ at: string; head: string; events: number }>;
  /** A backup of this log that was proven to hold what was signed, and all that was written before `at`. */
  readonly 'proven-backup': Readonly<{ at: string; events: number }>;
  /** A comparison of the lists with the log, by `plants verify`, the schedule or a rebuild. */
  readonly verify: Readonly<{ at: string; differing: number }>;
}

export type LastVerify = Runs['verify'];
export type ProvenBackup = Runs['proven-backup'];

const at = z.iso.datetime();

const RUNS: { readonly [Name in keyof Runs]: z.ZodType<Runs[Name]> } = {
  backup: z.object({ at, head: z.string(), events: z.int() }),
  'proven-backup': z.object({ at, events: z.int() }),
  verify: z.object({ at, differing: z.int().min(0) }),
};

const fileOf = (dataDir: string, name: keyof Runs): string => join(dataDir, `last-${name}.json`);

/** Records a run. Rejects with what the file system throws. */
export const recordRun = <Name extends keyof Runs>(
  dataDir: string,
  name: Name,
  run: Runs[Name],
): Promise<void> =>
  new Promise((resolve) => {
    replaceDurably(fileOf(dataDir, name), `${JSON.stringify(run)}\n`);
    resolve();
  });

/** The last run that was recorded. Undefined where there is none, or it cannot be parsed. */
export const lastRun = async <Name extends keyof Runs>(
  dataDir: string,
  name: Name,
): Promise<Runs[Name] | undefined> => {
  try {
    return RUNS[name].safeParse(JSON.parse(await readFile(fileOf(dataDir, name), 'utf8'))).data;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
};
