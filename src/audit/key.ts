import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { join } from 'node:path';
import { type KeyFile, openKeyFile, readKeyFile } from '../runtime/key-file.js';
import { randomOctets } from '../runtime/runtime.js';
import { readyFor } from '../transparency/cosignature.js';
import { NoteRefused, type SignatureType, verifierKey } from '../transparency/note.js';
import { quoted } from '../transparency/refused.js';
import { type SignerKey } from '../transparency/sign.js';

/** The key of the checkpoints cannot be made or used. The message is one line and holds nothing of the key. */
export class AuditKeyError extends Error {
  override readonly name = 'AuditKeyError';
}

/** The key that checkpoints are signed with. */
export interface AuditKey {
  readonly file: string;
  readonly key: SignerKey;
  /** True if this call made the key. */
  readonly created: boolean;
}

/** The origin of a log's checkpoints where AUDIT_ORIGIN is not set. */
export const originOf = (logIdentity: string): string => `plants/${logIdentity}`;

/** A private key under a name. Throws NoteRefused for a name that notes cannot hold, or another key than Ed25519. */
export const signerKey = (
  name: string,
  privateKey: KeyObject,
  type: SignatureType = 'ed25519',
): SignerKey => {
  if (privateKey.type !== 'private' || privateKey.asymmetricKeyType !== 'ed25519')
    throw new NoteRefused(`the key named ${quoted(name)} is not a private Ed25519 key`);
  return { ...verifierKey(name, publicBytes(createPublicKey(privateKey)), type), privateKey };
};

/** The ML-DSA-44 key of a witness, of a seed of 32 bytes. Throws NoteRefused for a name that notes cannot hold. */
export const mlDsa44Key = async (name: string, seed: Uint8Array): Promise<SignerKey> => {
  const { keygen } = await import('../transparency/ml-dsa.js');
  const { publicKey, secretKey: privateKey } = keygen(seed);
  const key = verifierKey(name, publicKey, 'cosignature');
  await readyFor([key]);
  return { ...key, privateKey };
};

/** The 32 bytes of a public Ed25519 key, in memory of their own: the auditor's thread is sent them. */
const publicBytes = (key: KeyObject): Uint8Array =>
  Uint8Array.from(Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url'));

const keyFileIn = (dataDir: string, file: string, name = 'audit key'): KeyFile => ({
  file: join(dataDir, file),
  name,
  Refused: AuditKeyError,
});

/**
 * Opens the key in DATA_DIR under the name of the log, making it first where there is none: see `openKeyFile`. Throws
 * AuditKeyError, and NoteRefused for an origin that is no name of a key.
 */
export const openAuditKey = async (dataDir: string, origin: string): Promise<AuditKey> => {
  const keyFile = keyFileIn(dataDir, 'audit-key.pem');
  const { text, created } = await openKeyFile(keyFile, newKey);
  return { file: keyFile.file, key: signerKey(origin, parseKey(keyFile, text)), created };
};

/** The keys of a witness, in a folder of its own, of Ed25519 and ML-DSA-44; else as `openAuditKey`. */
export const openWitnessKeys = async (folder: string, name: string): Promise<[SignerKey, SignerKey]> => {
  const keyFile = witnessKeyFile(folder);
  const { text } = await openKeyFile(keyFile, newKey);
  const key = signerKey(name, parseKey(keyFile, text), 'cosignature');
  const longFile = keyFileIn(folder, 'witness-key-ml-dsa-44.pem', 'key of the witness');
  const { text: long } = await openKeyFile(longFile, newSeed);
  return [key, await mlDsa44Key(name, parseSeed(longFile, long))];
};

/** True if a witness has a key in this folder. Throws as `openWitnessKeys`. */
export const hasWitnessKey = async (folder: string): Promise<boolean> =>
  (await readKeyFile(witnessKeyFile(folder))) !== undefined;

const witnessKeyFile = (folder: string): KeyFile =>
  keyFileIn(folder, 'witness-key.pem', 'key of the witness');

const newKey = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

/** A private ML-DSA-44 key up to its seed of 32 bytes, in PKCS #8 (RFC 9881): Node's own reads it from 24.6 on. */
const BEFORE_SEED = '3034020100300b060960864801650304031104228020';

const PEM = ['-----BEGIN PRIVATE KEY-----', '-----END PRIVATE KEY-----'] as const;

const newSeed = (): string => {
  const key = Buffer.concat([Buffer.from(BEFORE_SEED, 'hex'), randomOctets(SEED_BYTES)]);
  return `${PEM.join(`\n${key.toString('base64')}\n`)}\n`;
};

const SEED_BYTES = 32;

const parseSeed = ({ file, name }: KeyFile, text: string): Uint8Array => {
  const [before, base64 = ''] = text.split(/\r?\n/);
  const key = Buffer.from(base64, 'base64');
  const isKey = before === PEM[0] && key.length === BEFORE_SEED.length / 2 + SEED_BYTES;
  if (!isKey || !key.toString('hex').startsWith(BEFORE_SEED))
    throw new AuditKeyError(
      `the ${name} ${file} is damaged: it is not the seed of an ML-DSA-44 key (PKCS #8, PEM)`,
    );
  return key.subarray(-SEED_BYTES);
};

/**
 * The previous key, which an operator has renamed to change it: it cosigns the first record of the new one. Undefined
 * where there is none, or where it is the same key. Throws as `openAuditKey`.
 */
export const openPreviousKey = async (dataDir: string, key: SignerKey): Promise<SignerKey | undefined> => {
  const keyFile = keyFileIn(dataDir, 'audit-key-previous.pem');
  const text = await readKeyFile(keyFile);
  const previous = text === undefined ? undefined : signerKey(key.name, parseKey(keyFile, text));
  return previous?.id === key.id ? undefined : previous;
};

const parseKey = ({ file, name }: KeyFile, text: string): KeyObject => {
  const key = privateKeyIn(text);
  if (key?.asymmetricKeyType !== 'ed25519')
    throw new AuditKeyError(`the ${name} ${file} is damaged: it is not a private Ed25519 key (PKCS #8, PEM)`);
  return key;
};

const privateKeyIn = (text: string): KeyObject | undefined => {
  try {
    return createPrivateKey(text);
  } catch {
    return undefined; // OpenSSL's message may hold a part of the key
  }
};
