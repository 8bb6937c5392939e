import { closeSync, openSync, readdirSync, readFileSync, readSync, renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { cannotSyncFolders, isThere, makeFile } from '../../runtime/new-file.js';
import { type Generation } from '../read-model.js';
import { standingAt } from '../../sqlite/file-names.js';

/** Names the generation that lists are read from. */
export interface Pointer {
  readonly log: string;
  readonly active: Generation | undefined;
}

export const pathOf = (folder: string, generation: Generation): string => join(folder, `${generation}.db`);

export const pointerIn = (folder: string): string => join(folder, 'active');

/** The generations that have a file, or something else of its name, in ascending order. Throws an error of the file system. */
export const generationsIn = (folder: string): Generation[] =>
  readdirSync(folder)
    .flatMap((name) => /^([1-9]\d{0,14})\.db$/.exec(name)?.slice(1, 2) ?? [])
    .map((number) => Number(number) as Generation)
    .sort((a, b) => a - b);

/** Undefined where there is none, or none that can be read. */
export const readPointer = (folder: string): Pointer | undefined => {
  try {
    const { log, active } = JSON.parse(readFileSync(pointerIn(folder), 'utf8')) as Record<string, unknown>;
    const isActive = active === null || Number.isSafeInteger(active);
    if (typeof log !== 'string' || !isActive) return undefined;
    return { log, active: (active ?? undefined) as Generation | undefined };
  } catch {
    return undefined;
  }
};

/** Makes a pointer durable beside the one that is there. Returns what puts it in its place, at once. */
export const preparePointer = async (folder: string, { log, active }: Pointer): Promise<() => void> => {
  const [path, temporary] = [pointerIn(folder), `${pointerIn(folder)}.new`];
  rmSync(temporary, { force: true });
  makeFile(temporary);
  const file = await open(temporary, 'r+');
  try {
    await file.writeFile(`${JSON.stringify({ log, active: active ?? null })}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  return () => {
    renameSync(temporary, path);
  };
};

/** Makes the names in a folder durable, where that can be done, without holding up the event loop. */
export const syncNames = async (folder: string): Promise<void> => {
  if (process.platform === 'win32') return; // which cannot open one
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } catch (error) {
    if (!cannotSyncFolders(error)) throw error;
  } finally {
    await handle.close();
  }
};

/** Removes the files of a generation. Throws an error of the file system. */
export const removeLists = (path: string): void => {
  for (const suffix of ['-journal', '-shm', '-wal', ''])
    rmSync(`${path}${suffix}`, { recursive: true, force: true });
};

/** Removes what a crash has left of generations and pointers that are not there any more. */
export const removeLeftOvers = (folder: string): void => {
  for (const name of readdirSync(folder)) {
    const [, database] = /^(\d+\.db)-(?:wal|shm|journal)$/.exec(name) ?? [];
    if (name === 'active.new' || (database !== undefined && !isThere(join(folder, database))))
      rmSync(join(folder, name), { recursive: true, force: true });
  }
};

/** 'plrm' in ASCII, at this byte of the file: the one file of all generations that versions before this one had. */
const OLD_FORMAT = { at: 68, id: 0x706c726d };

/**
 * Removes the lists of versions before this one, which this one cannot read: they hold names that an erasure would not
 * find there. They were in the place of the folder, or beside it where that is the default. Returns what was removed.
 */
export const removeOldFormat = (folder: string): string | undefined => {
  const old = oldFormatOf(folder);
  if (old !== undefined)
    for (const suffix of ['-wal', '-shm', '.damaged', '']) rmSync(`${old}${suffix}`, { force: true });
  return old;
};

/** The file of the lists of versions before this one, where there is one. */
export const oldFormatOf = (folder: string): string | undefined =>
  [folder, ...(basename(folder) === 'lists' ? [join(dirname(folder), 'read-model.db')] : [])].find(
    isOldFormat,
  );

const isOldFormat = (path: string): boolean => {
  if (standingAt(path)?.isFile() !== true) return false;
  const file = openSync(path, 'r');
  try {
    const id = Buffer.alloc(4);
    return readSync(file, id, 0, 4, OLD_FORMAT.at) === 4 && id.readUInt32BE() === OLD_FORMAT.id;
  } finally {
    closeSync(file);
  }
};
