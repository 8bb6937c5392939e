import { MAX_LINE_BYTES } from './bundle-format.js';

/** Opens the bytes of a bundle, from their beginning at each call. */
export type ReadBytes = () => AsyncIterable<Uint8Array>;

const NEWLINE = 0x0a;

/** Splits the bytes of a bundle into lines. */
export class Lines {
  #parts: Uint8Array[] = [];
  #length = 0;

  /** Bytes after the last newline. */
  get rest(): number {
    return this.#length;
  }

  /** The lines that are complete with these bytes, without their newlines; undefined for one that is too long. */
  *take(chunk: Uint8Array): Generator<Uint8Array | undefined, void, undefined> {
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to >= 0; to = chunk.indexOf(NEWLINE, from)) {
      const part = chunk.subarray(from, to);
      from = to + 1;
      yield this.#length + part.length > MAX_LINE_BYTES
        ? undefined
        : this.#parts.length === 0
          ? part
          : Buffer.concat([...this.#parts.splice(0), part]);
      this.#length = 0;
    }
    if (from === chunk.length) return;
    this.#length += chunk.length - from;
    if (this.#length > MAX_LINE_BYTES) yield undefined;
    else this.#parts.push(chunk.subarray(from));
  }
}
