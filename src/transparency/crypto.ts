import { fromCharacters, toBase64, utf8 } from './bytes.js';

/**
 * SHA-256 and Ed25519 as the environment has them: node:crypto in Node, else JavaScript for hashes and Web Crypto for
 * signatures. Web Crypto's own hashes take 30 µs each, since every one of them is waited for; a tree of a million leaves
 * has three million.
 */

/** The part of node:crypto that is used. */
interface NodeCrypto {
  readonly hash: (algorithm: 'sha256', input: Uint8Array | string, encoding: 'binary') => string;
  readonly createPublicKey: (key: { key: object; format: 'jwk' }) => object;
  readonly sign: (algorithm: null, message: Uint8Array, privateKey: object) => Uint8Array;
  readonly verify: (algorithm: null, message: Uint8Array, key: object, signature: Uint8Array) => boolean;
}

const environment = globalThis as unknown as {
  readonly process?: { readonly getBuiltinModule?: (name: string) => unknown };
};

const node = environment.process?.getBuiltinModule?.('node:crypto') as NodeCrypto | undefined;

/** SHA-256 as 32 bytes of their own; a text is hashed as UTF-8. */
export const sha256 = (input: Uint8Array | string): Uint8Array =>
  node ? sha256ByNode(node, input) : sha256InJavaScript(typeof input === 'string' ? utf8(input) : input);

/**
 * By way of a string, as the Buffer that `hash` gives is one outside of the heap, which takes 1.4 µs to make and to
 * collect; this takes 0.4 µs (docs/performance.md).
 */
const sha256ByNode = ({ hash }: NodeCrypto, input: Uint8Array | string): Uint8Array =>
  fromCharacters(hash('sha256', input, 'binary'));

/** The first 32 bits behind the point of a root of each of the first primes: where FIPS 180-4 has its constants from. */
const fractions = (count: number, root: (prime: number) => number): Int32Array => {
  const primes: number[] = [];
  for (let number = 2; primes.length < count; number++)
    if (primes.every((prime) => number % prime > 0)) primes.push(number);
  return Int32Array.from(primes, (prime) => Math.floor((root(prime) % 1) * 2 ** 32));
};

const INITIAL = fractions(8, Math.sqrt);
const ROUND_CONSTANTS = fractions(64, Math.cbrt);
const BLOCK_BYTES = 64;
const LENGTH_BYTES = 8;

const rotated = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

/** The 64 words of a block that is being hashed, shared by all calls. */
const schedule = new Int32Array(64);

/** SHA-256 of FIPS 180-4, for environments without node:crypto. */
export const sha256InJavaScript = (input: Uint8Array): Uint8Array => {
  const blocks = Math.ceil((input.length + 1 + LENGTH_BYTES) / BLOCK_BYTES);
  const padded = new Uint8Array(blocks * BLOCK_BYTES);
  padded.set(input);
  padded[input.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - LENGTH_BYTES, BigInt(input.length) * 8n);
  const state = Int32Array.from(INITIAL);
  for (let at = 0; at < padded.length; at += BLOCK_BYTES) compress(state, view, at);
  const hash = new DataView(new ArrayBuffer(32));
  state.forEach((word, at) => {
    hash.setInt32(4 * at, word);
  });
  return new Uint8Array(hash.buffer);
};

const compress = (state: Int32Array, block: DataView, from: number): void => {
  const word = (at: number): number => schedule[at] ?? 0;
  for (let at = 0; at < 16; at++) schedule[at] = block.getInt32(from + 4 * at);
  for (let at = 16; at < 64; at++) {
    const [x, y] = [word(at - 15), word(at - 2)];
    const s0 = rotated(x, 7) ^ rotated(x, 18) ^ (x >>> 3);
    const s1 = rotated(y, 17) ^ rotated(y, 19) ^ (y >>> 10);
    schedule[at] = word(at - 16) + s0 + word(at - 7) + s1;
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let at = 0; at < 64; at++) {
    const s1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
    const t1 = h + s1 + ((e & f) ^ (~e & g)) + (ROUND_CONSTANTS[at] ?? 0) + word(at);
    const s0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
    const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((value, at) => (state[at] = (state[at] ?? 0) + value));
};

/** A message that an Ed25519 key is said to have signed; `publicKey` has 32 bytes. */
export interface SignedMessage {
  readonly publicKey: Uint8Array;
  readonly message: Uint8Array;
  readonly signature: Uint8Array;
}

export const needNode = (): NodeCrypto => {
  if (!node) throw new Error('only node:crypto signs, and verifies signatures at once');
  return node;
};

/** The keys as node:crypto takes them: to make one takes as long as to verify a signature. */
const nodeKeys = new WeakMap<Uint8Array, object>();

const nodeKey = ({ createPublicKey }: NodeCrypto, publicKey: Uint8Array): object => {
  const known = nodeKeys.get(publicKey);
  if (known) return known;
  const x = toBase64(publicKey).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  nodeKeys.set(publicKey, key);
  return key;
};

/** True if the key signed the message. Only where there is node:crypto: browsers answer later, see `verifiedLater`. */
export const isSigned = ({ publicKey, message, signature }: SignedMessage): boolean => {
  const crypto = needNode();
  return crypto.verify(null, message, nodeKey(crypto, publicKey), signature);
};

/** As `isSigned`, in every environment. Rejects where a browser has no Ed25519, or the page came by plain HTTP. */
export const isSignedLater = async (signed: SignedMessage): Promise<boolean> => {
  if (node) return isSigned(signed);
  const { subtle } = crypto;
  const key = await subtle.importKey('raw', Uint8Array.from(signed.publicKey), 'Ed25519', false, ['verify']);
  return subtle.verify('Ed25519', key, Uint8Array.from(signed.signature), Uint8Array.from(signed.message));
};
