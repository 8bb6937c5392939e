import { write, writeSync } from 'node:fs';

/** What may wait to be written, in characters. Whoever reads is stuck then. */
const MOST_WAITING = 16 * 1024 * 1024;

/** How long to wait where the reader is not ready, in milliseconds. */
const RETRY_MS = 20;

/** A process that is told to end must not wait longer for a reader that is stuck, in milliseconds. */
const LAST_MS = 1_000;

const NOTHING = Buffer.alloc(0);

const isBusy = (error: unknown): boolean =>
  ['EAGAIN', 'EBUSY'].includes((error as NodeJS.ErrnoException).code ?? '');

/**
 * Writes lines to a file descriptor, all that wait at once and in their order, and never holds up the event loop. What
 * waits when the process exits is written then, but for a write that is under way at that moment: call `flush` before.
 * Lines that nobody reads are dropped: without a word where the reader has gone, and where it is stuck with a line that
 * says how many.
 */
export class LogOutput {
  #waiting: string[] = [];
  #length = 0;
  #dropped = 0;
  /** What was taken from the lines that wait, and is not written yet. */
  #taken = NOTHING;
  /** Whether a write is under way, of which nobody knows how much it has written. */
  #calling = false;
  #scheduled = false;
  #gone = false;
  /** Who waits for everything to be written. */
  readonly #flushing = new Set<() => void>();

  constructor(
    private readonly fd: number,
    /** The line that tells of lines that were dropped. */
    private readonly tellDropped: (lines: number) => string,
    /** How long `flush`, and the end of the process, may take for what still waits, in milliseconds. */
    private readonly lastMs = LAST_MS,
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
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#write();
    });
  }

  /** Calls `callback` when everything is written, or nobody reads it any more, after `lastMs` at the latest. */
  flush(callback: () => void): void {
    if (!this.#scheduled) {
      callback();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      this.#flushing.delete(done);
      callback();
    };
    const timer = setTimeout(done, this.lastMs);
    this.#flushing.add(done);
  }

  #write(): void {
    this.#take();
    if (this.#taken.length === 0) {
      this.#idle();
      return;
    }
    this.#calling = true;
    write(this.fd, this.#taken, (error, written) => {
      this.#calling = false;
      if (!error) {
        this.#taken = this.#taken.subarray(written);
        this.#write();
      } else if (isBusy(error))
        setTimeout(() => {
          this.#write();
        }, RETRY_MS);
      else this.#giveUp();
    });
  }

  /** Takes the lines that wait, once what was taken before is written. */
  #take(): void {
    if (this.#taken.length > 0) return;
    if (this.#dropped > 0) this.#waiting.push(this.tellDropped(this.#dropped));
    this.#taken = Buffer.from(this.#waiting.join(''));
    this.#waiting = [];
    this.#length = 0;
    this.#dropped = 0;
  }

  #idle(): void {
    this.#scheduled = false;
    for (const done of this.#flushing) done();
  }

  #giveUp(): void {
    this.#gone = true;
    this.#taken = NOTHING;
    this.#waiting = [];
    this.#idle();
  }

  #writeLast(): void {
    if (this.#calling) this.#taken = NOTHING;
    const giveUpAt = performance.now() + this.lastMs;
    for (;;) {
      this.#take();
      if (this.#taken.length === 0) return;
      try {
        this.#taken = this.#taken.subarray(writeSync(this.fd, this.#taken));
      } catch (error) {
        if (!isBusy(error) || performance.now() > giveUpAt) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
      }
    }
  }
}
