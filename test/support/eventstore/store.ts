/** An event's place in the whole log, as the server states it: two offsets into its transaction file. */
export interface LogPosition {
  readonly commit: bigint;
  readonly prepare: bigint;
}

/** An event as it came over the wire: bytes that were not checked. */
export interface ProposedEvent {
  readonly id: string;
  readonly type: string;
  readonly isJson: boolean;
  readonly data: Uint8Array;
  readonly metadata: Uint8Array;
}

export interface StoredEvent extends ProposedEvent, LogPosition {
  readonly stream: string;
  readonly revision: bigint;
  /** .NET ticks: steps of 100 ns since 1970, as text. */
  readonly created: string;
  /** Next position of a reader of `$all`. */
  readonly next: LogPosition;
  /** The answer to a read that holds this event, encoded when it is first wanted. */
  frame?: Buffer;
  /** Set once a scavenge has removed it: only its place is left, so that the places of others stay. */
  gone?: boolean;
}

export type Expected = 'any' | 'no_stream' | bigint;

export type AppendResult =
  | { readonly kind: 'success'; readonly revision: bigint; readonly position: LogPosition | undefined }
  | { readonly kind: 'wrong version'; readonly current: bigint | undefined }
  | { readonly kind: 'stream deleted' };

interface Stream {
  readonly events: StoredEvent[];
  /** Events below this revision are not read any more. The whole stream is soft-deleted at DELETED. */
  truncateBefore: bigint;
  maxCount: bigint | undefined;
  tombstoned: boolean;
}

/** The revision of a tombstone, and the `$tb` of a soft-deleted stream: the largest 64-bit integer of the server. */
export const DELETED = 2n ** 63n - 1n;

const TOMBSTONE = '$streamDeleted';

/** Bytes of a record besides its texts. About what the real one needs; only that it grows matters. */
const RECORD_OVERHEAD = 120;

const TICKS_PER_MS = 10_000n;
const NO_BYTES = new Uint8Array(0);

/**
 * The events of the fake EventStoreDB, in memory: streams, and `$all` over them. It follows IndexWriter.CheckCommit and
 * AllReader of EventStoreDB 23.10. Several members of a cluster may share one.
 */
export class EventStore {
  /** All events in the order of `$all`. */
  readonly all: StoredEvent[] = [];
  readonly #streams = new Map<string, Stream>();
  readonly #waiting = new Set<() => void>();
  #next = 0n;

  constructor() {
    // A real server is never empty: it has written about itself before the first client came.
    this.write('$$$stats', [jsonEvent('$metadata', { $maxAge: 86_400 })]);
    this.write('$stats-127.0.0.1:2113', [jsonEvent('$statsCollected', { 'proc-cpu': 0 })]);
  }

  /** Appends events to a stream if it is as expected, all of them or none. */
  append(name: string, expected: Expected, events: readonly ProposedEvent[]): AppendResult {
    const stream = this.#stream(name);
    const last = lastRevision(stream);
    const current = last < 0n ? undefined : last;
    if (stream.tombstoned) return { kind: 'stream deleted' };
    const softDeleted = stream.truncateBefore === DELETED;
    if (expected !== 'any') {
      const from = expected === 'no_stream' ? -1n : expected;
      if (from > last) return { kind: 'wrong version', current };
      if (from < last) {
        const written = events.map(({ id }, index) => {
          const event = stream.events[Number(from) + 1 + index];
          return event?.id === id ? event : undefined;
        });
        const end = written.at(-1);
        if (end && !written.includes(undefined)) {
          return this.#acknowledged(end);
        }
        // A soft-deleted stream counts as none, and goes on with its numbering.
        if (written[0] || expected !== 'no_stream' || !softDeleted) return { kind: 'wrong version', current };
      }
    }

    const written = this.write(name, events);
    if (softDeleted) {
      this.write(`$$${name}`, [jsonEvent('$metadata', { $tb: Number(last + 1n) })]);
    }
    return { kind: 'success', revision: written.revision, position: written };
  }

