/** Lists of more plants than this are long: up to 0.25 MB are read for others, and up to 2.5 MB for these. */
export const LONG_LIST = 100;

/** How many long lists are read and answered at once: enough for every core, and some 10 MB together. */
const AT_ONCE = 4;

/** Lets a few long lists be read at once; the others wait for their turn, first come, first served. */
export class LongLists {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(private readonly atOnce = AT_ONCE) {}

  /** Gives what `read` gives, and throws what it throws; `limit` is how many plants are asked for. */
  async read<List>(limit: number, read: () => Promise<List>): Promise<List> {
    if (limit <= LONG_LIST) return read();
    if (this.#running === this.atOnce) await new Promise<void>((go) => this.#waiting.push(go));
    else this.#running += 1;
    try {
      return await read();
    } finally {
      const next = this.#waiting.shift();
      if (next)
        setImmediate(next); // what was read is sent before more is
      else this.#running -= 1;
    }
  }
}
