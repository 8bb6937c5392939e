/** Thrown for what does not hold. The message is one line: the first thing that does not fit. */
export class Refused extends Error {
  override readonly name: string = 'Refused';
}

/** The verdict on what does not hold. */
export interface Refusal {
  readonly verdict: 'refused';
  /** The first thing that does not fit, in one line. */
  readonly reason: string;
}

type ErrorType<Known extends Error> = abstract new (...args: never[]) => Known;

/** Handles errors of these types, as the `catch` of a promise; other errors are thrown on. */
export const onlyFor =
  <Known extends Error, Handled>(types: readonly ErrorType<Known>[], handle: (error: Known) => Handled) =>
  (error: unknown): Handled => {
    if (types.some((type) => error instanceof type)) return handle(error as Known);
    throw error;
  };

/** Returns the result of `work`, or that of `handle` where it throws an error of these types; other errors are thrown on. */
export const orElse = <Result, Known extends Error, Handled>(
  work: () => Result,
  types: readonly ErrorType<Known>[],
  handle: (error: Known) => Handled,
): Result | Handled => {
  try {
    return work();
  } catch (error) {
    return onlyFor(types, handle)(error);
  }
};

/** Returns the result of `check`, or its refusal. Other errors stay errors: they say nothing of the proof. */
export const verdictOf = <Proven>(check: () => Promise<Proven>): Promise<Proven | Refusal> =>
  check().catch(onlyFor([Refused], ({ message }): Refusal => ({ verdict: 'refused', reason: message })));

/** Runs a part of a check, and says in the reasons of its refusals what they are about. */
export const about = async <Result>(what: string, part: () => Promise<Result>): Promise<Result> => {
  try {
    return await part();
  } catch (error) {
    if (error instanceof Refused) throw new Refused(`${what}: ${error.message}`);
    throw error;
  }
};

const MAX_QUOTED = 100;

/** Text from outside, for a message: one line, at most MAX_QUOTED characters, without control and format characters. */
export const quoted = (text: string): string =>
  JSON.stringify(text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text).replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`,
  );
