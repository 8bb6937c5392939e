import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import Negotiator from 'negotiator';

/** Content codings that answers are sent in (RFC 9110, section 8.4.1). */
export type Coding = 'identity' | 'gzip' | 'br';

/**
 * The coding that a client prefers among those on offer, which are named in the order of our own preference; `identity`
 * where it names none of them (RFC 9110, section 12.5.3).
 */
export const codingFor = (accepted: string | string[] | undefined, offered: readonly Coding[]): Coding => {
  if (accepted === undefined) return 'identity';
  const chosen = new Negotiator({ headers: { 'accept-encoding': String(accepted) } }).encoding([...offered]);
  return offered.find((one) => one === chosen) ?? 'identity';
};

/** What entity tags of a content have in common, whatever its coding: 22 characters. */
export const contentTag = (content: Uint8Array): string =>
  createHash('sha256').update(content).digest('base64url').slice(0, 22);

/** The strong entity tag of a content in one coding: the bytes of another coding differ (RFC 9110, section 8.8.3.3). */
export const entityTag = (tag: string, coding: Coding): string => `"${tag}-${coding}"`;

/** Whether If-None-Match names an entity tag; it is compared weakly (RFC 9110, section 13.1.2). */
export const isNamed = (field: string | undefined, tag: string): boolean =>
  field?.split(',').some((one) => one.trim() === '*' || one.trim().replace(/^W\//, '') === tag) === true;

const compress = promisify(gzip);

/** Contents that are compressed at once: Node has four threads for it, which files and name look-ups need as well. */
const AT_ONCE = 2;

/** Compresses answers in Node's thread pool, a bounded number at once. */
export class BoundedGzip {
  #running = 0;

  /** Undefined, at once, where AT_ONCE others are being compressed: the answer is then sent as it is. */
  async compress(content: Uint8Array): Promise<Buffer | undefined> {
    if (this.#running >= AT_ONCE) return undefined;
    this.#running += 1;
    try {
      return await compress(content);
    } finally {
      this.#running -= 1;
    }
  }
}
