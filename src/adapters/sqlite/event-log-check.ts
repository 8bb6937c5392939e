import { prepareColumns, type Database } from './database.js';
import { schemaFault } from './event-log-schema.js';
import { EventTexts, type TextFault } from './event-text.js';

/** Events of one step: about a millisecond's work. */
const STEP = 100;

/** The index of a UNIQUE constraint is given its name by SQLite. https://sqlite.org/fileformat2.html#internal_schema_objects */
const BY_STREAM = 'events INDEXED BY sqlite_autoindex_events_1';

type BadRow = [seq: number, stream: string, revision: number, found: number | null];

/** What does not agree in a file: with an event, or with the file as a whole. */
export interface FileDisagreement {
  readonly event?: { readonly seq: number; readonly stream: string; readonly revision: number };
  /** One clause that the name of the file goes before. */
  readonly message: string;
}

/**
 * Compares the events with the index that streams are read by, and streams with themselves. SQLite believes its index:
 * where an entry of it was altered, a stream seems to have ended earlier, or never to have begun, and the same events
 * can be appended a second time. Compares the bytes of each row with those that an append writes, too.
 */
export class EventLogCheck {
  readonly #end;
  readonly #bad;
  readonly #texts;

  /** `identity` is that which the log had when it was opened. Throws whatever SQLite does. */
  constructor(
    private readonly db: Database,
    private readonly identity: string,
  ) {
    db.exec('PRAGMA shrink_memory'); // pages that were read before hide what was done to them in the file since
    this.#texts = new EventTexts(db);
    this.#end = db.prepare(
      `SELECT max(seq) AS seq FROM (SELECT seq FROM events WHERE seq > ? ORDER BY seq LIMIT ${STEP})`,
    );
    this.#bad = prepareColumns<BadRow>(
      db,
      `SELECT seq, stream, revision,
         (SELECT seq FROM ${BY_STREAM} WHERE stream = e.stream AND revision = e.revision) AS found
       FROM events e NOT INDEXED
       WHERE seq > ? AND seq <= ?
         AND (found IS NOT seq
           OR (revision <> 0 AND NOT EXISTS
             (SELECT 1 FROM ${BY_STREAM} WHERE stream = e.stream AND revision = e.revision - 1 AND seq < e.seq)))
       ORDER BY seq LIMIT 1`,
    );
  }

  /** As `schemaFault`; and whether it is still the log that was opened. Reads the pages that hold no events, too. */
  schema(): FileDisagreement | undefined {
    const message = schemaFault(this.db) ?? this.#identityFault();
    return message === undefined ? undefined : { message };
  }

  #identityFault(): string | undefined {
    const { identity } = this.db
      .prepare("SELECT identity, (SELECT seq FROM sqlite_sequence WHERE name = 'events') FROM log")
      .get() as { identity: string };
    return identity === this.identity
      ? undefined
      : `has the identity ${identity}, and had ${this.identity} when it was opened: somebody has changed it`;
  }

  /** Looks at the next events after a number. `upTo` is the last of them; undefined where there is none. */
  step(after: number): { readonly upTo: number | undefined; readonly found: FileDisagreement | undefined } {
    const { seq } = this.#end.get(after) as { seq: number | null };
    if (seq === null) return { upTo: undefined, found: undefined };
    const [bad] = this.#bad.all(after, seq);
    if (bad) return { upTo: seq, found: disagreementOf(bad) };
    const fault = this.#texts.faultIn(after, seq);
    return { upTo: seq, found: fault && otherText(fault) };
  }
}

const disagreementOf = ([seq, stream, revision, found]: BadRow): FileDisagreement => ({
  event: { seq, stream, revision },
  message:
    found === null
      ? `contradicts itself: event ${revision} of ${stream} is not found by its stream: the index was altered`
      : found !== seq
        ? `contradicts itself: event ${revision} of ${stream} is there twice: the index was altered, or events were put in`
        : `contradicts itself: event ${revision} of ${stream} has no event ${revision - 1} before it`,
});

const otherText = ({ seq, stream, revision, reason }: TextFault): FileDisagreement => ({
  event: { seq, stream, revision },
  message: `holds event ${revision} of ${stream} in another form than it was written in: ${reason}`,
});
