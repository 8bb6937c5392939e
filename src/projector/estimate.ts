/** How far a piece of work is, and how long the rest takes. */
export interface Outlook {
  /** From 0 to 1, never less than before. */
  readonly share: number;
  /** Seconds; undefined where nothing was measured yet. */
  readonly secondsLeft: number | undefined;
}

/**
 * Verifying takes so many times as long as building: it reads the same log and compares rows instead of writing them.
 * Measured on both kinds of stores, see docs/performance.md. It is only where the estimate begins: what verifying takes is seen
 * as it goes on.
 */
const VERIFYING = 0.4;

/**
 * The pace of building is that of so many milliseconds, at least: it changes with the traffic, and a rebuild may have
 * begun at another one.
 */
const WINDOW_MS = 10_000;

/** What building has done so far. Work is counted as the log counts distances. */
export interface Built {
  /** From the beginning of the log to where the generation is. */
  readonly done: number;
  /** From the beginning to the end of the log, as it is now. */
  readonly total: number;
  /** What was done since `elapsedMs`: less than `done` where another process has begun. */
  readonly doneHere: number;
  readonly elapsedMs: number;
  /** Of these, how long it held back, in milliseconds. */
  readonly idleMs: number;
}

const BEGINNING = { doneHere: 0, elapsedMs: 0, idleMs: 0 };

/** Estimates when a rebuild is over: first it builds, then it verifies. */
export class Estimate {
  #share = 0;
  /** How long verifying will take, estimated from building. */
  #verifyingMs: number | undefined;
  /** The oldest of these is the last one that is at least WINDOW_MS old, or the first. */
  readonly #seen: Built[] = [];

  building(built: Built): Outlook {
    const { done, total } = built;
    const share = total === 0 ? 1 : Math.min(1, done / total);
    const since = this.#before(built);
    const doneSince = built.doneHere - since.doneHere;
    if (doneSince <= 0) return this.#outlook(share / (1 + VERIFYING), undefined);
    const elapsedMs = built.elapsedMs - since.elapsedMs;
    const busyMs = elapsedMs - (built.idleMs - since.idleMs);
    this.#verifyingMs = (busyMs / doneSince) * total * VERIFYING;
    const leftMs = (elapsedMs / doneSince) * Math.max(0, total - done);
    return this.#outlook(share / (1 + VERIFYING), leftMs + this.#verifyingMs);
  }

  /** How far it was about WINDOW_MS ago, or at the beginning. */
  #before(built: Built): Pick<Built, 'doneHere' | 'elapsedMs' | 'idleMs'> {
    const seen = this.#seen;
    seen.push(built);
    while ((seen[1]?.elapsedMs ?? Infinity) <= built.elapsedMs - WINDOW_MS) seen.shift();
    const [first] = seen;
    return first && first.elapsedMs <= built.elapsedMs - WINDOW_MS ? first : BEGINNING;
  }

  /** `share` of verifying is done, from 0 to 1. */
  verifying(share: number, elapsedMs: number): Outlook {
    const overall = (1 + VERIFYING * share) / (1 + VERIFYING);
    const seen = share > 0 ? elapsedMs / share : undefined;
    const expected = this.#verifyingMs ?? seen;
    if (expected === undefined) return this.#outlook(overall, undefined);
    // The further it is, the more counts what was seen.
    const wholeMs = (1 - share) * expected + share * (seen ?? expected);
    return this.#outlook(overall, (1 - share) * wholeMs);
  }

  #outlook(share: number, leftMs: number | undefined): Outlook {
    this.#share = Math.max(this.#share, share);
    const secondsLeft = leftMs === undefined ? undefined : Number((leftMs / 1_000).toFixed(1));
    return { share: this.#share, secondsLeft };
  }
}
