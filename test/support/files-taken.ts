import { copyFileSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync, truncateSync } from 'node:fs';

/** Rounds of each case: `FILES_ROUNDS=20` is the long form. */
export const ROUNDS = Number(process.env.FILES_ROUNDS ?? 1);

let moves = 0;

/** Another name for each call. */
const elsewhere = (file: string): string => `${file}.elsewhere-${(moves += 1)}`;

/** Ways to take a file away from under those who have it open. */
export const WAYS: Readonly<Record<string, (file: string) => void>> = {
  removed: (file) => {
    rmSync(file);
  },
  moved: (file) => {
    renameSync(file, elsewhere(file));
  },
  'truncated to nothing': (file) => {
    truncateSync(file, 0);
  },
  'cut in half': (file) => {
    truncateSync(file, Math.floor(statSync(file).size / 2));
  },
  'replaced by a copy': (file) => {
    copyFileSync(file, `${file}.copy`);
    renameSync(`${file}.copy`, file);
  },
  'replaced by a folder': (file) => {
    rmSync(file);
    try {
      mkdirSync(file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // the process has put the file back
    }
  },
  'moved, with a symbolic link in its place': (file) => {
    const moved = elsewhere(file);
    renameSync(file, moved);
    symlinkSync(moved, file);
  },
};

/** Prints one line of the table that the long form gives. */
export const told = (row: Readonly<Record<string, string | number>>): void => {
  if (process.env.FILES_ROUNDS !== undefined) process.stdout.write(`${JSON.stringify(row)}\n`);
};
