/** The log, newest first, as far as it is looked at: events come from the tree, by their index, when their rows are seen. */
import { batch, computed, signal } from '@preact/signals';
import { sleep } from '../../api.js';
import { follow, type Live } from '../../live.js';
import { isAborted } from '../../problem.js';
import { textOf } from '../../../src/transparency/bytes.js';
import { type LogEvent } from '../../../src/transparency/event.js';
import { isObject, jsonIn } from '../../../src/transparency/json.js';
import { isEmpty, liveQuery, type LogFilter, matcherOf } from './log-filter.js';
import { BUNDLE_EVENTS, lastCheckpoint, leavesOf, sizeOf } from './tree.js';

/** Rows of one list at most: browsers do not draw boxes of any height. The rest is reached by beginning at an older event. */
const MOST_ROWS = 100_000;

/** Bundles that are kept: 24,000 events, some 10 MB. */
const KEPT_BUNDLES = 96;

/** Matches that are looked for at a time. */
const MATCHES_AT_ONCE = 100;

/** Bundles that are asked for before they are needed, while the log is searched. */
const AHEAD = 3;

/** The list is drawn again so often while events come, in milliseconds: there may be 500 of them in a second. */
const DRAW_EVERY_MS = 100;

/** After so long the checkpoint of an event may be there, in milliseconds. */
const GATHER_MS = 250;

/** A checkpoint is signed once a second at most, in milliseconds. */
const SIGNED_EVERY_MS = 1_000;

/** New events that are read to see which of those that have come are among them; where there are more, the list begins again. */
const MOST_NEW = 25 * BUNDLE_EVENTS;

/** When a service that could not be asked is asked again, in milliseconds. */
const AGAIN_MS = 5_000;

/** Events that have come and are in no checkpoint yet; where there are more, only the newest are shown. */
const MOST_PENDING = 1_000;

/** An event that no checkpoint covers yet. */
export interface PendingEvent {
  readonly event: LogEvent;
  readonly position: string;
}

/** A row: the index of an event in the tree, or one that is not in it yet. */
export type LogRow = number | PendingEvent;

/** Open it, and close it when it is not shown any more. */
export class LogView {
  /** Events that the last checkpoint covers; undefined before it has come. */
  readonly size = signal<number | undefined>(undefined);
  readonly error = signal<unknown>(undefined);
  readonly live = signal<Live | undefined>(undefined);
  /** Down to which index a filtered log was searched; undefined where nothing is filtered. */
  readonly searchedTo = signal<number | undefined>(undefined);
  readonly searching = signal(false);
  /** Counts the bundles that have come, so that rows are drawn again. */
  readonly loaded = signal(0);
  readonly #pending = signal<readonly PendingEvent[]>([]);
  readonly #matches = signal<readonly number[]>([]);
  /** The list holds still below this index while somebody reads further down. */
  readonly #heldAt = signal<number | undefined>(undefined);

