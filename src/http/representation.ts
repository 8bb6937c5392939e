import { createHash, hash } from 'node:crypto';
import { type IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import { yieldToLoop } from '../runtime/event-loop.js';

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

/** Bytes hashed in one step: it takes 0.4 ms. */
const HASHED_AT_ONCE = 512 * 1024;

const TAG_LENGTH = 22;

/** Common to the entity tags of a content, whatever its coding: 22 characters, of 132 bits of its SHA-256. */
export const contentTag = (content: string | Uint8Array): string =>
  hash('sha256', content, 'base64url').slice(0, TAG_LENGTH);

/** As `contentTag`, for content of any length: the event loop goes on meanwhile. */
const longContentTag = async (content: Uint8Array): Promise<string> => {
  const sum = createHash('sha256');
  for (let at = 0; at < content.length; at += HASHED_AT_ONCE) {
    if (at > 0) await yieldToLoop();
    sum.update(content.subarray(at, at + HASHED_AT_ONCE));
  }
  return sum.digest('base64url').slice(0, TAG_LENGTH);
};

/** The strong entity tag of a content in one coding: the bytes of another coding differ (RFC 9110, section 8.8.3.3). */
export const entityTag = (tag: string, coding: Coding): string => `"${tag}-${coding}"`;

/** True if If-None-Match names the entity tag; compared weakly (RFC 9110, section 13.1.2). */
export const isNamed = (field: string | undefined, tag: string): boolean =>
  field?.split(',').some((one) => one.trim() === '*' || one.trim().replace(/^W\//, '') === tag) === true;

const compress = promisify(gzip);

/** Contents that are compressed at once: Node has four threads for it, which files and name look-ups need as well. */
const AT_ONCE = 2;

/** Compresses answers in Node's thread pool, a bounded number at once. */
export class BoundedGzip {
  #running = 0;

  /** Undefined, at once, where AT_ONCE others are being compressed: the answer is then sent as it is. */
  async compress(content: string | Uint8Array): Promise<Buffer | undefined> {
    if (this.#running >= AT_ONCE) return undefined;
    this.#running += 1;
    try {
      return await compress(content);
    } finally {
      this.#running -= 1;
    }
  }
}

/** Shorter content is not compressed, in bytes: it fits one packet. */
const WORTH_COMPRESSING = 1_400;

/** The representation of a content that is sent. */
interface Representation {
  readonly status: 200 | 304;
  /** The header fields that depend on it. */
  readonly fields: Readonly<Record<string, string>>;
  /** Empty with 304. */
  readonly body: string | Uint8Array;
}

/** Chooses the representation that is sent: 304 to a client that has it, gzip, or the content as it is. */
export class Representations {
  readonly #gzip = new BoundedGzip();

  /** Tags of content that is kept, and answered again. */
  readonly #tags = new WeakMap<Uint8Array, string>();

  /** As `of`, and sets the status and the fields of the reply. Undefined with status 304, which has no type either. */
  async choose(
    { headers }: FastifyRequest,
    reply: FastifyReply,
    content: string | Uint8Array,
    compressible = true,
  ): Promise<string | Uint8Array | undefined> {
    const { status, fields, body } = await this.of(headers, content, compressible);
    reply.headers(fields);
    if (status === 200) return body;
    reply.status(status).removeHeader('content-type');
    return undefined;
  }

  /**
   * The representation for a client with these header fields: `ETag`, `Vary` and `Content-Encoding` where content of this
   * kind is `compressible`; status 304 where If-None-Match names what would be sent (RFC 9110, section 13.1.2).
   */
  async of(
    headers: IncomingHttpHeaders,
    content: string | Uint8Array,
    compressible = true,
  ): Promise<Representation> {
    const long = compressible && content.length >= WORTH_COMPRESSING;
    const vary = long && { vary: 'accept-encoding' };
    const wanted = long ? codingFor(headers['accept-encoding'], ['gzip', 'identity']) : 'identity';
    const tag = await this.#tagOf(content);
    const etag = entityTag(tag, wanted);
    if (isNamed(headers['if-none-match'], etag)) return { status: 304, fields: { ...vary, etag }, body: '' };
    const zipped = wanted === 'gzip' ? await this.#gzip.compress(content) : undefined;
    if (zipped) return { status: 200, fields: { ...vary, 'content-encoding': 'gzip', etag }, body: zipped };
    return { status: 200, fields: { ...vary, etag: entityTag(tag, 'identity') }, body: content };
  }

  async #tagOf(content: string | Uint8Array): Promise<string> {
    if (content.length <= HASHED_AT_ONCE) return contentTag(content);
    if (typeof content === 'string') return longContentTag(Buffer.from(content));
    const before = this.#tags.get(content);
    if (before !== undefined) return before;
    const tag = await longContentTag(content);
    this.#tags.set(content, tag);
    return tag;
  }
}
