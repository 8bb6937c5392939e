import { extname } from 'node:path';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { promisify } from 'node:util';
import { type Docs } from './docs.js';
import { type Coding, codingFor, contentTag, entityTag, isNamed } from '../representation.js';

/** Media types by the endings of names, with the charset of all texts here: a browser would guess one otherwise. */
const TYPES: Readonly<Record<string, string>> = {
  '': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml; charset=utf-8',
};

/** A document of the API, or a file of a page. */
export interface DocumentFile {
  /** Its name says what it is: a page has none. */
  readonly path: string;
  readonly body: Uint8Array;
}

/** A document in the encodings that it is answered in. */
interface KeptDocument {
  readonly type: string;
  /** Common to its entity tags. */
  readonly tag: string;
  readonly bodies: Readonly<Record<Coding, Buffer>>;
}

/**
 * Answers with documents from one buffer for each of them and encoding, whoever asks. Their strong entity tag is the
 * same as long as the content is, so that a browser that has one is answered 304 (RFC 9110, sections 8.8.3 and 13.1.2).
 */
export const keptDocuments = async (files: readonly DocumentFile[]): Promise<Docs> => {
  const kept = new Map(await Promise.all(files.map(async (file) => [file.path, await keep(file)] as const)));
  return ({ url, headers }) => {
    const [path = ''] = url.split('?');
    const found = kept.get(path);
    return Promise.resolve(found && answerWith(found, headers));
  };
};

const compress = promisify(gzip);
const compressMore = promisify(brotliCompress);

const keep = async ({ path, body }: DocumentFile): Promise<KeptDocument> => {
  const identity = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const [zipped, br] = await Promise.all([
    compress(identity),
    // A tenth of the time of the best quality, and still smaller than gzip.
    compressMore(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  ]);
  const type = TYPES[extname(path)] ?? 'application/octet-stream';
  return { type, tag: contentTag(identity), bodies: { identity, gzip: zipped, br } };
};

const answerWith = ({ type, tag, bodies }: KeptDocument, headers: Parameters<Docs>[0]['headers']) => {
  const coding = codingFor(
    headers['accept-encoding'],
    (['br', 'gzip', 'identity'] as const).filter(
      (one) => one === 'identity' || bodies[one].length < bodies.identity.length,
    ),
  );
  const etag = entityTag(tag, coding);
  const fields = { 'cache-control': 'no-cache', vary: 'accept-encoding', etag };
  if (isNamed(headers['if-none-match'], etag)) return { status: 304, headers: fields, body: undefined };
  return {
    status: 200,
    headers: {
      ...fields,
      'content-type': type,
      ...(coding === 'identity' ? {} : { 'content-encoding': coding }),
    },
    body: bodies[coding],
  };
};
