import { createHash } from 'node:crypto';

/** The definitions of RFC 9162, section 2.1, word for word over all leaves: what the tree's code is held against. */

const sha256 = (...parts: readonly Uint8Array[]): Buffer =>
  parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();

/** The largest power of two smaller than n. */
const split = (n: number): number => 2 ** Math.ceil(Math.log2(n) - 1);

/** MTH({d[0], d[1], ..., d[n-1]}): section 2.1.1. */
export const MTH = (d: readonly Uint8Array[]): Buffer => {
  const [first] = d;
  if (!first) return sha256();
  if (d.length === 1) return sha256(Buffer.of(0x00), first);
  const k = split(d.length);
  return sha256(Buffer.of(0x01), MTH(d.slice(0, k)), MTH(d.slice(k)));
};

/** PATH(m, D_n): section 2.1.3.1. */
export const PATH = (m: number, d: readonly Uint8Array[]): Buffer[] => {
  if (d.length === 1) return [];
  const k = split(d.length);
  return m < k
    ? [...PATH(m, d.slice(0, k)), MTH(d.slice(k))]
    : [...PATH(m - k, d.slice(k)), MTH(d.slice(0, k))];
};

/** PROOF(m, D_n): section 2.1.4.1. */
export const PROOF = (m: number, d: readonly Uint8Array[]): Buffer[] => SUBPROOF(m, d, true);

const SUBPROOF = (m: number, d: readonly Uint8Array[], known: boolean): Buffer[] => {
  if (m === d.length) return known ? [] : [MTH(d)];
  const k = split(d.length);
  return m <= k
    ? [...SUBPROOF(m, d.slice(0, k), known), MTH(d.slice(k))]
    : [...SUBPROOF(m - k, d.slice(k), false), MTH(d.slice(0, k))];
};
