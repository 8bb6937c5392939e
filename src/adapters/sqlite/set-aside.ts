import { renameSync, rmSync } from 'node:fs';
import { type FileFault, type FileNames, standingAt } from './file-names.js';

/**
 * Clears the names of a database that can be made again: other processes that have it open notice that, and a new one
 * of that name shares nothing with it. FILE becomes FILE.damaged, in the place of an older one; FILE-wal and FILE-shm
 * are removed, symbolic links at these two names as well: SQLite follows none there. What else stands there by now and
 * was not opened is left alone. To be called when the connections of this process are closed. Gives what is to be said
 * about it, in one line; throws an error of the file system.
 */
export const setAside = (file: string, names: FileNames, fault: FileFault): string => {
  const aside = `${file}.damaged`;
  let isKept = false;
  for (const path of names.stillThere()) {
    if (path === names.database.path) {
      renameSync(path, aside);
      isKept = true;
    } else rmSync(path);
  }
  for (const { path } of [names.wal, names.shm]) if (standingAt(path)?.isSymbolicLink()) rmSync(path);
  return `${fault.message}: nothing that was acknowledged is lost, for the event log holds it; the lists are built anew from the log, and are not answered until then${isKept ? `; the old ones are in ${aside}, which may be deleted` : ''}`;
};
