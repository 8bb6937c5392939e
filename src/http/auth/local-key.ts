import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { link, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import {
  calculateJwkThumbprint,
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
} from 'jose';
import { makeFile, makeFolder, syncFolder } from '../../files/new-file.js';

/** ES256: what every JWT library can verify, and small enough to make in a few milliseconds at first start. */
export const LOCAL_KEY_ALGORITHM = 'ES256';

/** The key that signs the tokens of a service without an issuer. */
export interface LocalKey {
  readonly file: string;
  /** The thumbprint of the public key (RFC 7638): tokens name the key by it. */
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
  /** Whether this call made it. */
  readonly created: boolean;
}

/** The local key cannot be made or used. The message is one line for the operator and holds nothing of the key. */
export class LocalKeyError extends Error {
  override readonly name = 'LocalKeyError';
}

/**
 * Opens the local key, making it first where there is none. Processes that start together agree on one key: each
 * writes its own in full under another name, one of them gets to link it into place, the others read that one.
 */
export const openLocalKey = async (dataDir: string): Promise<LocalKey> => {
  const file = join(dataDir, 'signing-key.json');
  const text = await readKey(file);
  if (text !== undefined) return { ...(await parseKey(file, text)), created: false };
  const created = await createKey(dataDir, file);
  const written = await readKey(file);
  if (written === undefined) throw new LocalKeyError(`${file} went away while it was being made`);
  return { ...(await parseKey(file, written)), created };
};

/** Windows has no permission bits: it reports 0666 for every file. */
const POSIX = process.platform !== 'win32';

/** Opens for reading without waiting: a named pipe would wait for a writer, forever. */
const READ_AT_ONCE = constants.O_RDONLY | (POSIX ? constants.O_NONBLOCK : 0);

/** The text of the key file, or undefined if there is none. */
const readKey = async (file: string): Promise<string | undefined> => {
  try {
    const handle = await open(file, READ_AT_ONCE);
    try {
      const status = await handle.stat();
      if (!status.isFile()) throw new LocalKeyError(`the signing key ${file} is not a file`);
      if (POSIX && (status.mode & 0o077) !== 0)
        throw new LocalKeyError(`others can read the signing key ${file}; run: chmod 600 ${file}`);
      return await handle.readFile('utf8');
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof LocalKeyError) throw error;
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new LocalKeyError(`cannot read the signing key ${file}: ${codeOf(error)}`);
  }
};

/** Makes a key. Gives whether it is the one that now stands in the file: another process may have been faster. */
const createKey = async (dataDir: string, file: string): Promise<boolean> => {
  const { privateKey } = await generateKeyPair(LOCAL_KEY_ALGORITHM, { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), alg: LOCAL_KEY_ALGORITHM, use: 'sig' };
  const temporary = `${file}.${randomUUID()}`;
  try {
    makeFolder(dataDir);
    makeFile(temporary);
    const handle = await open(temporary, 'r+');
    try {
      await handle.writeFile(`${JSON.stringify(jwk)}\n`);
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
    throw new LocalKeyError(`cannot make the signing key ${file}: ${codeOf(error)}`);
  }
};

const parseKey = async (file: string, text: string): Promise<Omit<LocalKey, 'created'>> => {
  const jwk = jwkIn(text);
  if (!jwk)
    throw new LocalKeyError(
      `the signing key ${file} is damaged: it is not a private ${LOCAL_KEY_ALGORITHM} key`,
    );
  if (jwk.d === undefined)
    throw new LocalKeyError(`the signing key ${file} holds only the public part, which cannot sign`);
  const { kty, crv, x, y } = jwk;
  try {
    // Refuses parts that come from two keys, too.
    const imported = await importJWK({ kty, crv, x, y, d: jwk.d }, LOCAL_KEY_ALGORITHM);
    const privateKey = imported as CryptoKey; // only a secret, of the type "oct", comes as bytes
    const kid = await calculateJwkThumbprint({ kty, crv, x, y });
    return {
      file,
      kid,
      privateKey,
      publicJwk: { kty, crv, x, y, kid, alg: LOCAL_KEY_ALGORITHM, use: 'sig' },
    };
  } catch {
    throw new LocalKeyError(`the signing key ${file} is damaged: its parts do not fit together`);
  }
};

type EcJwk = Record<'kty' | 'crv' | 'x' | 'y', string> & { readonly d?: string };

/** The JWK in a text, if it is one of a P-256 key (RFC 7518, 6.2). */
const jwkIn = (text: string): EcJwk | undefined => {
  try {
    const { kty, crv, x, y, d } = Object(JSON.parse(text)) as Record<string, unknown>;
    if (kty !== 'EC' || crv !== 'P-256' || typeof x !== 'string' || typeof y !== 'string') return undefined;
    if (d === undefined) return { kty, crv, x, y };
    return typeof d === 'string' ? { kty, crv, x, y, d } : undefined;
  } catch {
    return undefined;
  }
};

/** An error of the file system as its code, which says enough and holds nothing of a file. */
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);
