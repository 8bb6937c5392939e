import {
  chownSync,
  closeSync,
  fchownSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Folders and files that are created are readable by their owner alone. */
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

/**
 * Creates a folder and its parents, as far as missing; each is durable. Throws an error of the file system. Not by
 * `recursive: true`: where the system refuses a folder with ENOENT, as Linux does in /proc, Node (20 to 24 at least)
 * retries without end.
 */
export const makeFolder = (folder: string): void => {
  const path = resolve(folder);
  const parent = dirname(path);
  try {
    make(path, parent);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && isFolder(path)) return;
    if (code !== 'ENOENT' || parent === path) throw error;
    makeFolder(parent);
    try {
      make(path, parent);
    } catch (again) {
      // Another process may have been faster.
      if ((again as NodeJS.ErrnoException).code !== 'EEXIST' || !isFolder(path)) throw again;
    }
  }
};

/**
 * Creates an empty file. Throws an error of the file system, EEXIST where the name exists: an existing file is never
 * opened, as closing one that SQLite uses in this process would drop SQLite's locks.
 */
export const makeFile = (file: string): void => {
  const handle = openSync(file, 'wx', FILE_MODE);
  try {
    const owner = ownerOf(dirname(file));
    if (owner) fchownSync(handle, owner.uid, owner.gid);
  } finally {
    closeSync(handle);
  }
};

/** Makes the content of a file durable. */
export const syncFile = (file: string): void => {
  const handle = openSync(file, 'r+');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
};

/** Tells whether an fsync of a folder failed since its system has none; else it is an error of the disk. */
export const cannotSyncFolders = (error: unknown): boolean =>
  ['EINVAL', 'ENOTSUP', 'EISDIR', 'EPERM', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '');

/** Makes the names in a folder durable, where that can be done: Windows and some network file systems cannot. */
export const syncFolder = (folder: string): void => {
  if (process.platform === 'win32') return; // which cannot open one
  const handle = openSync(folder, 'r');
  try {
    fsyncSync(handle);
  } catch (error) {
    if (!cannotSyncFolders(error)) throw error;
  } finally {
    closeSync(handle);
  }
};

const make = (path: string, parent: string): void => {
  mkdirSync(path, { mode: FOLDER_MODE });
  const owner = ownerOf(parent);
  if (owner) chownSync(path, owner.uid, owner.gid);
  syncFolder(parent);
};

/**
 * The user and group of something new in a folder that root makes: the folder's owner. Otherwise the service, which
 * runs as that user, could not use what `sudo plants …` has made. Undefined for every other user.
 */
const ownerOf = (folder: string): { readonly uid: number; readonly gid: number } | undefined =>
  process.geteuid?.() === 0 ? statSync(folder) : undefined;

/**
 * Throws an error of the file system where that cannot be said, unlike `existsSync`, which says no: EACCES, ENOTDIR. Not
 * by `throwIfNoEntry`, which from Node 22 on says no for ENOTDIR too.
 */
export const isThere = (path: string): boolean => {
  try {
    statSync(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
};

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** Replaces the content of a file, or makes it: readers find the old or the new content, whole. It is not synced. */
export const replaceFile = (file: string, text: string): void => {
  renameSync(newFile(file, text), file);
};

/** As `replaceFile`, and the new content is durable when it returns. */
export const replaceDurably = (file: string, text: string): void => {
  const temporary = newFile(file, text);
  syncFile(temporary);
  renameSync(temporary, file);
  syncFolder(dirname(file));
};

/** The name of a new file beside `file` with this text. */
const newFile = (file: string, text: string): string => {
  const temporary = `${file}.${process.pid}.new`;
  rmSync(temporary, { force: true });
  makeFile(temporary);
  writeFileSync(temporary, text, { flag: 'r+' }); // it is empty: nothing is to be truncated
  return temporary;
};
