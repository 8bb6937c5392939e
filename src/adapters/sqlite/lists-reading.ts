import { setImmediate as nextTurn } from 'node:timers/promises';
import { decodeOwner } from '../../plants/stream.js';
import { type Position } from '../../ports/event-log.js';
import { ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import {
  type Generation,
  GenerationMissing,
  type LongPage,
  OwnerParked,
  type Page,
  type ParkedOwner,
  ReadModel,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
} from '../../ports/read-model.js';
import { type SeenFile } from './lists-file.js';
import { PARKED_AT_ONCE, parkedOwnerOf, type ParkedRow } from './lists-queries.js';
import { explain } from './lists-schema.js';

/** Owners of one step, each looked up in the index: two milliseconds of the event loop. */
const OWNERS_AT_ONCE = 300;

/** What reading lists takes, whoever writes them. */
export abstract class ReadableLists<File extends SeenFile> extends ReadModel {
  /** Throws GenerationMissing and ReadModelUnavailable. */
  protected abstract found(generation: Generation): File;

  /** Of the active generation. Throws ReadModelIncomplete and ReadModelUnavailable. */
  protected abstract activeFile(): File;

  /** The error for a failed call on a file. */
  protected failed({ path }: File, error: unknown): Error {
    return portError(error, path);
  }

  protected ask<T>(file: File, question: (file: File) => T): T {
    try {
      return question(file);
    } catch (error) {
      throw this.failed(file, error);
    }
  }

  positions(generation: Generation): Promise<Position[]> {
    return this.#read(generation, ({ queries }) => queries.positions());
  }

  countParked(generation: Generation): Promise<number> {
    return this.#read(generation, ({ queries }) => queries.countParked());
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Promise<Page> {
    return this.#read(generation, ({ queries }) => queries.page(owner, after, limit));
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- so that what it throws rejects
  async list(owner: string, after: number | undefined, limit: number): Promise<Page> {
    const page = this.ask(this.activeFile(), ({ queries }) => queries.page(owner, after, limit));
    if (page.parked) throw new OwnerParked(page.parked);
    return page;
  }

  async longList(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    const file = this.activeFile();
    try {
      return await file.longPage(owner, after, limit);
    } catch (error) {
      throw this.failed(file, error);
    }
  }

  async *parked(generation: Generation): AsyncGenerator<ParkedOwner, void, undefined> {
    let after: Pick<ParkedRow, 'partition' | 'owner'> | undefined = { partition: -1, owner: '' };
    while (after) {
      const from: Pick<ParkedRow, 'partition' | 'owner'> = after;
      const rows: ParkedRow[] = this.ask(this.found(generation), ({ queries }) => queries.parkedAfter(from));
      after = rows[PARKED_AT_ONCE - 1];
      for (const row of rows) {
        const owner = decodeOwner(row.owner);
        if (owner !== undefined) yield parkedOwnerOf(row, owner);
      }
      await nextTurn();
    }
  }

  async *owners(generation: Generation): AsyncGenerator<string, void, undefined> {
    let from: string | undefined = '';
    while (from !== undefined) {
      const first: string = from;
      const file = this.found(generation);
      const owners = this.ask(file, ({ queries }) => queries.owners(first, OWNERS_AT_ONCE + 1));
      // The next step begins with the last one.
      from = owners[OWNERS_AT_ONCE];
      for (const encoded of owners.slice(0, OWNERS_AT_ONCE)) {
        const owner = decodeOwner(encoded);
        if (owner === undefined)
          throw new ReadModelTampered(
            `${file.path} has plants of ${JSON.stringify(encoded)}, which stands for no owner: somebody else has written them; a rebuild makes it good`,
          );
        yield owner;
      }
      await nextTurn();
    }
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- as above
  async #read<T>(generation: Generation, question: (file: File) => T): Promise<T> {
    return this.ask(this.found(generation), question);
  }
}

const PORT_ERRORS = [
  ...[ReadModelUnavailable, ReadModelIncomplete, GenerationMissing, OwnerParked],
  ...[ActiveChanged, GenerationActive, NotAsFar],
];

/** The port's error for what was thrown by something at a path. */
export const portError = (error: unknown, path: string): Error =>
  PORT_ERRORS.some((known) => error instanceof known)
    ? (error as Error)
    : new ReadModelUnavailable(explain(error, path), { cause: error });

export const missing = (generation: Generation): GenerationMissing =>
  new GenerationMissing(`there is no generation ${generation}`);

export const noneIsActive = (): ReadModelIncomplete => new ReadModelIncomplete('no generation is active yet');
