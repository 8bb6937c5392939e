import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { monotonicMs } from '../../runtime/runtime.js';
import { makeFolder } from '../../runtime/new-file.js';
import { type Report } from '../coordination.js';
import { type Position } from '../../log/event-log.js';
import { assertAsFar, assertReplaces, GenerationActive, type GenerationInfo } from '../generations.js';
import {
  type CatchUp,
  type Generation,
  type LongPage,
  missingGeneration,
  type Page,
  type PartitionChanges,
  partitionOf,
  ReadModelUnavailable,
} from '../read-model.js';
import { type ReadModelStore } from '../read-model-store.js';
import { newGeneration } from '../new-generation.js';
import { PageCache } from '../page-cache.js';
import { Waiters } from '../waiters.js';
import { faultOf, standingAt, watched, type Watched } from '../../sqlite/file-names.js';
import { temporaryLists } from '../temporary-lists.js';
import { OwnedFile } from './lists-file.js';
import {
  generationsIn,
  pathOf,
  pointerIn,
  preparePointer,
  readPointer,
  removeLeftOvers,
  removeLists,
  removeOldFormat,
  syncNames,
} from './lists-folder.js';
import { noneIsActive, portError, ReadableLists, SeenLists } from './lists-reading.js';
import { isDamage, makeLists, NoLists, openLists } from './lists-schema.js';

/**
 * Time between two examinations of the files for reads, in milliseconds. Meanwhile lists may come from removed files:
 * they are right, as nothing else is written there.
 */
const LOOK_EVERY_MS = 100;

/** For operators whose lists are given up. */
const MADE_AGAIN =
  'nothing that was acknowledged is lost, for the event log holds it; the lists are made again from the log, and are not answered until then';

/**
 * The lists in a folder that this process owns: a file for each generation, and a pointer that names the active one. All
 * is read and written on the calling thread. A file that was taken away, replaced or damaged is given up with its
 * generation: nothing in it is needed.
 */
class OwnedLists extends ReadableLists<OwnedFile> implements ReadModelStore {
  readonly isSole = true;
  readonly temporaryLists = temporaryLists;
  readonly #files = new Map<Generation, OwnedFile>();
  #active: OwnedFile | undefined;
  /** The pointer as this process has written or found it; undefined where there is none. */
  #pointer: Watched | undefined;
  /** The folder that the folder of lists is in. */
  #parent: Watched | undefined;
  #lookedAt = -Infinity;
  #steadySince = monotonicMs();
  readonly #waiters = new Waiters();
  readonly #coordination = new MemoryCoordination();
  readonly #pages = new PageCache<Generation>();
  readonly #longPages = new PageCache<Generation, LongPage>();
  /** Creations, switches and drops, one after the other. Never rejects, as the next. */
  #lastChange: Promise<unknown> = Promise.resolve();
  readonly #discarding = new Set<Promise<void>>();
  #closing: Promise<void> | undefined;

  constructor(
    private readonly folder: string,
    private readonly log: string,
    private readonly onWarning: (message: string) => void,
  ) {
    super();
  }

  async open(): Promise<void> {
    const { folder } = this;
    const old = removeOldFormat(folder);
    if (old !== undefined)
      this.onWarning(`${old} was made by an older version of this service and is removed: ${MADE_AGAIN}`);
    this.#makeFolder();
    removeLeftOvers(folder);
    const pointer = readPointer(folder);
    if (pointer) this.#pointer = watched(pointerIn(folder));
    try {
      for (const generation of generationsIn(folder)) await this.#adopt(generation, pointer !== undefined);
    } catch (error) {
      await this.#closeFiles();
      throw error;
    }
    if (pointer?.log === this.log && pointer.active !== undefined)
      this.#active = this.#files.get(pointer.active);
  }

