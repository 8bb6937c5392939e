import { join } from 'node:path';
import {
  calculateJwkThumbprint,
  type CryptoKey,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
} from 'jose';
import { openKeyFile } from '../../runtime/key-file.js';

/** ES256: what every JWT library can verify, and small enough to make in a few milliseconds at first start. */
export const LOCAL_KEY_ALGORITHM = 'ES256';

/** The key that signs the tokens of a service without an issuer. */
export interface LocalKey {
  readonly file: string;
  /** The thumbprint of the public key (RFC 7638): tokens name the key by it. */
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
  /** True if this call made the key. */
  readonly created: boolean;
}

/** The local key cannot be made or used. The message is one line for the operator and holds nothing of the key. */
export class LocalKeyError extends Error {
  override readonly name = 'LocalKeyError';
}

/** Opens the local key, making it first where there is none: see `openKeyFile`. Throws LocalKeyError. */
export const openLocalKey = async (dataDir: string): Promise<LocalKey> => {
  const file = join(dataDir, 'signing-key.json');
  const { text, created } = await openKeyFile({ file, name: 'signing key', Refused: LocalKeyError }, makeKey);
  return { ...(await parseKey(file, text)), created };
};

const makeKey = async (): Promise<string> => {
  const { privateKey } = await generateKeyPair(LOCAL_KEY_ALGORITHM, { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), alg: LOCAL_KEY_ALGORITHM, use: 'sig' };
  return `${JSON.stringify(jwk)}\n`;
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
    throw new LocalKeyError(`the signing key ${file} is damaged: its parts are no key pair`);
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
