import { isUtf8 } from 'node:buffer';
import { isDeeperThan, MAX_DEPTH } from '../../domain/json-depth.js';
import { prepareColumns, type Database } from '../../sqlite/database.js';

/** An event whose row is not as an append writes it; `reason` is the end of a clause. */
export interface TextFault {
  readonly seq: number;
  readonly stream: string;
  readonly revision: number;
  readonly reason: string;
}

type Bytes = Uint8Array;

/** A row of an event, as readers get it. */
export type EventRow = [
  seq: number,
  stream: string,
  revision: number,
  id: string,
  type: string,
  data: string,
  metadata: string,
];

/** `octets` is the length of the five texts in the file, `kept` whether they are stored as texts. */
type ReadRow = [...EventRow, octets: number, kept: number];

type StoredRow = [classes: string, stream: Bytes, id: Bytes, type: Bytes, data: Bytes, metadata: Bytes];

/** https://sqlite.org/datatype3.html#storage_classes_and_datatypes */
const CLASSES = 'integer text text text text text';

/** Read in place of bytes that are no UTF-8. */
const REPLACEMENT = '\uFFFD';

/**
 * Compares the bytes of rows with those that an append writes. JSON has many texts for one value (repeated names,
 * escapes, spaces), and a text can continue behind a NUL: all are read as the same event and have the same leaf, but
 * SQLite's functions and other programs read something else. The order of names in an object is not compared: it is the
 * writer's, and each reader finds the same.
 */
export class EventTexts {
  readonly #read;
  readonly #stored;

  constructor(db: Database) {
    this.#read = prepareColumns<ReadRow>(
      db,
      `SELECT seq, stream, revision, id, type, data, metadata,
         octet_length(stream) + octet_length(id) + octet_length(type) + octet_length(data) + octet_length(metadata),
         typeof(revision) = 'integer' AND typeof(stream) = 'text' AND typeof(id) = 'text'
           AND typeof(type) = 'text' AND typeof(data) = 'text' AND typeof(metadata) = 'text'
       FROM events NOT INDEXED WHERE seq > ? AND seq <= ? ORDER BY seq`,
    );
    this.#stored = prepareColumns<StoredRow>(
      db,
      `SELECT
         concat_ws(' ', typeof(revision), typeof(stream), typeof(id), typeof(type), typeof(data), typeof(metadata)),
         CAST(stream AS BLOB), CAST(id AS BLOB), CAST(type AS BLOB), CAST(data AS BLOB), CAST(metadata AS BLOB)
       FROM events NOT INDEXED WHERE seq = ?`,
    );
  }

  /** Checks the events after one number, up to another. */
  faultIn(after: number, upTo: number): TextFault | undefined {
    for (const row of this.#read.all(after, upTo)) {
      if (isWritten(row)) continue;
      const [seq, name, revision] = row;
      // Some versions of SQLite's drop-in and of Node read a text up to a NUL, and others all of it.
      const [stream = ''] = name.split('\0', 1);
      const [stored] = this.#stored.all(seq);
      const reason = stored && reasonOf(stored);
      if (reason !== undefined) return { seq, stream, revision, reason };
    }
    return undefined;
  }
}

/**
 * True if a row is as an append writes it. Does not read its bytes, which takes five times as long: what was read is what
 * is stored where it is as long and has no replacement character.
 */
const isWritten = ([, stream, , id, type, data, metadata, octets, kept]: ReadRow): boolean => {
  if (kept !== 1) return false;
  const text = stream + id + type + data + metadata;
  return (
    Buffer.byteLength(text) === octets &&
    !text.includes(REPLACEMENT) &&
    !text.includes('\0') &&
    stream !== '' &&
    id !== '' &&
    type !== '' &&
    isJsonText(data) &&
    isJsonText(metadata)
  );
};

const reasonOf = ([classes, stream, id, type, data, metadata]: StoredRow): string | undefined => {
  if (classes !== CLASSES) return `its columns are stored as ${classes}`;
  for (const [column, bytes] of Object.entries({ stream, id, type }))
    if (!isName(bytes)) return `its ${column} is empty, holds a NUL, or is not UTF-8`;
  for (const [column, bytes] of Object.entries({ data, metadata }))
    if (!isUtf8(bytes) || !isJsonText(Buffer.from(bytes).toString()))
      return `its ${column} is not the JSON text that this service writes for it`;
  return undefined;
};

/** True if `name` of stored-text.ts accepts the text of these bytes. */
const isName = (bytes: Bytes): boolean => bytes.length > 0 && !bytes.includes(0) && isUtf8(bytes);

/** True if `jsonText` of stored-text.ts writes this text for its value. */
const isJsonText = (text: string): boolean => {
  try {
    const value: unknown = JSON.parse(text);
    if (JSON.stringify(value) !== text) return false;
    // Node before 26 has thrown where a text has far more levels than that. Each needs two characters.
    return text.length <= 2 * MAX_DEPTH || !isDeeperThan(value, MAX_DEPTH);
  } catch {
    return false;
  }
};