  /** Those that a checkpoint covers; a computed signal of its own, since it changes more seldom than the others. */
  readonly #signed = computed<readonly number[]>(() => {
    const top = this.#heldAt.value ?? Math.min(this.size.value ?? 0, (this.from ?? Infinity) + 1);
    return this.#isFiltered ? this.#matches.value.filter((index) => index < top) : indicesBelow(top);
  });

  /** The rows, newest first. */
  readonly rows = computed<readonly LogRow[]>(() =>
    this.#heldAt.value === undefined && this.#pending.value.length > 0
      ? [...this.#pending.value, ...this.#signed.value]
      : this.#signed.value,
  );

  /** Rows that have come while the list holds still. */
  readonly newer = computed(() => {
    const held = this.#heldAt.value;
    if (held === undefined) return 0;
    const signed = this.#isFiltered
      ? this.#matches.value.filter((index) => index >= held).length
      : (this.size.value ?? held) - held;
    return signed + this.#pending.value.length;
  });

  readonly #isFiltered: boolean;
  readonly #isMeant: (event: LogEvent) => boolean;
  readonly #closing = new AbortController();
  readonly #bundles = new Map<number, readonly Uint8Array[]>();
  readonly #asked = new Map<number, Promise<readonly Uint8Array[]>>();
  readonly #events = new WeakMap<Uint8Array, LogEvent>();
  /** Not drawn yet, newest first. */
  #arrived: PendingEvent[] = [];
  #wake: (() => void) | undefined;

  /** `from`: the index of the newest event that is shown; without it the log is followed. */
  constructor(
    private readonly filter: LogFilter,
    private readonly from: number | undefined,
  ) {
    this.#isFiltered = !isEmpty(filter);
    this.#isMeant = matcherOf(filter);
  }

  open(): void {
    void this.#keepUp();
    if (this.from !== undefined) return;
    this.live.value = follow({
      path: 'audit/events',
      query: liveQuery(this.filter),
      onEvent: ({ data, id = '' }) => {
        this.#take(data, id);
      },
    });
  }

  close(): void {
    this.#closing.abort();
    this.#wake?.();
    this.live.peek()?.close();
  }

  /** Holds the list still, or lets it follow the log again. */
  hold(still: boolean): void {
    if (still) this.#heldAt.value ??= this.from === undefined ? this.size.peek() : undefined;
    else this.#heldAt.value = undefined;
  }

  /** The event of a row; undefined where it has not come yet: `want` asks for it. */
  eventOf(row: LogRow): LogEvent | undefined {
    if (typeof row !== 'number') return row.event;
    const leaf = this.#bundles.get(Math.floor(row / BUNDLE_EVENTS))?.[row % BUNDLE_EVENTS];
    return leaf && this.#eventIn(leaf);
  }

  /** Asks for the event with an index. Never rejects: `error` says what failed. */
  want(index: number): void {
    this.#bundle(Math.floor(index / BUNDLE_EVENTS)).catch((error: unknown) => {
      if (!isAborted(error)) this.error.value = error;
    });
  }

  /** Searches a filtered log for some more matches, or to its beginning. Never rejects: `error` says what failed. */
  async search(): Promise<void> {
    if (!this.#isFiltered || this.searching.peek() || !this.searchedTo.peek()) return;
    this.searching.value = true;
    try {
      const wanted = this.#matches.peek().length + MATCHES_AT_ONCE;
      for (;;) {
        const to = this.searchedTo.peek() ?? 0;
        if (to === 0 || this.#matches.peek().length >= wanted) return;
        const from = (Math.ceil(to / BUNDLE_EVENTS) - 1) * BUNDLE_EVENTS;
        const found = await this.#searchBetween(from, to);
        if (this.searchedTo.peek() !== to) continue; // the list has begun again meanwhile
        batch(() => {
          this.#matches.value = [...this.#matches.peek(), ...found];
          this.searchedTo.value = from;
        });
      }
    } catch (error) {
      if (!isAborted(error)) this.error.value = error;
    } finally {
      this.searching.value = false;
    }
  }

  /** Goes on after a failure. */
  retry(): void {
    this.error.value = undefined;
    this.#wake?.();
    void this.search();
  }

  /** The matches among the events from one index up to, but without, another, newest first; both are of one bundle. */
  async #searchBetween(from: number, to: number): Promise<number[]> {
    const bundle = from / BUNDLE_EVENTS;
    for (let ahead = bundle - 1; ahead >= Math.max(0, bundle - AHEAD); ahead--)
      this.#bundle(ahead).catch(() => undefined); // it is asked for again, and fails there
    const leaves = await this.#bundle(bundle);
    const found: number[] = [];
    for (let index = to - 1; index >= from; index--) {
      const leaf = leaves[index - from];
      const event = leaf && this.#eventIn(leaf);
      if (event && this.#isMeant(event)) found.push(index);
    }
    return found;
  }

  /** Follows the checkpoints for as long as the view is open. Never rejects. */
  async #keepUp(): Promise<void> {
    const { signal: closed } = this.#closing;
    const isClosed = (): boolean => closed.aborted;
    for (let failed = false; !isClosed();)
      try {
        await this.#refresh();
        if (failed) this.error.value = undefined;
        failed = false;
        if (this.#pending.peek().length > 0) await sleep(SIGNED_EVERY_MS, closed);
        else {
          await this.#woken();
          await sleep(GATHER_MS, closed);
        }
      } catch (error) {
        if (isClosed()) return;
        this.error.value = error;
        failed = true;
        await Promise.race([this.#woken(), sleep(AGAIN_MS, closed).catch(() => undefined)]);
      }
  }

  /** Resolves when an event has come, somebody tries again, or the view is closed. */
  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Takes what the last checkpoint covers into the list. */
  async #refresh(): Promise<void> {
    const size = sizeOf(await lastCheckpoint());
    if (size === undefined) throw new Error('The service has sent something else than a checkpoint.');
    const before = this.size.peek();
    if (before === undefined || size - before > MOST_NEW) this.#begin(size);
    else if (size > before && this.from === undefined) await this.#grow(before, size);
  }

  /** Begins with a log of this size. */
  #begin(size: number): void {
    batch(() => {
      this.size.value = size;
      this.#pending.value = [];
      this.#matches.value = [];
      if (this.#isFiltered)
        this.searchedTo.value = Math.min(size, this.from === undefined ? size : this.from + 1);
    });
    void this.search();
  }

  /** Takes new events into the list, and those that have come before out of what no checkpoint covers. */
  async #grow(before: number, size: number): Promise<void> {
    const found: number[] = [];
    const ids = new Set<string>();
    for (let index = before; index < size;) {
      const bundle = Math.floor(index / BUNDLE_EVENTS);
      for (const leaf of (await this.#bundle(bundle, size)).slice(index - bundle * BUNDLE_EVENTS)) {
        const event = this.#eventIn(leaf);
        if (event) ids.add(event.id);
        if (event && this.#isFiltered && this.#isMeant(event)) found.unshift(index);
        index += 1;
      }
    }
    batch(() => {
      this.size.value = size;
      this.#matches.value = [...found, ...this.#matches.peek()];
      this.#pending.value = this.#pending.peek().filter(({ event }) => !ids.has(event.id));
    });
  }

  #take(data: string, position: string): void {
    const event = eventOfCloud(data);
    if (!event) return;
    if (this.#arrived.length === 0) setTimeout(this.#draw, DRAW_EVERY_MS);
    this.#arrived.unshift({ event, position });
    if (this.#arrived.length > MOST_PENDING) this.#arrived.length = MOST_PENDING;
  }

  readonly #draw = (): void => {
    this.#pending.value = [...this.#arrived.splice(0), ...this.#pending.peek()].slice(0, MOST_PENDING);
    this.#wake?.();
  };

  /** The leaves of a bundle, as far as a log of this size fills it. */
  #bundle(bundle: number, size = this.size.peek() ?? 0): Promise<readonly Uint8Array[]> {
    const kept = this.#bundles.get(bundle);
    if (kept && kept.length >= Math.min(BUNDLE_EVENTS, size - bundle * BUNDLE_EVENTS)) {
      this.#keep(bundle, kept);
      return Promise.resolve(kept);
    }
    const asked = this.#asked.get(bundle);
    if (asked) return asked.then(() => this.#bundle(bundle, size));
    const coming = leavesOf(bundle, size, this.#closing.signal).then((leaves) => {
      this.#keep(bundle, leaves);
      this.loaded.value += 1;
      return leaves;
    });
    const forget = (): void => {
      this.#asked.delete(bundle);
    };
    coming.then(forget, forget);
    this.#asked.set(bundle, coming);
    return coming;
  }

  #keep(bundle: number, leaves: readonly Uint8Array[]): void {
    this.#bundles.delete(bundle);
    this.#bundles.set(bundle, leaves);
    const [oldest] = this.#bundles.keys();
    if (this.#bundles.size > KEPT_BUNDLES && oldest !== undefined) this.#bundles.delete(oldest);
  }

  #eventIn(leaf: Uint8Array): LogEvent | undefined {
    const known = this.#events.get(leaf);
    if (known) return known;
    const event = jsonIn(textOf(leaf) ?? '');
    if (!isObject(event) || typeof event.stream !== 'string' || typeof event.type !== 'string')
      return undefined;
    this.#events.set(leaf, event as unknown as LogEvent);
    return event as unknown as LogEvent;
  }
}

const indicesBelow = (top: number): number[] =>
  Array.from({ length: Math.min(top, MOST_ROWS) }, (_, at) => top - 1 - at);

/** An event of the live stream (CloudEvents) as the tree will hold it, as far as a row shows it. */
const eventOfCloud = (data: string): LogEvent | undefined => {
  const event = jsonIn(data);
  if (!isObject(event)) return undefined;
  const { id, stream, revision, type, time, actor, clientid } = event;
  if (typeof id !== 'string' || typeof stream !== 'string' || typeof type !== 'string') return undefined;
  return {
    data: event.data,
    id,
    metadata: { decidedAt: time, actor: { sub: actor, clientId: clientid } },
    revision: Number(revision),
    stream,
    type: type.replace(/^plants\./, '').replace(/\.v\d+$/, ''),
  };
};
