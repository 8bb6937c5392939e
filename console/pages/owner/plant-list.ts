/** One page of an owner's list, as it is and as it changes, or as it was. */
import { batch, signal } from '@preact/signals';
import { nextPage, position, reached, send } from '../../api.js';
import { follow, type Live } from '../../live.js';
import { isAborted } from '../../problem.js';

export interface Plant {
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

/** A change of the list: of a live stream, or of this page's own doing. */
export type Change =
  | { readonly type: 'added'; readonly plant: Plant; readonly position: string }
  | { readonly type: 'deleted'; readonly id: number; readonly position: string };

/** Plants of a page: the most that the API gives with their ids. */
export const PAGE_SIZE = 100;

/** Changes that are kept while the list is being fetched; if there are more, it is fetched again. */
const MOST_WAITING = 1_000;

export interface ListPlace {
  /** A cursor of the page before it. */
  readonly after?: string | undefined;
  /** An instant or a position: the list as it was. It does not change, and nothing is followed. */
  readonly asOf?: string | undefined;
}

/** Open it, and close it when it is not shown any more. */
export class PlantList {
  readonly plants = signal<readonly Plant[] | undefined>(undefined);
  /** The cursor of the next page; undefined on the last one. */
  readonly next = signal<string | undefined>(undefined);
  readonly error = signal<unknown>(undefined);
  readonly loading = signal(false);
  /** The live stream; undefined for a list of the past. */
  readonly live = signal<Live | undefined>(undefined);
  /** The last change, whoever made it. */
  readonly lastChange = signal<Change | undefined>(undefined);
  /** Plants that have come since the page was shown. */
  readonly fresh = signal<ReadonlySet<number>>(new Set());

  readonly #closing = new AbortController();
  #loading: AbortController | undefined;
  /** Up to where the shown list is known to contain everything: a position. */
  #upTo = '';
  #waiting: Change[] = [];
  /** Beginning of the live stream, until the list is known to be as far. */
  #begins = '';

  /** `before` is shown until the page has come: a page of another moment. */
  constructor(
    readonly place: ListPlace,
    readonly before?: readonly Plant[],
  ) {}

  open(): void {
    void this.load();
    if (this.place.asOf !== undefined) return;
    this.live.value = follow({
      path: 'plants/events',
      onEvent: ({ type, data, id = '' }) => {
        this.#take(type, data, id);
      },
    });
  }

  close(): void {
    this.#closing.abort();
    this.#loading?.abort();
    this.live.peek()?.close();
  }

  /** Asks for the page. A later call ends an earlier one. Never rejects: `error` says what failed. */
  async load(): Promise<void> {
    this.#loading?.abort();
    const loading = new AbortController();
    this.#loading = loading;
    this.loading.value = true;
    const { asOf, after } = this.place;
    const fresh = asOf === undefined ? position.peek() : undefined;
    try {
      const response = await send('plants', {
        query: { view: 'full', limit: PAGE_SIZE, after, asOf },
        ...(fresh !== undefined && { headers: { 'plants-position': fresh } }),
        signal: loading.signal,
      });
      const plants = (await response.json()) as Plant[];
      batch(() => {
        this.plants.value = plants;
        this.fresh.value = new Set();
        this.next.value = nextPage(response)?.get('after') ?? undefined;
        this.error.value = undefined;
        this.#upTo = response.headers.get('plants-position') ?? '';
        for (const change of this.#waiting.splice(0)) this.apply(change);
      });
      // The stream does not tell what is between the list and its own beginning.
      const isBehind = this.#begins > this.#upTo;
      this.#begins = '';
      if (isBehind) void this.load();
    } catch (error) {
      if (!isAborted(error)) this.error.value = error;
    } finally {
      if (this.#loading === loading) {
        this.loading.value = false;
        this.#loading = undefined;
      }
    }
  }

  /** Makes the page contain a change; one that it has already changes nothing. */
  apply(change: Change): void {
    reached(change.position);
    const plants = this.plants.peek();
    if (plants === undefined || change.position <= this.#upTo) return;
    if (change.type === 'added') this.#add(plants, change.plant);
    else this.#remove(plants, change.id);
    this.lastChange.value = change;
  }

  #take(type: string, data: string, id: string): void {
    if (type === 'ready') {
      reached(id);
      if (this.#loading) this.#begins = id;
      else if (id > this.#upTo) void this.load();
      return;
    }
    if (type === 'reload') {
      reached(id);
      void this.load();
      return;
    }
    const change = changeOf(type, data, id);
    if (!change) return;
    if (this.#loading) {
      this.#waiting = [...this.#waiting.slice(-MOST_WAITING), change];
      if (this.#waiting.length > MOST_WAITING) void this.load();
      return;
    }
    this.apply(change);
    if (id > this.#upTo) this.#upTo = id;
  }

  #add(plants: readonly Plant[], plant: Plant): void {
    const others = plants.filter(({ id }) => id !== plant.id);
    const [first] = plants;
    const last = plants.at(-1);
    // The ids before this page are not known here.
    const isBefore = this.place.after !== undefined && first !== undefined && plant.id < first.id;
    const isAfter = this.next.peek() !== undefined && last !== undefined && plant.id > last.id;
    if (isBefore || isAfter) return;
    const at = others.findIndex(({ id }) => id > plant.id);
    this.plants.value = at < 0 ? [...others, plant] : others.toSpliced(at, 0, plant);
    this.fresh.value = new Set([...this.fresh.peek(), plant.id]);
  }

  #remove(plants: readonly Plant[], id: number): void {
    const left = plants.filter((plant) => plant.id !== id);
    if (left.length === plants.length) return;
    this.plants.value = left;
    this.fresh.value = new Set([...this.fresh.peek()].filter((one) => one !== id));
    if (left.length === 0 && this.next.peek() !== undefined) void this.load();
  }
}

const changeOf = (type: string, data: string, position: string): Change | undefined => {
  const body = JSON.parse(data) as Plant;
  if (type === 'added') return { type, plant: body, position };
  return type === 'deleted' ? { type, id: body.id, position } : undefined;
};
