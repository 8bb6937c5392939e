import { realpathSync, renameSync, rmSync } from 'node:fs';
import { makeFile } from '../../files/new-file.js';
import { type FileFault, type FileNames, isSame, standingAt } from './file-names.js';

/**
 * Clears the names of a database that can be made again: other processes that have it open notice that, and a new one
 * of that name shares nothing with it. FILE becomes FILE.damaged, in the place of an older one; FILE-wal and FILE-shm
 * are removed, symbolic links at these two names as well: SQLite follows none there. Where FILE was moved, and its name
 * leads to it by a symbolic link, the same is done where it is now. What else stands there by now and was not opened is
 * left alone. To be called when the connections of this process are closed. Gives what is to be said
 * about it, in one line; throws an error of the file system.
 */
export const setAside = (file: string, names: FileNames, fault: FileFault): string => {
  let aside = `${file}.damaged`;
  let isKept = false;
  for (const path of names.stillThere()) {
    if (path === names.database.path) {
      renameSync(path, aside);
      isKept = true;
    } else rmSync(path);
  }
  const moved = movedTo(file, names);
  if (moved !== undefined) {
    aside = `${moved}.damaged`;
    renameSync(moved, aside);
    for (const suffix of ['-wal', '-shm']) rmSync(`${moved}${suffix}`, { force: true });
    makeFile(moved); // SQLite would let others read it
    isKept = true;
  }
  for (const { path } of [names.wal, names.shm]) if (standingAt(path)?.isSymbolicLink()) rmSync(path);
  return `${fault.message}: nothing that was acknowledged is lost, for the event log holds it; the lists are built anew from the log, and are not answered until then${isKept ? `; the old ones are in ${aside}, which may be deleted` : ''}`;
};

/**
 * Where the file that was opened stands by now, where its name leads there by a symbolic link: another process that has
 * it open writes to it through a write-ahead log of the old name, and both would spoil it
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
