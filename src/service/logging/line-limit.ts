/** Lines of one kind a minute: about 30 KB, so that they do not fill a disk. */
const LINES = 100;

const WINDOW_MS = 60_000;

/** Kinds that are counted at a time; beyond them the count of the oldest one is dropped. */
const MAX_KINDS = 1_000;

/** The lines of one kind since the beginning of its window. */
interface Count {
  readonly since: number;
  lines: number;
}

/**
 * Limits the lines of one kind in a log, so that a client cannot fill the disk. Calls `onLeftOut` at most once a minute
 * for each kind, with the number of lines that were left out.
 */
export class LineLimit {
  readonly #counts = new Map<string, Count>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly onLeftOut: (kind: string, lines: number) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Returns true if one more line of this kind may be written now; if not, counts it as left out. */
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

  /** Reports left-out lines also where no further line comes. Does not keep the process running. */
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
