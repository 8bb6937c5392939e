import { describe, expect, it } from '@jest/globals';
import { Pacing } from '../../../src/projection/pacing.js';
import { Load } from '../../../src/projection/load.js';

/** A process on a clock of its own, with requests all the time or none. */
class Process {
  readonly turns: number[] = [];
  #active = 0;
  #idle = 0;
  readonly #load = new Load(() => this.#active + this.#idle);
  readonly #pacing = new Pacing(this.#load, {
    times: () => ({ active: this.#active, idle: this.#idle }),
    rest: (ms) => {
      this.#idle += ms;
      return Promise.resolve();
    },
    turn: () => Promise.resolve(this.turns.push(this.#active)),
  });

  ask(): void {
    this.#load.note();
  }

  /** Works in slices of so many milliseconds, after a wait for a store, and gives the share of the time that it rested. */
  async works(sliceMs: number, slices: number, waitMs = 0, asked = false): Promise<number> {
    const began = this.#active + this.#idle;
    for (let slice = 0; slice < slices; slice++) {
      this.#idle += waitMs;
      this.#active += sliceMs;
      if (asked) this.ask();
      await this.#pacing.yieldToLoop(new AbortController().signal);
    }
    const took = this.#active + this.#idle - began;
    return (took - (sliceMs + waitMs) * slices) / took;
  }
}

describe('work that gives way', () => {
  it('leaves two thirds of the time to others, while somebody asks', async () => {
    expect(await new Process().works(3, 1_000, 0, true)).toBeCloseTo(2 / 3, 2);
  });

  it('takes all of the time where nobody asks, but lets others have their turn', async () => {
    const process = new Process();
    expect(await process.works(1, 1_000)).toBe(0);
    expect(process.turns).toHaveLength(1_000);
  });

  it('rests from the first request on, and until a quarter of a second after the last one', async () => {
    const process = new Process();
    process.ask();
    expect(await process.works(2, 40)).toBeGreaterThan(0.6); // 80 ms of work, and twice as much rest
    await process.works(2, 10);
    expect(await process.works(2, 100)).toBe(0);
    process.ask();
    expect(await process.works(2, 1)).toBeCloseTo(2 / 3, 2);
  });

  it('takes small pieces together: a rest for each would be much longer than the piece', async () => {
    const process = new Process();
    expect(await process.works(0.01, 99, 0, true)).toBeCloseTo(0);
    expect(await process.works(0.01, 10_000, 0, true)).toBeCloseTo(2 / 3, 2);
    expect(process.turns).toEqual([]);
  });

  it('leaves its stores as much time as it takes of them, since others wait for the same', async () => {
    expect(await new Process().works(3, 1_000, 60, true)).toBeCloseTo(0.51, 2);
  });

  it('is not slowed down by much where a store or a slice takes very long', async () => {
    expect(await new Process().works(3, 100, 2_000, true)).toBeLessThan(0.1);
    expect(await new Process().works(1_000, 100, 0, true)).toBeLessThan(0.1);
  });

  it.each([true, false])(
    'really lets the event loop turn, and ends with its signal (asked: %s)',
    async (asked) => {
      const ending = new AbortController();
      const load = new Load();
      const pacing = new Pacing(load);
      const work = () => {
        const until = performance.now() + 2;
        while (performance.now() < until);
        if (asked) load.note();
      };
      let turned = false;
      setImmediate(() => (turned = true));
      work();
      await pacing.yieldToLoop(ending.signal);
      expect(turned).toBe(true);
      ending.abort();
      work();
      await pacing.yieldToLoop(ending.signal);
    },
  );
});
