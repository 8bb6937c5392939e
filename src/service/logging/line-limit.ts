/** So many lines of one kind a minute: enough to see what goes on, too few to fill a disk (about 30 KB). */
const LINES = 100;

const WINDOW_MS = 60_000;

/** So many kinds are counted at a time; beyond them the oldest one begins anew. */
const MAX_KINDS = 1_000;

/** What was written of one kind in its window. */
interface Count {
  readonly since: number;
  lines: number;
}

/**
 * Bounds the lines of one kind in a log, so that nobody can fill it. `onLeftOut` is called for each kind of which lines
 * were left out, once a minute at most, with their number.
 */
export class LineLimit {
  readonly #counts = new Map<string, Count>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly onLeftOut: (kind: string, lines: number) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Whether one more line of this kind may be written now; if not, it is counted as left out. */
  admits(kind: string): boolean {
    let count = this.#counts.get(kind);
    if (!count || this.now() - count.since >= WINDOW_MS) {
      this.#end(kind, count);
      count = { since: this.now(), lines: 0 };
      const [oldest] = this.#counts.size === MAX_KINDS ? this.#counts : [];
      if (oldest) this.#end(...oldest);
      this.#counts.set(kind, count);
    }
    count.lines += 1;
    if (count.lines <= LINES) return true;
    this.#timer ??= this.#lookLater();
    return false;
  }

  /** Tells of lines that were left out also where no further one comes. The process does not wait for it. */
  #lookLater(): NodeJS.Timeout {
    return setTimeout(() => {
      this.#timer = undefined;
      for (const [kind, count] of this.#counts)
        if (this.now() - count.since >= WINDOW_MS) this.#end(kind, count);
        else if (count.lines > LINES) this.#timer ??= this.#lookLater();
    }, WINDOW_MS).unref();
  }

  #end(kind: string, count: Count | undefined): void {
    this.#counts.delete(kind);
    if (count && count.lines > LINES) this.onLeftOut(kind, count.lines - LINES);
  }
}
