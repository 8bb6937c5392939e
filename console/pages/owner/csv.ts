/** Comma-separated values (RFC 4180), as spreadsheets write and read them. */

/** A record, and the line of the file that it begins in, from 1. */
export interface CsvRecord {
  readonly line: number;
  readonly fields: readonly string[];
}

/** A file cannot be read on from a line. */
export class CsvFault extends Error {
  override readonly name = 'CsvFault';
  constructor(
    readonly line: number,
    message: string,
  ) {
    super(message);
  }
}

/** The first line of a file, after a byte order mark: without one, Excel takes UTF-8 for another encoding. */
export const csvHead = (names: readonly string[]): string => `\uFEFF${csvLine(names)}`;

/** The most frequent separator in the first line: spreadsheets of some countries write semicolons. */
export const separatorOf = (text: string): string => {
  const [first = ''] = text.split(/\r?\n/, 1);
  const counted = [',', ';', '\t'].map((one) => [one, first.split(one).length] as const);
  return counted.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
};

/**
 * The records of a text, empty lines left out. A field in double quotes may hold separators, line ends, and quotes, which
 * are then doubled. Throws CsvFault where a quoted field does not end, or is followed by something else.
 */
export function* parseCsv(text: string, separator = ','): Generator<CsvRecord> {
  let line = 1;
  let at = 0;
  while (at < text.length) {
    const begin = line;
    const fields: string[] = [];
    for (let more = true; more;) {
      const field = text[at] === '"' ? quotedField(text, at, line) : plainField(text, at, separator);
      fields.push(field.value);
      line += field.lineEnds;
      at = field.end;
      more = text[at] === separator;
      if (more) at += 1;
      else if (at < text.length && text[at] !== '\n' && text[at] !== '\r')
        throw new CsvFault(line, 'there is something between a closing quote and the next field');
    }
    if (text[at] === '\r') at += 1;
    if (text[at] === '\n') at += 1;
    line += 1;
    if (fields.length > 1 || fields[0] !== '') yield { line: begin, fields };
  }
}

interface FieldAt {
  readonly value: string;
  /** Index after it. */
  readonly end: number;
  readonly lineEnds: number;
}

const plainField = (text: string, start: number, separator: string): FieldAt => {
  let end = start;
  while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end += 1;
  return { value: text.slice(start, end), end, lineEnds: 0 };
};

const quotedField = (text: string, start: number, line: number): FieldAt => {
  let value = '';
  for (let from = start + 1; ;) {
    const quote = text.indexOf('"', from);
    if (quote < 0) throw new CsvFault(line, 'a field that begins with a quote does not end');
    value += text.slice(from, quote);
    if (text[quote + 1] !== '"') return { value, end: quote + 1, lineEnds: value.split('\n').length - 1 };
    value += '"';
    from = quote + 2;
  }
};

/** One record as text, with its line end. Fields are quoted where they have to be. */
export const csvLine = (fields: readonly string[]): string =>
  `${fields.map((field) => (/[",;\t\r\n]|^\s|\s$/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(',')}\r\n`;
