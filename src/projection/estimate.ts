/** The progress of work, and an estimate of its end. */
export interface Eta {
  /** From 0 to 1, never less than before. */
  readonly share: number;
  /** Seconds; undefined where nothing was measured yet. */
  readonly secondsLeft: number | undefined;
}

/**
 * The duration of verifying, as a multiple of building: it folds the same log into temporary lists and compares. Measured
 * beside requests: 0.9 over SQLite, 0.55 on servers. Only the first estimate: progress replaces it.
 */
const VERIFYING = 0.7;

/** The rate of building is measured over the last so many milliseconds, since it changes with the load. */
const WINDOW_MS = 10_000;

/** The work of building so far. Work is counted as the log counts distances. */
export interface Built {
  /** From the beginning of the log to the generation's position. */
  readonly done: number;
  /** From the beginning to the present end of the log. */
  readonly total: number;
  /** The work since `elapsedMs`: less than `done` where another process has begun. */
  readonly doneHere: number;
  readonly elapsedMs: number;
  /** The pauses among these, in milliseconds. */
  readonly idleMs: number;
}

const BEGINNING = { doneHere: 0, elapsedMs: 0, idleMs: 0 };

/** Estimates the end of a rebuild, which builds and then verifies. */
export class Estimate {
  #share = 0;
  /** The time that verifying will take, estimated from building. */
  #verifyingMs: number | undefined;
  /** The oldest of these is the last one that is at least WINDOW_MS old, or the first. */
  readonly #seen: Built[] = [];

  building(built: Built): Eta {
    const { done, total } = built;
    const share = total === 0 ? 1 : Math.min(1, done / total);
    const since = this.#before(built);
    const doneSince = built.doneHere - since.doneHere;
    if (doneSince <= 0) return this.#eta(share / (1 + VERIFYING), undefined);
    const elapsedMs = built.elapsedMs - since.elapsedMs;
    const busyMs = elapsedMs - (built.idleMs - since.idleMs);
    this.#verifyingMs = (busyMs / doneSince) * total * VERIFYING;
    const leftMs = (elapsedMs / doneSince) * Math.max(0, total - done);
    return this.#eta(share / (1 + VERIFYING), leftMs + this.#verifyingMs);
  }

  /** The progress about WINDOW_MS ago, or at the beginning. */
  #before(built: Built): Pick<Built, 'doneHere' | 'elapsedMs' | 'idleMs'> {
    const seen = this.#seen;
    seen.push(built);
    while ((seen[1]?.elapsedMs ?? Infinity) <= built.elapsedMs - WINDOW_MS) seen.shift();
    const [first] = seen;
    return first && first.elapsedMs <= built.elapsedMs - WINDOW_MS ? first : BEGINNING;
  }

  /** `share` of verifying is done, from 0 to 1. */
  verifying(share: number, elapsedMs: number): Eta {
    const overall = (1 + VERIFYING * share) / (1 + VERIFYING);
    const seen = share > 0 ? elapsedMs / share : undefined;
    const expected = this.#verifyingMs ?? seen;
    if (expected === undefined) return this.#eta(overall, undefined);
    // The further it is, the more counts what was seen.
    const wholeMs = (1 - share) * expected + share * (seen ?? expected);
    return this.#eta(overall, (1 - share) * wholeMs);
  }

  #eta(share: number, leftMs: number | undefined): Eta {
    this.#share = Math.max(this.#share, share);
    const secondsLeft = leftMs === undefined ? undefined : Number((leftMs / 1_000).toFixed(1));
    return { share: this.#share, secondsLeft };
  }
}
