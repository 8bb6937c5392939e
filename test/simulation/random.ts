/** Numbers that one seed decides: mulberry32, https://github.com/cprosche/mulberry32 */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  /** An integer from 0 to less than `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  /** From `least` to less than `most`: each power of two in it as often. */
  between(least: number, most: number): number {
    return least * (most / least) ** this.next();
  }

  pick<T>(items: readonly [T, ...T[]]): T {
    return items[this.below(items.length)] ?? items[0];
  }
}
