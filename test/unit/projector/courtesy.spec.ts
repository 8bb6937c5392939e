import { describe, expect, it } from '@jest/globals';
import { Courtesy } from '../../../src/projector/courtesy.js';

/** A process on a clock of its own, in which others are so busy while the work rests: a share of the time. */
class Process {
  others = 0;
  #active = 0;
  #idle = 0;
  readonly #signal = new AbortController().signal;
  readonly #courtesy = new Courtesy(
    () => ({ active: this.#active, idle: this.#idle }),
    (ms) => {
      this.#active += ms * this.others;
      this.#idle += ms * (1 - this.others);
      return Promise.resolve();
    },
  );

  /** Works in slices of so many milliseconds, after a wait for a store, and gives the share of the time that it rested. */
  async works(sliceMs: number, slices: number, waitMs = 0): Promise<number> {
    const began = this.#active + this.#idle;
    for (let slice = 0; slice < slices; slice++) {
      this.#idle += waitMs;
      this.#active += sliceMs;
      await this.#courtesy.giveWay(this.#signal);
    }
    const took = this.#active + this.#idle - began;
    return (took - (sliceMs + waitMs) * slices) / took;
  }
}

describe('work that gives way', () => {
  it('leaves two thirds of the time to others, while they have work', async () => {
    const process = new Process();
    process.others = 0.3;
    expect(await process.works(3, 1_000)).toBeCloseTo(2 / 3, 2);
  });

  it('takes nearly all of the time where nobody else has work', async () => {
    const process = new Process();
    await process.works(1, 100); // it has to find out
    expect(await process.works(1, 1_000)).toBeLessThan(0.05);
  });

  it('notices soon that somebody comes, and that nobody is there any more', async () => {
    const process = new Process();
    await process.works(1, 100);
    process.others = 0.1;
    await process.works(1, 60);
    expect(await process.works(3, 100)).toBeGreaterThan(0.6);
    process.others = 0;
    await process.works(1, 100);
    expect(await process.works(1, 1_000)).toBeLessThan(0.05);
  });

  it('rests a little after the smallest slice, so that others have their turn', async () => {
    const process = new Process();
    process.others = 1;
    expect(await process.works(0.01, 100)).toBeGreaterThan(0.9);
  });

  it('leaves its stores as much time as it takes of them, since others wait for the same', async () => {
    const process = new Process();
    process.others = 0.3;
    expect(await process.works(3, 1_000, 60)).toBeCloseTo(0.51, 2);
  });

  it('is not slowed down by much where a store or a slice takes very long', async () => {
    const process = new Process();
    process.others = 0.3;
    expect(await process.works(3, 100, 2_000)).toBeLessThan(0.1);
    expect(await process.works(1_000, 100)).toBeLessThan(0.1);
  });

  it('really lets the event loop turn, and ends with its signal', async () => {
    const ending = new AbortController();
    const courtesy = new Courtesy();
    let turned = false;
    setImmediate(() => (turned = true));
    await courtesy.giveWay(ending.signal);
    expect(turned).toBe(true);
    ending.abort();
    await courtesy.giveWay(ending.signal);
  });
});
