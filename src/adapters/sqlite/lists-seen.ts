import { monotonicMs } from '../../async/runtime.js';
import { isThere } from '../../files/new-file.js';
import { type Report } from '../../ports/coordination.js';
import { type GenerationInfo } from '../../ports/generations.js';
import { type Generation, ReadModelUnavailable } from '../../ports/read-model.js';
import { type ReadModelStore } from '../../ports/read-model-store.js';
import { SeenFile } from './lists-file.js';
import { entryAt, generationsIn, pathOf, readPointer } from './lists-folder.js';
import { missing, noneIsActive, ReadableLists } from './lists-reading.js';
import { explain, NoLists } from './lists-schema.js';

/** The lists in a folder that another process owns, or nobody. The folder is looked at with each call. */
export class SeenLists extends ReadableLists<SeenFile> implements ReadModelStore {
  readonly steadySince = monotonicMs();
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
    return Array.from(this.#files, ([generation, file]) => ({
      generation,
      active: generation === this.#active,
      ...(file instanceof SeenFile && { key: file.about.key }),
    })).sort((a, b) => a.generation - b.generation);
  }

  protected override found(generation: Generation): SeenFile {
    this.#look();
    const file = this.#files.get(generation);
    if (!file) throw missing(generation);
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
      return generationsIn(folder).filter((one) => entryAt(pathOf(folder, one))?.isFile());
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
      const advice = 'start the service again, which makes these lists anew from the log';
      this.#files.set(generation, new ReadModelUnavailable(`${what}: ${advice}`, { cause: error }));
    }
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- its owner has them, in memory
  async reports(): Promise<Report[]> {
    return [];
  }

  readonly createGeneration = this.#refuse;
  readonly promote = this.#refuse;
  readonly drop = this.#refuse;
  readonly sync = this.#refuse;
  readonly scrub = this.#refuse;
  readonly apply = this.#refuse;
  readonly heal = this.#refuse;
  readonly reached = this.#refuse;
  readonly takeLease = this.#refuse;
  readonly returnLease = this.#refuse;
  readonly report = this.#refuse;

  #refuse(): Promise<never> {
    return Promise.reject(
      new ReadModelUnavailable(`the lists in ${this.folder} are only read by this process`),
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const file of this.#files.values()) if (file instanceof SeenFile) await file.close();
    this.#files.clear();
  }
}