  #makeFolder(): void {
    const { folder } = this;
    try {
      makeFolder(folder);
      readdirSync(folder);
    } catch (error) {
      throw new ReadModelUnavailable(`the folder ${folder} cannot be made: ${(error as Error).message}`);
    }
    this.#parent = watched(dirname(folder));
  }

  /** Opens a generation that is there. `isOurs`: true if only this service can have put files into this folder. */
  async #adopt(generation: Generation, isOurs: boolean): Promise<void> {
    const path = pathOf(this.folder, generation);
    if (!standingAt(path)?.isFile()) return; // as what is of another log: it is removed when there are lists of this one
    try {
      const { db, about } = openLists(path, true);
      db.close();
      if (about.log !== this.log) return;
      if (about.generation !== generation) throw new NoLists(`${path} is a copy of another file`, 'ours');
      this.#files.set(generation, await OwnedFile.own(path, false));
    } catch (error) {
      if (!(error instanceof NoLists)) throw portError(error, path);
      if (error.kind === 'foreign' || (error.kind === 'damaged' && !isOurs))
        throw new ReadModelUnavailable(
          `${error.message}, and does not seem to hold lists of this service: set READ_MODEL to another folder`,
        );
      if (error.kind !== 'unfinished') this.onWarning(`${error.message}: ${MADE_AGAIN}`);
      removeLists(path);
    }
  }

  get steadySince(): number {
    return this.#steadySince;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- so that what it throws rejects
  async generations(): Promise<GenerationInfo[]> {
    this.#look();
    return [...this.#files.values()]
      .map((file) => ({ generation: file.generation, active: file === this.#active }))
      .sort((a, b) => a.generation - b.generation);
  }

  createGeneration(): Promise<Generation> {
    return this.#change(async () => {
      this.#assertSameFolder();
      this.#look();
      await Promise.all(this.#discarding);
      const strays = generationsIn(this.folder).filter((one) => !this.#files.has(one));
      if (strays.length > 0)
        this.onWarning(
          `${this.folder} has lists that were not made from this event log by this process, and are removed: it holds the lists of one log`,
        );
      for (const stray of strays) removeLists(pathOf(this.folder, stray));
      const generation = newGeneration();
      if (!this.#pointer) (await this.#preparePointer(undefined))(); // from now on the folder is ours
      const path = pathOf(this.folder, generation);
      try {
        makeLists(path, this.log, generation);
        this.#files.set(generation, await OwnedFile.own(path, true));
      } catch (error) {
        removeLists(path);
        throw error;
      }
      return generation;
    });
  }

  promote(generation: Generation, replaces?: Generation | 'none'): Promise<void> {
    return this.#change(async () => {
      const file = this.found(generation);
      if (file === this.#active) return;
      this.#assertMayReplace(file, replaces);
      await file.settle(); // so that lists do not go back by a loss of power
      const put = await this.#preparePointer(generation);
      this.#assertThere(file);
      this.#assertMayReplace(file, replaces);
      put();
      this.#active = file;
      this.#resolveWaiters();
      await syncNames(this.folder);
    });
  }

  deactivate(generation: Generation): Promise<void> {
    return this.#change(async () => {
      if (this.#active?.generation !== generation) return;
      (await this.#preparePointer(undefined))();
      this.#active = undefined;
      await syncNames(this.folder);
    });
  }

  #assertMayReplace({ generation, reached }: OwnedFile, replaces?: Generation | 'none'): void {
    assertReplaces(this.#active?.generation, replaces);
    assertAsFar(generation, reached, this.#active?.reached ?? []);
  }

  drop(generation: Generation): Promise<void> {
    return this.#change(async () => {
      const file = this.#files.get(generation);
      if (!file) return;
      if (file === this.#active)
        throw new GenerationActive(`generation ${generation} is active: promote another one first`);
      this.#files.delete(generation);
      await file.discard();
    });
  }

  async scrub(): Promise<void> {
    this.#assertOpen();
    for (const file of this.#files.values())
      if (!(await this.#settled(file, file.scrub())))
        throw new ReadModelUnavailable(
          `${file.path}-wal could not be emptied, since the file is being read: it is tried again`,
        );
  }

  async apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]> {
    const file = await this.#writable(generation);
    const positions = this.ask(file, () => file.apply(partitions));
    this.#assertThere(file);
    if (file === this.#active) this.#resolveWaiters();
    if (file.isDue) this.#settled(file, file.settle()).catch(() => undefined); // the next apply tells
    return positions;
  }

  async catchUp(generation: Generation, catchUp: CatchUp): Promise<boolean> {
    const file = await this.#writable(generation);
    const isDone = this.ask(file, () => file.catchUp(catchUp));
    this.#assertThere(file);
    return isDone;
  }

  override async list(owner: string, after: number | undefined, limit: number): Promise<Page> {
    const file = this.activeFile();
    const kept = this.#pages.get(owner, after, limit);
    if (this.#isAsNow(kept, file, owner)) return kept.page;
    const page = await super.list(owner, after, limit);
    this.#pages.keep(file.generation, owner, after, limit, page);
    return page;
  }

  override async longList(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    const file = this.activeFile();
    const kept = this.#longPages.get(owner, after, limit);
    if (this.#isAsNow(kept, file, owner)) return kept.page;
    const page = await super.longList(owner, after, limit);
    this.#longPages.keep(file.generation, owner, after, limit, page);
    return page;
  }

  #isAsNow<Kept extends { readonly generation: Generation; readonly page: { readonly position: Position } }>(
    kept: Kept | undefined,
    { generation, reached }: OwnedFile,
    owner: string,
  ): kept is Kept {
    return kept?.generation === generation && kept.page.position === reached[partitionOf(owner)];
  }

  reached(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    const now = this.#active?.reached[partition];
    if (now !== undefined && now >= position && !signal.aborted && !this.#closing) return Promise.resolve();
    return this.#waiters.wait(partition, position, signal);
  }

  takeLease(holder: string, forMs: number): Promise<boolean> {
    return this.#whileOpen(() => this.#coordination.takeLease(holder, forMs));
  }

  returnLease(holder: string): Promise<void> {
    return this.#whileOpen(() => {
      this.#coordination.returnLease(holder);
    });
  }

  report(process: string, text: string, forMs: number): Promise<void> {
    return this.#whileOpen(() => {
      this.#coordination.report(process, text, forMs);
    });
  }

  reports(): Promise<Report[]> {
    return this.#whileOpen(() => this.#coordination.reports());
  }

  close(): Promise<void> {
    this.#closing ??= (async () => {
      this.#waiters.close(this.#closed());
      await this.#lastChange;
      await this.#closeFiles();
      await Promise.all(this.#discarding);
    })();
    return this.#closing;
  }

  async #closeFiles(): Promise<void> {
    for (const file of this.#files.values()) await file.close();
    this.#files.clear();
    this.#active = undefined;
  }

  protected override found(generation: Generation): OwnedFile {
    this.#look();
    const file = this.#files.get(generation);
    if (!file) throw missingGeneration(generation);
    return file;
  }

  protected override activeFile(): OwnedFile {
    this.#look();
    if (!this.#active) throw noneIsActive();
    return this.#active;
  }

  /** A generation that can be written now. */
  async #writable(generation: Generation): Promise<OwnedFile> {
    const file = this.found(generation);
    await file.mayApply();
    this.#assertThere(file); // a write makes a file that was cut as long as it was
    return file;
  }

  protected override failed(file: OwnedFile, error: unknown): Error {
    if (this.#files.get(file.generation) === file) {
      if (isDamage(error) || error instanceof NoLists) this.#giveUp(file, `${file.path} is damaged`);
      else this.#examine(file); // which may explain it
    }
    if (this.#files.get(file.generation) === file) return super.failed(file, error);
    return this.#closing ? this.#closed() : missingGeneration(file.generation);
  }

  /** Gives up what has been taken away; throws ReadModelUnavailable after `close`. */
  #look(): void {
    this.#assertOpen();
    if (monotonicMs() - this.#lookedAt < LOOK_EVERY_MS) return;
    this.#lookedAt = monotonicMs();
    for (const file of this.#files.values()) this.#examine(file);
  }

  #assertThere(file: OwnedFile): void {
    this.#examine(file);
    if (this.#files.get(file.generation) !== file) throw missingGeneration(file.generation);
  }

  #examine(file: OwnedFile): void {
    const { folder } = this;
    try {
      const pointer = file === this.#active ? this.#pointer : undefined;
      const change = (pointer && faultOf(pointer)) ?? file.change();
      if (change !== undefined) this.#giveUp(file, change);
    } catch (error) {
      throw new ReadModelUnavailable(`${folder} cannot be read: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  #giveUp(file: OwnedFile, why: string): void {
    this.#files.delete(file.generation);
    if (this.#active === file) this.#active = undefined;
    this.#steadySince = monotonicMs();
    this.onWarning(`${why}: ${MADE_AGAIN}`);
    const discarded = file
      .discard()
      .catch(() => undefined) // what is left is removed at the next start
      .finally(() => this.#discarding.delete(discarded));
    this.#discarding.add(discarded);
  }

  /** A sync of a file that failed leaves it unknown what of it is durable. */
  async #settled(file: OwnedFile, settling: Promise<boolean>): Promise<boolean> {
    try {
      return await settling;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall === 'fsync' && this.#files.get(file.generation) === file)
        this.#giveUp(file, `${file.path} could not be made durable (${(error as Error).message})`);
      throw this.failed(file, error);
    }
  }

  #resolveWaiters(): void {
    this.#waiters.resolve((partition) => this.#active?.reached[partition]);
  }

  /** A pointer to a generation, durable; what is returned puts it in its place. */
  async #preparePointer(active: Generation | undefined): Promise<() => void> {
    const put = await preparePointer(this.folder, { log: this.log, active });
    return () => {
      put();
      this.#pointer = watched(pointerIn(this.folder));
    };
  }

  /** Makes the folder again where it was removed; throws where the folder that it is in is another one. */
  #assertSameFolder(): void {
    const parent = this.#parent;
    if (parent && faultOf(parent) !== undefined)
      throw new ReadModelUnavailable(
        `the folder ${parent.path} was moved or removed, or another file system was mounted over it: put it back, or start the service again`,
      );
    this.#makeFolder();
  }

  /** Changes the generations after all earlier changes have ended. */
  #change<T>(work: () => Promise<T>): Promise<T> {
    const changed = this.#lastChange.then(async () => {
      this.#assertOpen();
      try {
        return await work();
      } catch (error) {
        throw portError(error, this.folder);
      }
    });
    this.#lastChange = changed.catch(() => undefined);
    return changed;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- so that what it throws rejects
  async #whileOpen<T>(work: () => T): Promise<T> {
    this.#assertOpen();
    return work();
  }

  #assertOpen(): void {
    if (this.#closing) throw this.#closed();
  }

  #closed(): ReadModelUnavailable {
    return new ReadModelUnavailable(`the read model in ${this.folder} has been closed`);
  }
}

/** The lease and the reports of the one process that there is: as Coordination, whose calls it answers at once. */
class MemoryCoordination {
  #lease: { readonly holder: string; readonly until: number } | undefined;
  readonly #reports = new Map<string, { readonly text: string; readonly until: number }>();

  takeLease(holder: string, forMs: number): boolean {
    const now = monotonicMs();
    if (this.#lease && this.#lease.holder !== holder && this.#lease.until > now) return false;
    this.#lease = { holder, until: now + forMs };
    return true;
  }

  returnLease(holder: string): void {
    if (this.#lease?.holder === holder) this.#lease = undefined;
  }

  report(process: string, text: string, forMs: number): void {
    this.#reports.set(process, { text, until: monotonicMs() + forMs });
  }

  reports(): Report[] {
    const now = monotonicMs();
    for (const [process, { until }] of this.#reports) if (until <= now) this.#reports.delete(process);
    return Array.from(this.#reports, ([process, { text }]) => ({ process, text })).sort((a, b) =>
      a.process < b.process ? -1 : 1,
    );
  }
}

/** `write`: owns the folder; `read`: only looks at what another process writes. */
export type Access = 'write' | 'read';

/**
 * Opens the lists of a log in a folder. With `write`, this process is the only one that changes anything there: the
 * folder is made if it is missing, files that cannot be used are removed, and `onWarning` receives one line about each.
 * With `read`, nothing is changed. Throws ReadModelUnavailable, in one line that says what to do.
 */
export const openSqliteReadModel = async (
  folder: string,
  logIdentity: string,
  onWarning: (message: string) => void = () => undefined,
  access: Access = 'write',
): Promise<ReadModelStore> => {
  if (access === 'read') return SeenLists.open(folder, logIdentity);
  const lists = new OwnedLists(folder, logIdentity, onWarning);
  await lists.open();
  return lists;
};
