/** Plants of a file, as lines that POST /plants/import takes. */
import { bodyOf } from './plant-body.js';
import { CsvFault, csvHead, csvLine, parseCsv, separatorOf } from './csv.js';

/** One plant to add. */
export interface ImportLine {
  /** Its line in the file, from 1. */
  readonly line: number;
  /** As JSON, without a line end: what the service judges. */
  readonly json: string;
  /** The line or record as it stands in the file, for whoever corrects it. */
  readonly source: string;
}

/** A line that is no plant, whatever the service says. */
export interface LineFault {
  readonly line: number;
  readonly source: string;
  readonly detail: string;
}

export interface ReadFile {
  readonly format: 'NDJSON' | 'CSV';
  /** Beginning of a file of some of its lines. */
  readonly head: string;
  readonly lines: readonly ImportLine[];
  readonly faults: readonly LineFault[];
}

/** The longest line that is sent, in characters: a plant takes less than 4 KB, and one request 1 MiB. */
const LONGEST = 64 * 1024;

/** Sent at once: enough to keep the service busy, and little enough that a broken connection costs little. */
const CHUNK_LINES = 500;
const CHUNK_BYTES = 256 * 1024;

/** The names of the columns of a CSV file, in any order. */
const COLUMNS = ['name', 'tag', 'id'] as const;

/** Reads a file. Throws an Error that says what is wrong where it can have no plants. */
export const readPlants = (text: string): ReadFile => {
  if (text.trim() === '') throw new Error('There are no plants in it.');
  const read = /^\s*[{[]/.test(text) ? readNdjson(text) : readCsv(text);
  const short = read.lines.filter(({ json }) => json.length <= LONGEST);
  const long = read.lines
    .filter(({ json }) => json.length > LONGEST)
    .map(({ line }) => ({ line, source: '', detail: 'is longer than any plant' }));
  if (short.length + read.faults.length + long.length === 0) throw new Error('There are no plants in it.');
  return { ...read, lines: short, faults: [...read.faults, ...long] };
};

const readNdjson = (text: string): ReadFile => {
  if (/^\s*\[/.test(text))
    throw new Error(
      'This is a JSON array. A file of lines is wanted: one plant in each, {"name": …, "tag": …, "id": …}.',
    );
  const lines = text
    .split('\n')
    .map((source, index) => ({ line: index + 1, json: source.replace(/\r$/, ''), source }))
    .filter(({ json }) => json.trim() !== '');
  return { format: 'NDJSON', head: '', lines, faults: [] };
};

const readCsv = (text: string): ReadFile => {
  const separator = separatorOf(text);
  const records = parseCsv(text, separator);
  const head = records.next();
  const names = head.done ? [] : head.value.fields.map((field) => field.trim().toLowerCase());
  const missing = COLUMNS.filter((column) => !names.includes(column));
  if (missing.length > 0)
    throw new Error(
      `The first line has to name the columns name, tag and id, in any order. It has no ${missing.join(' and no ')}.`,
    );
  const lines: ImportLine[] = [];
  const faults: LineFault[] = [];
  try {
    for (const { line, fields } of records) {
      const source = csvLine(fields).trimEnd();
      const [name = '', tag = '', id = ''] = COLUMNS.map((column) => fields[names.indexOf(column)]);
      if (fields.length === names.length) lines.push({ line, source, json: bodyOf({ name, tag, id }) });
      else
        faults.push({
          line,
          source,
          detail: `has ${fields.length} fields, and the first line names ${names.length}`,
        });
    }
  } catch (error) {
    if (!(error instanceof CsvFault)) throw error;
    faults.push({ line: error.line, source: '', detail: `${error.message}; nothing after it was read` });
  }
  return { format: 'CSV', head: csvHead(names), lines, faults };
};

/** The next lines to send at once, from the beginning of those that are left. */
export const nextChunk = (left: readonly ImportLine[]): readonly ImportLine[] => {
  let bytes = 0;
  let count = 0;
  for (const { json } of left) {
    // At most three bytes for each UTF-16 unit.
    bytes += json.length * 3 + 1;
    if (count === CHUNK_LINES || (count > 0 && bytes > CHUNK_BYTES)) break;
    count += 1;
  }
  return left.slice(0, count);
};
