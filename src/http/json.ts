import { type AnyNode, parse as parseTree } from '@humanwhocodes/momoa';
import { type FieldError, Problem } from './problem.js';

/** A number that JavaScript cannot hold as it was written. No schema takes it for a number. */
export class InexactNumber {
  constructor(readonly text: string) {}
}

/**
 * Reads a body as JSON (RFC 8259), and refuses what readers may understand differently (I-JSON, RFC 7493):
 * bytes that are not UTF-8, names that occur twice. A byte order mark is ignored (RFC 8259, section 8.1). A number that would lose precision
 * becomes an InexactNumber. Throws Problem; no message repeats more than a character of the body, which may
 * hold a secret by mistake.
 */
export const parseStrictly = (body: Uint8Array): unknown => {
  const text = decodeUtf8(body);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw malformed(`${whereMalformed(text, (error as Error).message)}.`);
  }
  if (isUnambiguous(text, parsed)) return parsed;
  try {
    const duplicates: FieldError[] = [];
    const value = valueOf(parseTree(text, { mode: 'json' }).body, '', text, duplicates);
    if (duplicates.length > 0)
      throw new Problem('invalid_request', 'A name occurs twice in an object of the body.', {
        errors: duplicates,
      });
    return value;
  } catch (error) {
    if (error instanceof RangeError) throw malformed('It is nested too deeply.');
    throw error;
  }
};

/** An object of texts without escapes and of integers that are always exact: what nearly every client sends. */
const FLAT =
  /^\s*\{\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|-?\d{1,15})(?:\s*,\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|-?\d{1,15}))*\s*\}\s*$/;

/**
 * True if every reader understands a text as JSON.parse did, as far as one look can tell: a tree of its tokens, which
 * would tell for certain, takes ten times as long.
 */
const isUnambiguous = (text: string, parsed: unknown): boolean => {
  if (!FLAT.test(text)) return false;
  const values = Object.values(parsed as Record<string, string | number>);
  const strings = values.length + values.filter((value) => typeof value === 'string').length;
  let quotes = 0;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at + 1)) quotes += 1;
  return quotes === 2 * strings; // of a name that occurs twice there would be more
};

const malformed = (detail: string): Problem => new Problem('malformed_json', detail);

const utf8 = new TextDecoder('utf-8', { fatal: true }); // leaves out a byte order mark

const decodeUtf8 = (body: Uint8Array): string => {
  try {
    return utf8.decode(body);
  } catch {
    throw malformed('It is not UTF-8.');
  }
};

/**
 * True if JSON.parse has met the end of a text, by V8's message: the other parser tells the place of the last token.
 */
const endsTooEarly = (text: string, message: string): boolean =>
  message === 'Unexpected end of JSON input' ||
  / in JSON at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(message)?.[1] === String(text.length);

/** `message`, JSON.parse's own, repeats parts of the text, so the place is found by the other parser. */
const whereMalformed = (text: string, message: string): string => {
  if (endsTooEarly(text, message)) return 'It ends too early';
  try {
    parseTree(text, { mode: 'json' });
    return 'A string in it holds a control character that is not escaped';
  } catch (error) {
    if (error instanceof RangeError) return 'It is nested too deeply';
    if (error instanceof Error && 'line' in error && 'column' in error)
      return `It goes wrong at line ${String(error.line)}, column ${String(error.column)}`;
    throw error;
  }
};

const valueOf = (node: AnyNode, pointer: string, text: string, duplicates: FieldError[]): unknown => {
  switch (node.type) {
    case 'Object': {
      const entries = new Map<string, unknown>();
      for (const { name, value } of node.members) {
        const key = name.type === 'String' ? name.value : name.name;
        const inner = `${pointer}/${pointerToken(key)}`;
        if (entries.has(key)) addDuplicate(duplicates, inner);
        entries.set(key, valueOf(value, inner, text, duplicates));
      }
      return Object.fromEntries(entries); // defines its fields, also one that is named __proto__
    }
    case 'Array':
      return node.elements.map(({ value }, index) => valueOf(value, `${pointer}/${index}`, text, duplicates));
    case 'Number': {
      const written = text.slice(node.loc.start.offset, node.loc.end.offset);
      return isExact(written) ? Number(written) : new InexactNumber(written);
    }
    case 'String':
    case 'Boolean':
      return node.value;
    case 'Null':
      return null;
    default:
      throw new TypeError(`JSON has no ${node.type}`);
  }
};

/** So many are named at most: a body can hold thousands. */
const MAX_DUPLICATES = 10;

const addDuplicate = (duplicates: FieldError[], pointer: string): void => {
  if (duplicates.length < MAX_DUPLICATES && !duplicates.some((known) => known.pointer === pointer))
    duplicates.push({ pointer, detail: 'must occur only once' });
};

/** A name as part of a JSON Pointer (RFC 6901), cut where it is so long that an answer would swell. */
export const pointerToken = (name: string): string =>
  (name.length > 64 ? `${name.slice(0, 64)}…` : name).replaceAll('~', '~0').replaceAll('/', '~1');

/** True if a double is exactly the number that was written. */
const isExact = (written: string): boolean => {
  const value = Number(written);
  return Number.isFinite(value) && normalize(written) === normalize(value.toString());
};

/** A decimal number in one spelling: sign, digits without zeros at either end, and exponent of the last digit. */
const normalize = (decimal: string): string => {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(decimal) ?? [];
  const digits = whole + fraction;
  let start = 0;
  while (digits[start] === '0') start += 1;
  // Not by /0+$/: it is tried from each zero again, which takes 100 ms for 16 KiB of them.
  let end = digits.length;
  while (end > start && digits[end - 1] === '0') end -= 1;
  if (start === end) return '0';
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
};
