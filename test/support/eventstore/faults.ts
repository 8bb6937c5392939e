import { type Failure } from './failure.js';

/** A client's requests, as far as tests tell them apart. */
export type Method = 'batchAppend' | 'read' | 'subscribe' | 'delete' | 'scavenge';

/** Calls of one method that wait. */
export interface Hold {
  /** Resolves when the first call waits. */
  readonly arrived: Promise<void>;
  readonly waiting: number;
  /** Lets all of them go on, and the later ones pass. */
  release(): void;
}

/** The request before anything is done, or the answer when all is done. */
export type Held = 'request' | 'answer';

/** An acknowledgement never comes, or its connection goes. */
export type Loss = 'silence' | 'cut';

/** Requested by the tests. */
export class Faults {
  readonly #failures = new Map<Method, Failure[]>();
  readonly #holds = new Map<string, { until: Promise<void>; arrive: () => void }>();
  #lost: { how: Loss; times: number } = { how: 'silence', times: 0 };

  answerNext(method: Method, failure: Failure, times: number): void {
    const failures = this.#failures.get(method) ?? [];
    failures.push(...Array.from({ length: times }, () => failure));
    this.#failures.set(method, failures);
  }

  /** The failure that the next call of the method gets, taken off the list. */
  take(method: Method): Failure | undefined {
    return this.#failures.get(method)?.shift();
  }

  hold(method: Method, held: Held): Hold {
    const key = `${method} ${held}`;
    if (this.#holds.has(key)) throw new Error(`${key} is held already`);
    let waiting = 0;
    let arrived = (): void => undefined;
    let go = (): void => undefined;
    const arrivedPromise = new Promise<void>((resolve) => (arrived = resolve));
    const until = new Promise<void>((resolve) => (go = resolve));
    this.#holds.set(key, {
      until,
      arrive: () => {
        waiting += 1;
        arrived();
      },
    });
    return {
      arrived: arrivedPromise,
      get waiting() {
        return waiting;
      },
      release: () => {
        this.#holds.delete(key);
        go();
      },
    };
  }

  /** Wait of a call before it goes on; undefined if none. */
  held(method: Method, held: Held): Promise<void> | undefined {
    const hold = this.#holds.get(`${method} ${held}`);
    hold?.arrive();
    return hold?.until;
  }

  lose(times: number, how: Loss): void {
    this.#lost = { times, how };
  }

  /** Counts the acknowledgement at hand; undefined if it is not lost. */
  loses(): Loss | undefined {
    if (this.#lost.times === 0) return undefined;
    this.#lost.times -= 1;
    return this.#lost.how;
  }
}
