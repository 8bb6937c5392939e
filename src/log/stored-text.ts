import { type ExpectedRevision, type Json, type NewEvent } from './event-log.js';

/**
 * Returns a text that every store keeps unchanged. UTF-8 has no lone surrogates, and SQLite reads up to the first NUL:
 * throws TypeError for these and for an empty text.
 */
export const name = (text: string): string => {
  if (text === '' || /[\p{Surrogate}\0]/u.test(text))
    throw new TypeError(`${JSON.stringify(text)} is empty, not well-formed, or holds a NUL`);
  return text;
};

/** The JSON text of a value. Throws TypeError for a value that JSON would change. */
const jsonText = (value: Json): string => {
  if (!isJson(value)) throw new TypeError('only what JSON gives back as it was can be appended');
  return JSON.stringify(value);
};

const isJson = (value: unknown): boolean => {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0);
    case 'object': {
      if (value === null) return true;
      if (Array.isArray(value)) return Array.from<unknown>(value).every(isJson); // a hole becomes undefined here
      const prototype: unknown = Object.getPrototypeOf(value);
      const plain = prototype === null || Object.getPrototypeOf(prototype) === null;
      return plain && !('toJSON' in value) && Object.values(value).every(isJson);
    }
    default:
      return false;
  }
};

/** An event to append, with `data` and `metadata` as JSON texts. */
export interface EventText {
  readonly id: string;
  readonly type: string;
  readonly data: string;
  readonly metadata: string;
}

/** The texts of an event to append. Throws TypeError where one would not be kept unchanged. */
export const textOf = ({
  id,
  type,
  data,
  metadata,
}: Pick<NewEvent, 'id' | 'type' | 'data'> & { readonly metadata: Json }): EventText => ({
  id: name(id),
  type: name(type),
  data: jsonText(data),
  metadata: jsonText(metadata),
});

/** Throws TypeError for a revision that no stream has, and for no events. */
export const assertAppend = (expected: ExpectedRevision, events: readonly NewEvent[]): void => {
  if (expected !== 'none' && expected < 0n) throw new TypeError(`${expected} is not a revision`);
  if (events.length === 0) throw new TypeError('an append needs at least one event');
};

/**
 * The value of a stored JSON text, or the text itself where it is no JSON: the codec refuses that with its position.
 */
export const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};
