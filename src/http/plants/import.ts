import { type z } from 'zod';
import { type Plant } from '../../domain/plant.js';
import { newestOf, type Position, START } from '../../log/event-log.js';
import { type Freshness } from '../../lists/freshness.js';
import { type Ensured } from '../../commands/plant-commands.js';
import { Problem } from '../problem.js';
import { problemOf } from '../problem.filter.js';
import { BODY_LIMIT, readJson } from '../requests.js';
import { NewPlant } from '../schemas.js';
import { type ImportedLine, type ImportEnd } from './import-schemas.js';

/** Plants of one import that are written at a time: they share a commit, and leave room for other owners. */
const AT_ONCE = 32;

/** Refusals that are not about one line: 410 the owner is being erased, 429 too many requests, and failures of ours. */
const ENDS: ReadonlySet<number> = new Set([410, 429, 500, 503]);

type Outcome = z.input<typeof ImportedLine>;

export interface ImportWork {
  /** Counts a line as a request. Throws RateLimited. */
  readonly count: (line: number) => Promise<void>;
  /** Adds a plant, unless it is there as it is. Throws what commands throw. */
  readonly ensure: (plant: Plant) => Promise<Ensured>;
  readonly freshness: Pick<Freshness, 'listed' | 'raise'>;
  /** Called with errors that are none of the client's. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * One import. Plants are written a few at a time, and the next ones once the client has taken the outcomes of those. A
 * line that is refused for what it says does not hinder the others; what would refuse all that follow ends the import.
 */
export class Import {
  readonly #counts = { created: 0, exists: 0, refused: 0 };
  #position: Position = START;
  /** Lines whose outcomes were given, or that were empty. */
  #tried = 0;
  #stopped = false;

  constructor(
    private readonly owner: string,
    private readonly work: ImportWork,
  ) {}

  /**
   * The answer: the outcomes of all lines in their order, and how it ended. Each outcome is durable when it is given.
   * Throws the reason of `gone` where the client goes; ends early, and says so, when the service stops (`over`).
   */
  async *answer(
    lines: readonly Uint8Array[],
    gone: AbortSignal,
    over: AbortSignal,
  ): AsyncGenerator<string, void, undefined> {
    while (this.#tried < lines.length && !this.#stopped) {
      gone.throwIfAborted();
      if (over.aborted) break;
      const outcomes = await this.#some(lines);
      if (outcomes.length > 0) yield outcomes.map((outcome) => `${JSON.stringify(outcome)}\n`).join('');
    }
    yield `${JSON.stringify(await this.#end(lines.length))}\n`;
  }

  /** The outcomes of the next lines. */
  #some(lines: readonly Uint8Array[]): Promise<Outcome[]> {
    const running: Promise<Outcome>[] = [];
    /** The last of these lines about each plant: the next one about it comes after it. */
    const byId = new Map<number, Promise<Outcome>>();
    while (running.length < AT_ONCE && this.#tried < lines.length) {
      const text = lines[this.#tried] ?? new Uint8Array();
      const line = ++this.#tried;
      if (isBlank(text)) continue;
      const read = readLine(text);
      const id = 'plant' in read ? read.plant.id : undefined;
      const outcome = this.#outcome(line, read, id === undefined ? undefined : byId.get(id));
      if (id !== undefined) byId.set(id, outcome);
      running.push(outcome);
    }
    return Promise.all(running);
  }

  /** Never rejects. */
  async #outcome(line: number, read: ReadLine, before: Promise<Outcome> | undefined): Promise<Outcome> {
    try {
      await this.work.count(line);
      await before;
      if ('error' in read) throw read.error;
      const { id } = read.plant;
      const { created, position } = await this.work.ensure(read.plant);
      this.#position = newestOf([this.#position, position]);
      this.#counts[created ? 'created' : 'exists'] += 1;
      return created
        ? { line, status: 201, outcome: 'created', id, position }
        : { line, status: 200, outcome: 'exists', id, position };
    } catch (error) {
      const { code, status, message, extra } = problemOf(error);
      if (code === 'internal_error') this.work.onFailure(error);
      if (ENDS.has(status)) this.#stopped = true;
      this.#counts.refused += 1;
      return {
        ...{ line, status, outcome: 'refused' },
        ...('plant' in read && { id: read.plant.id }),
        ...{ code, detail: message },
        ...(extra.errors && { errors: extra.errors }),
      };
    }
  }

  async #end(lines: number): Promise<z.input<typeof ImportEnd>> {
    const position = this.#position;
    const left = lines - this.#tried;
    const isListed = position === START || (await this.work.freshness.listed(this.owner, position));
    if (position !== START) this.work.freshness.raise(this.owner, position);
    return {
      done: left === 0,
      ...this.#counts,
      left,
      lists: isListed ? 'current' : 'behind',
      ...(position !== START && { position }),
    };
  }
}

type ReadLine = { readonly plant: Plant } | { readonly error: unknown };

/** The plant of a line, or why it is none. */
const readLine = (text: Uint8Array): ReadLine => {
  try {
    if (text.length > BODY_LIMIT)
      throw new Problem('body_too_large', `A line must be at most ${BODY_LIMIT} bytes long.`);
    return { plant: readJson(text, NewPlant) };
  } catch (error) {
    return { error };
  }
};

/** True for nothing but spaces, tabs and carriage returns. */
const isBlank = (text: Uint8Array): boolean =>
  text.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
