import { write, writeSync } from 'node:fs';

/** What may wait to be written, in characters. Whoever reads is stuck then. */
const MOST_WAITING = 16 * 1024 * 1024;

/** How long to wait where the reader is not ready, in milliseconds. */
const RETRY_MS = 20;

/** How long the end of the process may take for what still waits, in milliseconds. */
const LAST_MS = 1_000;

const isBusy = (error: unknown): boolean =>
  ['EAGAIN', 'EBUSY'].includes((error as NodeJS.ErrnoException).code ?? '');

/**
 * Writes lines to a file descriptor, all that wait at once and in their order, and never holds up the event loop. What
 * waits when the process exits is written then. Lines that nobody reads are dropped: without a word where the reader
 * has gone, and where it is stuck with a line that says how many.
 */
export class LogOutput {
  #waiting: string[] = [];
  #length = 0;
  #dropped = 0;
  #writing = false;
  #gone = false;

  constructor(
    private readonly fd: number,
    /** The line that tells of lines that were dropped. */
    private readonly tellDropped: (lines: number) => string,
  ) {
    process.once('exit', () => {
      this.#writeLast();
    });
  }

  write(line: string): void {
    if (this.#gone) return;
    if (this.#length > MOST_WAITING) {
      this.#dropped += 1;
      return;
    }
    this.#length += line.length;
    this.#waiting.push(line);
    if (this.#writing) return;
    this.#writing = true;
    setImmediate(() => {
      this.#writeWaiting();
    });
  }

  #writeWaiting(): void {
    const bytes = this.#takeWaiting();
    if (bytes.length > 0) this.#write(bytes);
    else this.#writing = false;
  }

  #takeWaiting(): Buffer {
    if (this.#dropped > 0) this.#waiting.push(this.tellDropped(this.#dropped));
    const bytes = Buffer.from(this.#waiting.join(''));
    this.#waiting = [];
    this.#length = 0;
    this.#dropped = 0;
    return bytes;
  }

  #write(bytes: Buffer): void {
    write(this.fd, bytes, (error, written) => {
      if (error && isBusy(error))
        setTimeout(() => {
          this.#write(bytes);
        }, RETRY_MS);
      else if (error) this.#giveUp();
      else if (written < bytes.length) this.#write(bytes.subarray(written));
      else this.#writeWaiting();
    });
  }

  #giveUp(): void {
    this.#gone = true;
    this.#waiting = [];
  }

  #writeLast(): void {
    const giveUpAt = performance.now() + LAST_MS;
    for (let bytes = this.#takeWaiting(); bytes.length > 0;)
      try {
        bytes = bytes.subarray(writeSync(this.fd, bytes));
      } catch (error) {
        if (!isBusy(error) || performance.now() > giveUpAt) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
      }
  }
}
