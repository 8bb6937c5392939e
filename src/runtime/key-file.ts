import { constants } from 'node:fs';
import { link, open, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeFile, makeFolder, syncFolder } from './new-file.js';
import { randomId } from './runtime.js';

/** A file that holds one private key. */
export interface KeyFile {
  readonly file: string;
  /** The name of the key in messages, such as `audit key`. */
  readonly name: string;
  /** The error for a key that cannot be made or read. Its message is one line and holds nothing of the key. */
  readonly Refused: new (message: string) => Error;
}

/** Windows has no permission bits: it reports 0666 for every file. */
const POSIX = process.platform !== 'win32';

/** Opens for reading without waiting: a named pipe would wait for a writer forever. */
const READ_AT_ONCE = constants.O_RDONLY | (POSIX ? constants.O_NONBLOCK : 0);

/** The text of a key file; undefined if there is none. Throws `Refused`, also where other users can read the file. */
export const readKeyFile = async ({ file, name, Refused }: KeyFile): Promise<string | undefined> => {
  try {
    const handle = await open(file, READ_AT_ONCE);
    try {
      const status = await handle.stat();
      if (!status.isFile()) throw new Refused(`the ${name} ${file} is not a file`);
      if (POSIX && (status.mode & 0o077) !== 0)
        throw new Refused(`others can read the ${name} ${file}; run: chmod 600 ${file}`);
      return await handle.readFile('utf8');
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof Refused) throw error;
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new Refused(`cannot read the ${name} ${file}: ${codeOf(error)}`);
  }
};

/**
 * The text of a key file, which is written with what `make` returns if there is none. Processes that start together
 * agree on one key: each writes its own under another name and links it into place, which only the first can.
 * `created`: whether this call did. Throws `Refused`, and what `make` throws.
 */
export const openKeyFile = async (
  keyFile: KeyFile,
  make: () => Promise<string> | string,
): Promise<{ readonly text: string; readonly created: boolean }> => {
  const existing = await readKeyFile(keyFile);
  if (existing !== undefined) return { text: existing, created: false };
  const created = await writeKeyFile(keyFile, await make());
  const text = await readKeyFile(keyFile);
  if (text === undefined) throw new keyFile.Refused(`${keyFile.file} went away while it was being made`);
  return { text, created };
};

/** Returns false where the file exists. */
const writeKeyFile = async ({ file, name, Refused }: KeyFile, text: string): Promise<boolean> => {
  const temporary = `${file}.${randomId()}`;
  try {
    makeFolder(dirname(file));
    makeFile(temporary);
    const handle = await open(temporary, 'r+');
    try {
      await handle.writeFile(text);
      await handle.sync();
      // Unlike a rename, a link never replaces what is there.
      await link(temporary, file);
    } finally {
      await handle.close();
      await unlink(temporary);
    }
    syncFolder(dirname(file));
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw new Refused(`cannot make the ${name} ${file}: ${codeOf(error)}`);
  }
};

/** An error of the file system by its code alone: messages may hold a part of a file. */
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);
