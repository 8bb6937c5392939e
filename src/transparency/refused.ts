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

/** Returns the result of `check`, or its refusal. Other errors stay errors: they say nothing of the proof. */
export const verdictOf = async <Proven>(check: () => Promise<Proven>): Promise<Proven | Refusal> => {
  try {
    return await check();
  } catch (error) {
    if (error instanceof Refused) return { verdict: 'refused', reason: error.message };
    throw error;
  }
};

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
