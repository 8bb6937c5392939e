import { type LogBatch, LogUnavailable, type Position } from '../../src/log/event-log.js';

type Method<Port> = {
  [Name in keyof Port]: Port[Name] extends (...args: never[]) => unknown ? Name : never;
}[keyof Port];

/** Instead of a call. `proceed` makes the call after all. */
export type Fault<Call> = Call extends (...args: infer Args) => infer Result
  ? (proceed: (...args: Args) => Result, ...args: Args) => Result
  : never;

type AnyCall = (...args: unknown[]) => unknown;

/** Faults around a real adapter: every call reaches it, but those that a test names. */
export class Faults<Port extends object> {
  /** The real adapter, with the faults. */
  readonly port: Port;
  readonly #once = new Map<PropertyKey, unknown[]>();
  readonly #always = new Map<PropertyKey, unknown>();
  readonly #calls = new Map<PropertyKey, number>();

  constructor(real: Port) {
    this.port = new Proxy(real, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        const proceed = member.bind(target) as AnyCall;
        return (...args: unknown[]) => {
          this.#calls.set(name, (this.#calls.get(name) ?? 0) + 1);
          const fault = (this.#once.get(name)?.shift() ?? this.#always.get(name)) as AnyCall | undefined;
          return fault ? fault(proceed, ...args) : proceed(...args);
        };
      },
    });
  }

  /** The next calls of a method: one fault for each. */
  next<Name extends Method<Port>>(method: Name, ...faults: Fault<Port[Name]>[]): this {
    this.#once.set(method, [...(this.#once.get(method) ?? []), ...faults]);
    return this;
  }

  /** All calls of a method that have no fault of their own, until `heal`. */
  every<Name extends Method<Port>>(method: Name, fault: Fault<Port[Name]>): this {
    this.#always.set(method, fault);
    return this;
  }

  /** From now on every call of a method reaches the adapter. */
  heal(method: Method<Port>): void {
    this.#always.delete(method);
    this.#once.delete(method);
  }

  calls(method: Method<Port>): number {
    return this.#calls.get(method) ?? 0;
  }
}

/** No fault: the call goes through. */
export const none = <Args extends unknown[], Result>(
  proceed: (...args: Args) => Result,
  ...args: Args
): Result => proceed(...args);

/** The call never reaches the adapter. */
export const failing = (error: () => Error) => (): Promise<never> => Promise.reject(error());

/** The log cannot be reached. */
export const logGone = failing(() => new LogUnavailable('gone'));

/** The call does its work, but its caller hears of a failure. */
export const failingAfterwards =
  (error: () => Error) =>
  async <Args extends unknown[]>(
    proceed: (...args: Args) => Promise<unknown>,
    ...args: Args
  ): Promise<never> => {
    await proceed(...args);
    throw error();
  };

/** Something happens before the call goes through. */
export const after =
  (meanwhile: () => Promise<unknown>) =>
  async <Args extends unknown[], Result>(
    proceed: (...args: Args) => Promise<Result>,
    ...args: Args
  ): Promise<Result> => {
    await meanwhile();
    return proceed(...args);
  };

/** As `after`; what comes of the call, or its error, is added to `outcomes`. */
export const noted =
  (outcomes: unknown[], meanwhile: () => void) =>
  async <Args extends unknown[], Result>(
    proceed: (...args: Args) => Promise<Result>,
    ...args: Args
  ): Promise<Result> => {
    meanwhile();
    const result = proceed(...args);
    outcomes.push(await result.catch((error: unknown) => error));
    return result;
  };

/** A promise, and how to keep it. */
export const gate = (): { readonly opened: Promise<void>; readonly open: () => void } => {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
};

/** A subscription that delivers in pieces of so many events. */
export const inPieces = (size: number) =>
  async function* (
    proceed: (from: Position, signal: AbortSignal) => AsyncIterable<LogBatch>,
    from: Position,
    signal: AbortSignal,
  ): AsyncGenerator<LogBatch, void, undefined> {
    for await (const { events, position, caughtUp } of proceed(from, signal)) {
      let start = 0;
      for (; start + size < events.length; start += size) {
        const piece = events.slice(start, start + size);
        yield { events: piece, position: piece.at(-1)?.position ?? position, caughtUp: false };
      }
      yield { events: events.slice(start), position, caughtUp };
    }
  };

/** A subscription that breaks off after so many pieces, of one event each. */
export const brokenOff = (pieces: number, error: () => Error) =>
  async function* (
    proceed: (from: Position, signal: AbortSignal) => AsyncIterable<LogBatch>,
    from: Position,
    signal: AbortSignal,
  ): AsyncGenerator<LogBatch, void, undefined> {
    let left = pieces;
    for await (const piece of inPieces(1)(proceed, from, signal)) {
      if (left-- === 0) throw error();
      yield piece;
    }
  };
