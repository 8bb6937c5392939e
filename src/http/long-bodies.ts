import { type Readable } from 'node:stream';
import { Problem } from './problem.js';

/** The media type of lines of JSON. */
export const LINES = 'application/x-ndjson';

/** All names of it that clients use: none is registered. */
export const LINES_TYPES = [
  LINES,
  'application/ndjson',
  'application/jsonl',
  'application/jsonlines',
] as const;

/** The path whose bodies are read by its controller, and may be longer than those of other paths. */
export const IMPORT_PATH = '/plants/import';

/** The lines of a body, without what ends them; a last one that is empty is none. */
export function* linesIn(body: Buffer): Generator<Buffer, void, undefined> {
  for (let begin = 0; begin < body.length;) {
    const found = body.indexOf(0x0a, begin);
    const end = found === -1 ? body.length : found;
    yield body.subarray(begin, end);
    begin = end + 1;
  }
}

/** Reads a body to its end. Throws Problem where it is longer than `limit` bytes, and what the connection throws. */
export const readWhole = async (body: Readable, limit: number): Promise<Buffer> => {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
    length += piece.length;
    if (length > limit) {
      body.resume(); // the rest is read and dropped, so that the client gets the answer
      throw new Problem('body_too_large', `The body must be at most ${limit} bytes long.`);
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
};