  /** Writes past everything that checks. Answers with the last event; `events` must hold one. */
  write(name: string, events: readonly ProposedEvent[], inTransaction?: 'in a transaction'): StoredEvent {
    const stream = this.#stream(name);
    const starts: bigint[] = [];
    for (const event of events) {
      starts.push(this.#next);
      this.#next += sizeOf(name, event);
    }
    // Only an explicit transaction of the old TCP clients has a commit record of its own after its events.
    const commit = inTransaction ? this.#next : undefined;
    if (inTransaction) this.#next += BigInt(RECORD_OVERHEAD);

    const created = (BigInt(Date.now()) * TICKS_PER_MS).toString();
    let last: StoredEvent | undefined;
    for (const [index, event] of events.entries()) {
      const prepare = starts[index] ?? this.#next;
      const post = starts[index + 1] ?? this.#next;
      last = {
        ...event,
        stream: name,
        revision: event.type === TOMBSTONE ? DELETED : BigInt(stream.events.length),
        created,
        prepare,
        commit: commit ?? prepare,
        next:
          commit !== undefined && post < commit ? { commit, prepare: post } : { commit: post, prepare: 0n },
      };
      stream.events.push(last);
      this.all.push(last);
    }
    if (!last) throw new Error('there must be an event to write');
    if (name.startsWith('$$')) this.#applyMetadata(name.slice(2), last.data);
    for (const wake of [...this.#waiting]) wake();
    return last;
  }

  /** The events of a stream that can be read, in order; undefined if there is no such stream (any more). */
  read(name: string): readonly StoredEvent[] | undefined {
    const stream = this.#streams.get(name);
    if (!stream || stream.events.length === 0 || stream.truncateBefore === DELETED) return undefined;
    // Of the events that describe another stream, only the last one counts.
    const maxCount = name.startsWith('$$') ? 1n : stream.maxCount;
    const oldest = maxCount === undefined ? 0n : lastRevision(stream) + 1n - maxCount;
    const from = oldest > stream.truncateBefore ? oldest : stream.truncateBefore;
    return from > 0n ? stream.events.slice(Number(from)) : stream.events;
  }

  /** The last revision that a stream ever had, whether or not it can be read; -1 if it has had none. */
  lastRevision(name: string): bigint {
    const stream = this.#streams.get(name);
    return stream ? lastRevision(stream) : -1n;
  }

  isTombstoned(name: string): boolean {
    return this.#streams.get(name)?.tombstoned ?? false;
  }

  /**
   * Index in `all` of the first event at or after a position. Or the fault of the position: it is none at all, it points
   * into a record, or after the last one.
   */
  find(position: LogPosition): number | 'no position' | 'within a record' | 'after the end' {
    const { commit, prepare } = position;
    if (commit > DELETED || prepare > commit) return 'no position';
    const index = this.#indexAt({ commit, prepare: 0n });
    const before = this.all[index - 1];
    if (this.all[index]?.commit === commit || before?.next.commit === commit) return this.#indexAt(position);
    return index === this.all.length ? 'after the end' : 'within a record';
  }

  #indexAt(position: LogPosition): number {
    let low = 0;
    let high = this.all.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const event = this.all[middle];
      if (event && isBefore(event, position)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Calls back once at the next event that is written, unless the signal aborts before. */
  async written(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal.addEventListener('abort', wake);
    });
  }

  /** The next event stands at this position, which must not be before what is written already. */
  jumpPosition(to: bigint): void {
    if (to < this.#next) throw new Error(`the log is at ${this.#next.toString()} already`);
    this.#next = to;
  }

  /** Readers of the stream begin at this revision from now on; in `$all` the events remain, as before a scavenge. */
  truncate(name: string, before: bigint): StoredEvent {
    return this.write(`$$${name}`, [jsonEvent('$metadata', { $tb: Number(before) })]);
  }

  /** The stream is not found any more, and goes on with its numbering when it is written again. */
  softDelete(name: string): StoredEvent {
    // Not by JSON.stringify: the server writes the whole number, which no JavaScript number can hold.
    const data = Buffer.from(`{"$tb":${DELETED.toString()}}`);
    return this.write(`$$${name}`, [{ ...jsonEvent('$metadata', {}), data }]);
  }

  /** The stream is deleted for good. */
  tombstone(name: string): StoredEvent {
    const event = { ...jsonEvent(TOMBSTONE, {}), isJson: false, data: NO_BYTES };
    const written = this.write(name, [event]);
    this.#stream(name).tombstoned = true;
    return written;
  }

  /**
   * Removes the events of streams that were deleted for good and, where the server ignores hard deletes, the tombstones.
   * The index in memory keeps them: such a stream is deleted until `restart`.
   */
  scavenge(ignoresHardDeletes: boolean): void {
    for (const event of this.all) {
      if (!this.isTombstoned(event.stream) || (event.type === TOMBSTONE && !ignoresHardDeletes)) continue;
      event.gone = true;
      delete event.frame;
      Object.assign(event, { data: NO_BYTES, metadata: NO_BYTES });
    }
  }

  /** Forgets streams of which a scavenge has left nothing: they begin again at revision 0. */
  restart(): void {
    for (const [name, { events, tombstoned }] of this.#streams)
      if (tombstoned && events.every(({ gone }) => gone)) this.#streams.delete(name);
  }

  /** The index of the first event that is left, from this one on. */
  firstLeft(index: number): number {
    let left = index;
    while (this.all[left]?.gone) left += 1;
    return left;
  }

  /** The answer to an append that has been written before. Where its last event stands is looked up by reading it. */
  #acknowledged(end: StoredEvent): AppendResult {
    const readable = this.read(end.stream)?.[0];
    const position = readable && readable.revision <= end.revision ? end : undefined;
    return { kind: 'success', revision: end.revision, position };
  }

  #stream(name: string): Stream {
    let stream = this.#streams.get(name);
    if (!stream) {
      stream = { events: [], truncateBefore: 0n, maxCount: undefined, tombstoned: false };
      this.#streams.set(name, stream);
    }
    return stream;
  }

  #applyMetadata(name: string, data: Uint8Array): void {
    const stream = this.#stream(name);
    const { $tb = 0, $maxCount } = metadataIn(data);
    stream.truncateBefore = $tb >= Number(DELETED) ? DELETED : BigInt($tb);
    stream.maxCount = $maxCount === undefined ? undefined : BigInt($maxCount);
  }
}

/** Metadata of a stream; nothing if it is no JSON. */
function metadataIn(data: Uint8Array): { $tb?: number; $maxCount?: number } {
  try {
    return JSON.parse(Buffer.from(data).toString()) as { $tb?: number; $maxCount?: number };
  } catch {
    return {};
  }
}

function sizeOf(stream: string, { type, data, metadata }: ProposedEvent): bigint {
  return BigInt(RECORD_OVERHEAD + stream.length + 2 * type.length + data.length + metadata.length);
}

function lastRevision(stream: Stream): bigint {
  return BigInt(stream.events.length) - 1n;
}

function isBefore(a: LogPosition, b: LogPosition): boolean {
  return a.commit < b.commit || (a.commit === b.commit && a.prepare < b.prepare);
}

/** An event as another program would write it; the same id never comes twice. */
export function jsonEvent(type: string, data: unknown): ProposedEvent {
  return {
    id: crypto.randomUUID(),
    type,
    isJson: true,
    data: Buffer.from(JSON.stringify(data)),
    metadata: NO_BYTES,
  };
}
