import { createPrivateKey, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { link, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFile, makeFolder, syncFolder } from '../files/new-file.js';
import { type SignerKey, signerKey } from './signed-note.js';

/** The key of the checkpoints cannot be made or used. The message is one line and holds nothing of the key. */
export class AuditKeyError extends Error {
  override readonly name = 'AuditKeyError';
}

/** The key that checkpoints are signed with. */
export interface AuditKey {
  readonly file: string;
  readonly key: SignerKey;
  /** Whether this call made it. */
  readonly created: boolean;
}

/** What a log is called in its checkpoints, where AUDIT_ORIGIN does not name it. */
export const originOf = (logIdentity: string): string => `plants/${logIdentity}`;

/**
 * Opens the key in DATA_DIR under the name of the log, making it first where there is none. As with the key of
 * tokens, processes that start together agree on one: each writes its own in full, one of them gets to link it into
 * place. Throws AuditKeyError, and NoteRefused for an origin that is no name of a key.
 */
export const openAuditKey = async (dataDir: string, origin: string): Promise<AuditKey> => {
  const file = join(dataDir, 'audit-key.pem');
  const existing = await readKey(file);
  if (existing) return { file, key: signerKey(origin, existing), created: false };
  const created = await createKey(dataDir, file);
  const written = await readKey(file);
  if (!written) throw new AuditKeyError(`${file} went away while it was being made`);
  return { file, key: signerKey(origin, written), created };
};

/**
 * The key before, where an operator has moved it aside to change it: it signs the first record of the new one. Undefined
 * where there is none, or where it is the same key. Throws as `openAuditKey`.
 */
export const openPreviousKey = async (dataDir: string, key: SignerKey): Promise<SignerKey | undefined> => {
  const existing = await readKey(join(dataDir, 'audit-key-previous.pem'));
  const previous = existing && signerKey(key.name, existing);
  return previous?.id === key.id ? undefined : previous;
};

/** Windows has no permission bits (it reports 0666 for every file) and cannot sync a folder. */
const POSIX = process.platform !== 'win32';

/** Opens for reading without waiting: a named pipe would wait for a writer, forever. */
const READ_AT_ONCE = constants.O_RDONLY | (POSIX ? constants.O_NONBLOCK : 0);

/** The key in the file, or undefined if there is none. */
const readKey = async (file: string): Promise<KeyObject | undefined> => {
  let text: string;
  try {
    const handle = await open(file, READ_AT_ONCE);
    try {
      const status = await handle.stat();
      if (!status.isFile()) throw new AuditKeyError(`the audit key ${file} is not a file`);
      if (POSIX && (status.mode & 0o077) !== 0)
        throw new AuditKeyError(`others can read the audit key ${file}; run: chmod 600 ${file}`);
      text = await handle.readFile('utf8');
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof AuditKeyError) throw error;
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new AuditKeyError(`cannot read the audit key ${file}: ${codeOf(error)}`);
  }
  const key = privateKeyIn(text);
  if (key?.asymmetricKeyType !== 'ed25519')
    throw new AuditKeyError(`the audit key ${file} is damaged: it is no private Ed25519 key (PKCS #8, PEM)`);
  return key;
};

const privateKeyIn = (text: string): KeyObject | undefined => {
  try {
    return createPrivateKey(text);
  } catch {
    return undefined; // what OpenSSL says may hold a part of it
  }
};

/** Makes a key. Gives whether it is the one that now stands in the file: another process may have been faster. */
const createKey = async (dataDir: string, file: string): Promise<boolean> => {
  const { privateKey } = generateKeyPairSync('ed25519');
  const temporary = `${file}.${randomUUID()}`;
  try {
    makeFolder(dataDir);
    makeFile(temporary);
    const handle = await open(temporary, 'r+');
    try {
      await handle.writeFile(privateKey.export({ type: 'pkcs8', format: 'pem' }));
      await handle.sync();
      // Unlike a rename, a link never replaces what is there.
      await link(temporary, file);
    } finally {
      await handle.close();
      await unlink(temporary);
    }
    syncFolder(dataDir);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw new AuditKeyError(`cannot make the audit key ${file}: ${codeOf(error)}`);
  }
};

/** An error of the file system as its code, which says enough and holds nothing of a file. */
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);
