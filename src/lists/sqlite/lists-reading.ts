import { setImmediate as nextTurn } from 'node:timers/promises';
import { monotonicMs } from '../../runtime/runtime.js';
import { isThere } from '../../runtime/new-file.js';
import { decodeOwner } from '../../domain/stream.js';
import { type Report } from '../coordination.js';
import { type Anchor } from '../../log/event-log.js';
import { ActiveChanged, GenerationActive, type GenerationInfo, NotAsFar } from '../generations.js';
import {
  type Generation,
  GenerationMissing,
  type LongPage,
  missingGeneration,
  OwnerBlocked,
  type Page,
  type BlockedOwner,
  ReadModel,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
} from '../read-model.js';
import { type ReadModelStore } from '../read-model-store.js';
import { standingAt } from '../../sqlite/file-names.js';
import { SeenFile } from './lists-file.js';
import { generationsIn, pathOf, readPointer } from './lists-folder.js';
import { BEFORE_ALL, blockedOwnerOf, type BlockedPlace } from './lists-queries.js';
import { explain, NoLists } from './lists-schema.js';
import { temporaryLists } from '../temporary-lists.js';

/** Reads lists that this process or another one writes. */
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

  anchors(generation: Generation): Promise<Anchor[]> {
    return this.#read(generation, ({ queries }) => queries.anchors());
  }

  countBlocked(generation: Generation): Promise<number> {
    return this.#read(generation, ({ queries }) => queries.countBlocked());
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Promise<Page> {
    return this.#read(generation, ({ queries }) => queries.page(owner, after, limit));
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- so that what it throws rejects
  async list(owner: string, after: number | undefined, limit: number): Promise<Page> {
    const page = this.ask(this.activeFile(), ({ queries }) => queries.page(owner, after, limit));
    if (page.blocked) throw new OwnerBlocked(page.blocked);
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

  async *blocked(generation: Generation): AsyncGenerator<BlockedOwner, void, undefined> {
    let next: BlockedPlace | undefined = BEFORE_ALL;
    while (next) {
      const after: BlockedPlace = next;
      const step = this.ask(this.found(generation), ({ queries }) => queries.blockedAfter(after));
      next = step.next;
      for (const row of step.found) {
        const owner = decodeOwner(row.owner);
        if (owner !== undefined) yield blockedOwnerOf(row, owner);
      }
      await nextTurn();
    }
  }

  async *owners(generation: Generation): AsyncGenerator<string, void, undefined> {
    let next: string | undefined = '';
    while (next !== undefined) {
      const from: string = next;
      const file = this.found(generation);
      const step = this.ask(file, ({ queries }) => queries.ownersFrom(from));
      next = step.next;
      for (const encoded of step.found) {
        const owner = decodeOwner(encoded);
        if (owner === undefined)
          throw new ReadModelTampered(
            `${file.path} has plants of ${JSON.stringify(encoded)}, which is no owner, so another program has written them: rebuild the lists (plants rebuild)`,
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
  ...[ReadModelUnavailable, ReadModelIncomplete, GenerationMissing, OwnerBlocked],
  ...[ActiveChanged, GenerationActive, NotAsFar],
];

/** The port's error for what was thrown by something at a path. */
export const portError = (error: unknown, path: string): Error =>
  PORT_ERRORS.some((known) => error instanceof known)
    ? (error as Error)
    : new ReadModelUnavailable(explain(error, path), { cause: error });

export const noneIsActive = (): ReadModelIncomplete => new ReadModelIncomplete('no generation is active yet');

/** The lists in a folder that another process owns, or none. The folder is looked at with each call. */
export class SeenLists extends ReadableLists<SeenFile> implements ReadModelStore {
  readonly steadySince = monotonicMs();
  readonly isSole = false;
  readonly temporaryLists = temporaryLists;
  /** Those that cannot be read, by the error that says why. */
  readonly #files = new Map<Generation, SeenFile | ReadModelUnavailable>();
  #active: Generation | undefined;
  #isClosed = false;

  private constructor(
    private readonly folder: string,
    private readonly log: string,
  ) {
    super();
  }

  /** Throws ReadModelUnavailable. */
  static async open(folder: string, log: string): Promise<SeenLists> {
    const lists = new SeenLists(folder, log);
    try {
      lists.#look();
      return lists;
    } catch (error) {
      await lists.close();
      throw error;
    }
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- so that what it throws rejects
  async generations(): Promise<GenerationInfo[]> {
    this.#look();
    return Array.from(this.#files.keys(), (generation) => ({
      generation,
      active: generation === this.#active,
    })).sort((a, b) => a.generation - b.generation);
  }

  protected override found(generation: Generation): SeenFile {
    this.#look();
    const file = this.#files.get(generation);
    if (!file) throw missingGeneration(generation);
    if (!(file instanceof SeenFile)) throw file;
    return file;
  }

  protected override activeFile(): SeenFile {
    this.#look();
    if (this.#active === undefined || !this.#files.has(this.#active)) throw noneIsActive();
    return this.found(this.#active);
  }

  #look(): void {
    const { folder, log } = this;
    if (this.#isClosed) throw new ReadModelUnavailable(`the read model in ${folder} has been closed`);
    const pointer = readPointer(folder);
    const there = this.#generationsIn();
    for (const [generation, file] of this.#files) {
      const isSeen = file instanceof SeenFile;
      if (isSeen && there.includes(generation) && file.change() === undefined) continue;
      this.#files.delete(generation);
      if (isSeen) void file.close();
    }
    for (const generation of there) if (!this.#files.has(generation)) this.#open(generation);
    this.#active = pointer?.log === log ? pointer.active : undefined;
  }

  #generationsIn(): Generation[] {
    const { folder } = this;
    try {
      return generationsIn(folder).filter((one) => standingAt(pathOf(folder, one))?.isFile());
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      throw new ReadModelUnavailable(
        code === 'ENOENT'
          ? `there are no lists in ${folder}: start the service, which makes them`
          : `the folder ${folder} cannot be read (${code})`,
        { cause: error },
      );
    }
  }

  #open(generation: Generation): void {
    const path = pathOf(this.folder, generation);
    try {
      const file = SeenFile.open(path);
      if (file.about.log === this.log) this.#files.set(generation, file);
      else void file.close();
    } catch (error) {
      // It is being made, or was dropped in between.
      if (!isThere(path) || (error instanceof NoLists && error.kind === 'unfinished')) return;
      const what = error instanceof NoLists ? error.message : explain(error, path);
      const advice = 'start the service again, which makes these lists again from the log';
      this.#files.set(generation, new ReadModelUnavailable(`${what}: ${advice}`, { cause: error }));
    }
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- its owner has them, in memory
  async reports(): Promise<Report[]> {
    return [];
  }

  readonly #refuse = (): Promise<never> =>
    Promise.reject(new ReadModelUnavailable(`the lists in ${this.folder} are only read by this process`));
  readonly createGeneration = this.#refuse;
  readonly promote = this.#refuse;
  readonly drop = this.#refuse;
  readonly deactivate = this.#refuse;
  readonly scrub = this.#refuse;
  readonly apply = this.#refuse;
  readonly catchUp = this.#refuse;
  readonly reached = this.#refuse;
  readonly takeLease = this.#refuse;
  readonly returnLease = this.#refuse;
  readonly report = this.#refuse;

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const file of this.#files.values()) if (file instanceof SeenFile) await file.close();
    this.#files.clear();
  }
}
