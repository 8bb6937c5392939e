import { createReadStream } from 'node:fs';
import { type Duplex, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as zlib from 'node:zlib';
import { BundleRefused } from '../transparency/bundle-format.js';

/** A file cannot be read. The message is one line. */
export class CheckFailed extends Error {
  override readonly name = 'CheckFailed';
}

/** More than any checkpoint has, in bytes: a longer file is refused before it is read whole. */
const MAX_CHECKPOINT_BYTES = 1_000_001;

/** The bytes of a checkpoint's file. Throws CheckFailed where it cannot be read. */
export const readWhole = async (file: string): Promise<Uint8Array> => {
  try {
    const parts: Buffer[] = [];
    const stream = createReadStream(file, { end: MAX_CHECKPOINT_BYTES - 1 });
    for await (const part of stream) parts.push(part as Buffer);
    return Buffer.concat(parts);
  } catch (error) {
    throw unreadable(file, error);
  }
};

const unreadable = (file: string, error: unknown): unknown => {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall === undefined) return error;
  return new CheckFailed(`${file} cannot be read (${syscall} ${code ?? ''})`, { cause: error });
};

/** The first bytes of compressed files (RFC 1952, 8878): they decide, not the file's name. */
const GZIP = Buffer.of(0x1f, 0x8b);
const ZSTD = Buffer.of(0x28, 0xb5, 0x2f, 0xfd);

/** The bytes of a file, unpacked. Throws CheckFailed, and BundleRefused where its compression is damaged. */
export async function* bytesIn(file: string): AsyncGenerator<Uint8Array, void, undefined> {
  const stream = createReadStream(file);
  try {
    const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
    let first = Buffer.alloc(0);
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
      first = Buffer.concat([first, next.value]);
      if (first.length >= ZSTD.length) break;
    }
    const packed = new Packed(first, chunks);
    if (first.indexOf(GZIP) === 0) yield* unpacked(packed, zlib.createGunzip({ chunkSize: 65_536 }));
    else if (first.indexOf(ZSTD) === 0) yield* unpacked(packed, unzstd(file));
    else yield* packed.bytes();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code?.startsWith('Z_') || code?.startsWith('ZSTD_'))
      throw new BundleRefused(`its compression is damaged or cut off (${(error as Error).message})`);
    throw unreadable(file, error);
  } finally {
    stream.destroy();
  }
}

/** The compressed bytes of a file, counted. */
class Packed {
  count = 0;
  /** Zeros at its end so far. */
  zeros = 0;

  constructor(
    private readonly first: Uint8Array,
    private readonly rest: AsyncIterator<Uint8Array, undefined>,
  ) {}

  async *bytes(): AsyncGenerator<Uint8Array, void, undefined> {
    let chunk: Uint8Array | undefined = this.first;
    while (chunk) {
      this.#count(chunk);
      yield chunk;
      chunk = (await this.rest.next()).value;
    }
  }

  /** Reads and drops the rest of the file. */
  async drain(): Promise<void> {
    for (let next = await this.rest.next(); !next.done; next = await this.rest.next())
      this.#count(next.value);
  }

  #count(chunk: Uint8Array): void {
    this.count += chunk.length;
    const last = chunk.findLastIndex((byte) => byte !== 0);
    this.zeros = last < 0 ? this.zeros + chunk.length : chunk.length - 1 - last;
  }
}

async function* unpacked(
  packed: Packed,
  unpacker: Duplex & { readonly bytesWritten: number },
): AsyncGenerator<Uint8Array, void, undefined> {
  const flowing = pipeline(Readable.from(packed.bytes(), { objectMode: false }), unpacker);
  flowing.catch(() => undefined); // it comes out of the unpacker, too
  try {
    yield* unpacker as AsyncIterable<Uint8Array>;
  } catch (error) {
    // If many bytes follow the end of the compressed data, the unpacker stops reading, and the pipeline is aborted.
    if (!unpacker.readableEnded || (error as Error).name !== 'AbortError') throw error;
  }
  await packed.drain();
  // Node ignores what follows a zero after the end; only padding consists of zeros alone.
  if (packed.count - unpacker.bytesWritten > packed.zeros)
    throw new BundleRefused('other bytes follow the end of the compressed data: copy the file again');
}

const unzstd = (file: string): Duplex & { readonly bytesWritten: number } => {
  const { createZstdDecompress } = zlib as {
    createZstdDecompress?: () => ReturnType<typeof zlib.createGunzip>;
  };
  if (createZstdDecompress) return createZstdDecompress();
  throw new CheckFailed(
    `${file} is compressed by zstd, which Node ${process.versions.node} cannot read (22.15 can): unpack it with zstd -d`,
  );
};
