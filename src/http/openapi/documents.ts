import { Worker } from 'node:worker_threads';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { promisify } from 'node:util';
import { type Docs } from './docs.js';
import { type Coding, codingFor, contentTag, entityTag, isNamed } from '../representation.js';

/** How long making the documents may take, in milliseconds: a second is usual, on a machine that is busy ten. */
const MAKING_MS = 60_000;

/** What its thread may keep of objects, in MB: it needs 40, and would take 90 before it clears up. */
const YOUNG_MB = 4;
const OLD_MB = 256;

/** A document of the API, or a file of the page that shows it. */
export interface DocumentFile {
  readonly path: string;
  readonly type: string;
  readonly body: Uint8Array;
}

/**
 * Makes the API's document and the files of its page, in a thread of its own: that takes some 0.2 s
 * of work, which hold up no request. And a module that could not be loaded, for want
 * of file descriptors, stays unloadable in its thread forever; the next attempt has a new one. Rejects where that
 * fails, or takes longer than MAKING_MS.
 */
export const makeDocuments = async (version: string): Promise<DocumentFile[]> => {
  const worker = new Worker(new URL('./documents.worker.js', import.meta.url), {
    workerData: version,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB, maxOldGenerationSizeMb: OLD_MB },
  });
  let giveUp: NodeJS.Timeout | undefined;
  try {
    return await new Promise<DocumentFile[]>((resolve, reject) => {
      worker.once('message', resolve).once('error', reject);
      worker.once('exit', () => {
        reject(new Error('the thread that makes the API document has ended'));
      });
      giveUp = setTimeout(() => {
        reject(new Error(`the API document was not made in ${MAKING_MS} ms`));
      }, MAKING_MS);
    });
  } finally {
    clearTimeout(giveUp);
    await worker.terminate();
  }
};

/** A document in the encodings that it is answered in. */
interface KeptDocument {
  readonly type: string;
  /** What its entity tags have in common. */
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

const keep = async ({ type, body }: DocumentFile): Promise<KeptDocument> => {
  const identity = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const [zipped, br] = await Promise.all([
    compress(identity),
    // A tenth of the time of the best quality, and still smaller than gzip.
    compressMore(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  ]);
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
