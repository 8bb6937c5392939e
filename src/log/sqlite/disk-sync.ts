import { fdatasync, fdatasyncSync } from 'node:fs';
import { monotonicMs } from '../../runtime/runtime.js';

/** A disk is quick while its last syncs took less than this on average, in milliseconds. */
const QUICK_MS = 1;

/** The weight of the last sync in the average. */
const WEIGHT = 1 / 4;

/** Most milliseconds that a sync counts: after one that hung, some ten quick ones make the disk quick again. */
const MOST_MS = 25;

/**
 * Makes files durable: on this thread while the disk is quick, since libuv's pool adds a third of a millisecond; else in
 * the pool, while the event loop goes on. So a disk that begins to hang holds up the loop for one sync.
 */
export class DiskSync {
  #averageMs = 0;

  /** Average of the last syncs. */
  get averageMs(): number {
    return this.#averageMs;
  }

  /** Returns undefined where it is durable already. Throws, or rejects with, an error of the file system. */
  sync(file: number): Promise<void> | undefined {
    const began = monotonicMs();
    if (this.#averageMs < QUICK_MS) {
      fdatasyncSync(file);
      this.#took(monotonicMs() - began);
      return undefined;
    }
    return new Promise((resolve, reject) => {
      fdatasync(file, (error) => {
        this.#took(monotonicMs() - began);
        if (error) reject(error);
        else resolve();
      });
    });
  }

  #took(ms: number): void {
    this.#averageMs += (Math.min(ms, MOST_MS) - this.#averageMs) * WEIGHT;
  }
}
