import { write, writeSync } from 'node:fs';

/** The most characters that wait to be written; further lines are dropped. */
const MOST_WAITING = 16 * 1024 * 1024;

/** How long to wait where the reader is not ready, in milliseconds. */
const RETRY_MS = 20;

/** How long the end of the process waits for a blocked reader, in milliseconds. */
const LAST_MS = 1_000;

const NOTHING = Buffer.alloc(0);

const isBusy = (error: unknown): boolean =>
  ['EAGAIN', 'EBUSY'].includes((error as NodeJS.ErrnoException).code ?? '');

/**
 * Writes lines to a file descriptor in order, batched, without blocking the event loop. Lines that wait when the process
 * exits are written then, except those of a write in progress: call `flush` before. Where the reader is blocked, lines
 * are dropped and their number is written later; where it is gone, all are dropped.
 */
export class LogOutput {
  #waiting: string[] = [];
  #length = 0;
  #dropped = 0;
  /** The batch that is being written. */
  #taken = NOTHING;
  /** Whether a write is in progress: how much it has written is not known. */
  #calling = false;
  #scheduled = false;
  #gone = false;
  /** Callbacks of `flush`. */
  readonly #flushing = new Set<() => void>();

  constructor(
    private readonly fd: number,
    /** The line that reports dropped lines. */
    private readonly droppedLine: (lines: number) => string,
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

  /** Calls `callback` when everything is written or dropped, after `lastMs` at the latest. */
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

  /** Makes a batch of the waiting lines, once the one before is written. */
  #take(): void {
    if (this.#taken.length > 0) return;
    if (this.#dropped > 0) {
      const line = this.droppedLine(this.#dropped);
      this.#length += line.length;
      this.#waiting.push(line);
    }
    this.#dropped = 0;
    const batch = this.#waiting.join('');
    this.#waiting = [];
    this.#length = 0;
    this.#taken = Buffer.from(batch);
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
