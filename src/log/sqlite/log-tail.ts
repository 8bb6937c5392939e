import { type RecordedEvent } from '../event-log.js';

/** Most bytes that the tail holds, about. */
const MOST_BYTES = 4 * 1024 * 1024;

/** Bytes of an event beside its texts, about. */
const EVENT_BYTES = 1_000;

/** The last events of a log, as the objects that were appended: subscribers that keep up never read the file. */
export class LogTail {
  #events: { readonly event: RecordedEvent; readonly bytes: number }[] = [];
  #bytes = 0;

  /** Adds events that were appended. Events that others have put before them are in the file alone. */
  add(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      const last = this.#events.at(-1)?.event.position;
      if (last !== undefined && Number(event.position) !== Number(last) + 1) this.clear();
      const bytes = EVENT_BYTES + 2 * event.stream.length + sizeOf(event.data);
      this.#events.push({ event, bytes });
      this.#bytes += bytes;
    }
    if (this.#bytes <= MOST_BYTES) return;
    // Half of it at once, so that removing costs little for each event.
    let gone = 0;
    for (; this.#bytes > MOST_BYTES / 2 && gone < this.#events.length; gone += 1)
      this.#bytes -= this.#events[gone]?.bytes ?? 0;
    this.#events = this.#events.slice(gone);
  }

  /** The first events after a number, at most `limit`; undefined where it does not reach back so far. */
  after(seq: number, limit: number): readonly RecordedEvent[] | undefined {
    const first = Number(this.#events[0]?.event.position ?? Infinity);
    if (seq + 1 < first) return undefined;
    const from = seq + 1 - first;
    return this.#events.slice(from, from + limit).map(({ event }) => event);
  }

  clear(): void {
    this.#events = [];
    this.#bytes = 0;
  }
}

/** The size of a value of JSON as a text, about, in bytes. */
const sizeOf = (data: unknown): number => {
  if (typeof data === 'string') return 2 * data.length;
  if (typeof data !== 'object' || data === null) return 8;
  return Object.values(data).reduce((size: number, value) => size + sizeOf(value), 0);
};
