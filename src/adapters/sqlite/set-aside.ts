import { realpathSync, renameSync, rmSync } from 'node:fs';
import { type FileFault, type FileNames, isSame, standingAt } from './file-names.js';
import { createFile } from './open-file.js';

/**
 * Clears the names of a database that can be rebuilt, so that a new one shares nothing with it. FILE becomes
 * FILE.damaged, replacing an older one; FILE-wal and FILE-shm are removed, also where they are symbolic links, which
 * SQLite does not follow there. Where FILE was moved and its name is a symbolic link to it, the same is done at its new
 * place. Files that were not opened stay. To be called when this process has closed its connections. Others may do the
 * same at the same time, and SQLite removes FILE-wal and FILE-shm as the last of them closes: a name that is gone by
 * then is no failure. Returns one line for the operator; throws an error of the file system.
 */
export const setAside = (file: string, names: FileNames, fault: FileFault): string => {
  let aside = `${file}.damaged`;
  let isKept = false;
  for (const path of names.stillThere()) {
    if (path === names.database.path) isKept = renamed(path, aside);
    else rmSync(path, { force: true });
  }
  const moved = movedTo(file, names);
  if (moved !== undefined) {
    aside = `${moved}.damaged`;
    isKept = renamed(moved, aside);
    for (const suffix of ['-wal', '-shm']) rmSync(`${moved}${suffix}`, { force: true });
    createFile(moved); // SQLite would let others read it
  }
  for (const { path } of [names.wal, names.shm])
    if (standingAt(path)?.isSymbolicLink()) rmSync(path, { force: true });
  return `${fault.message}: nothing that was acknowledged is lost, for the event log holds it; the lists are built anew from the log, and are not answered until then${isKept ? `; the old ones are in ${aside}, which may be deleted` : ''}`;
};

/** Whether the file was still there to be renamed. */
const renamed = (from: string, to: string): boolean => {
  try {
    renameSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
};

/**
 * The new path of the file that was opened, where its name is a symbolic link to it: another process that has it open
 * writes to it through a write-ahead log of the old name, and both would damage it
 * (https://www.sqlite.org/howtocorrupt.html, section 2.5).
 */
const movedTo = (file: string, { database: { path, seen } }: FileNames): string | undefined => {
  try {
    const real = realpathSync(file);
    const now = standingAt(real);
    return real !== path && now !== undefined && isSame(now, seen) ? real : undefined;
  } catch {
    return undefined; // it leads nowhere
  }
};
