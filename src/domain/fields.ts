/** The longest name and the longest tag, in Unicode code points (what JSON Schema's `maxLength` counts too). */
export const MAX_TEXT = 200;

/**
 * The first thing wrong with a plant's id, or undefined. An id is any integer that a double holds exactly:
 * JSON clients in every language agree on those (RFC 8259, section 6).
 */
export const idFault = (value: unknown): string | undefined => {
  if (typeof value !== 'number') return 'must be an integer';
  if (!Number.isInteger(value)) return 'must be an integer, without a fraction';
  if (Object.is(value, -0)) return 'must be 0, not -0';
  if (!Number.isSafeInteger(value)) return 'must be between -9007199254740991 and 9007199254740991';
  return undefined;
};

/** The first thing wrong with a plant's name, or undefined. */
export const nameFault = (value: unknown): string | undefined => textFault(value, 1);

/** The first thing wrong with a plant's tag, or undefined. */
export const tagFault = (value: unknown): string | undefined => textFault(value, 0);

const textFault = (value: unknown, minimum: number): string | undefined => {
  if (typeof value !== 'string') return 'must be a string';
  // A text of n code points has at most 2n UTF-16 units, so a huge one is refused without walking it.
  const length = value.length > 2 * MAX_TEXT ? Infinity : Array.from(value).length;
  if (length < minimum) return 'must not be empty';
  if (length > MAX_TEXT) return `must be at most ${MAX_TEXT} characters long`;
  if (/\p{Surrogate}/u.test(value)) return 'must be well-formed Unicode: it holds a lone surrogate';
  const control = /\p{Cc}/u.exec(value);
  if (control) {
    const codePoint = control[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
    return `must not hold control characters: U+${codePoint} at character ${Array.from(value.slice(0, control.index)).length + 1}`;
  }
  return undefined;
};
