import { prepareColumns, type Database } from '../../sqlite/database.js';
import { schemaFault } from './event-log-schema.js';
import { EventTexts, type TextFault } from './event-text.js';

/** Events of one step: a millisecond. */
const STEP = 100;

/** The index of a UNIQUE constraint is given its name by SQLite. https://sqlite.org/fileformat2.html#internal_schema_objects */
const BY_STREAM = 'events INDEXED BY sqlite_autoindex_events_1';

type BadRow = [seq: number, stream: string, revision: number, found: number | null];

/** A fault of a file, at an event or as a whole. */
export interface FileDisagreement {
  readonly event?: { readonly seq: number; readonly stream: string; readonly revision: number };
  /** A clause that follows the file's name. */
  readonly message: string;
}

/**
 * Compares events with the index of streams, the events of each stream with one another, and the bytes of each row with
 * those that an append writes. SQLite trusts its index: with an altered entry a stream seems to end earlier, and the
 * same events can be appended again.
 */
export class EventLogCheck {
  readonly #end;
  readonly #bad;
  readonly #texts;

  /** `identity`: of the log when it was opened. Throws what SQLite throws. */
  constructor(
    private readonly db: Database,
    private readonly identity: string,
  ) {
    db.exec('PRAGMA shrink_memory'); // cached pages would hide changes of the file
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

  /** As `schemaFault`, and whether the identity is the same. Reads pages without events, too. */
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
      : `has the identity ${identity}, and had ${this.identity} when it was opened: it was changed by another program`;
  }

  /** Checks the next events. `upTo` is the number of the last one; undefined where there is none. */
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
