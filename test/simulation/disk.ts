import { posix } from 'node:path';
import { type Random } from './random.js';
import { type Step } from './recording.js';

/** Written whole or not at all, in bytes. */
const SECTOR = 512;

/** A change of a file's content that no sync has covered. */
type Change = { readonly ended: number } & (
  | { readonly kind: 'write'; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'truncate'; readonly size: number }
);

interface File {
  readonly isFolder: boolean;
  /** Covered by a sync. */
  durable: Buffer;
  /** The size with all changes. */
  size: number;
  pending: Change[];
}

const newFile = (isFolder: boolean): File => ({ isFolder, durable: Buffer.alloc(0), size: 0, pending: [] });

/** A change of names in folders: what each of these paths leads to afterwards, at once. */
interface Naming {
  readonly ended: number;
  readonly names: ReadonlyMap<string, File | undefined>;
}

/**
 * The changes without a sync that a power cut leaves.
 * - `all`: everything, as when only the process dies.
 * - `synced`: nothing.
 * - `names`: the names, with empty or old content: a file system that allocates late.
 * - `contents`: the content of files, and no change of names.
 * - `cut`: everything but the last write of each file, of which some sectors are missing.
 * - `some`: any of the changes, in any order between two syncs, some without some of their sectors.
 */
export const LEAVINGS = ['all', 'synced', 'names', 'contents', 'cut', 'some'] as const;
export type Leaving = (typeof LEAVINGS)[number];

/** The files after a power cut, by path; folders have no content. */
export type Files = ReadonlyMap<string, Buffer | 'folder'>;

/**
 * Gives the states that a disk may have after a power cut, by what POSIX guarantees and no more: the content of a file is
 * durable after a sync of that file that began after the write had ended, a name after a sync of its folder. A rename is
 * atomic. Changes of one name keep their order; others need not.
 */
export class Disk {
  /** By path, with all changes. The folder of the run itself was there before. */
  readonly #names = new Map<string, File>([['.', newFile(true)]]);
  readonly #durableNames = new Map(this.#names);
  #namings: Naming[] = [];

  /** `isIgnored`: syncs that do nothing, as of a disk that lies: for tests of the checks. */
  constructor(private readonly isIgnored: (path: string) => boolean = () => false) {}

  apply(step: Step): void {
    switch (step.kind) {
      case 'make':
        if (this.#names.has(step.path)) return;
        this.#rename(step, [[step.path, newFile(step.folder)]]);
        return;
      case 'write': {
        const file = this.#file(step.path);
        const at = step.at === 'end' ? file.size : step.at;
        file.pending.push({ kind: 'write', at, bytes: step.bytes, ended: step.ended });
        file.size = Math.max(file.size, at + step.bytes.length);
        return;
      }
      case 'truncate': {
        const file = this.#file(step.path);
        file.pending.push({ kind: 'truncate', size: step.size, ended: step.ended });
        file.size = step.size;
        return;
      }
      case 'sync':
        if (!this.isIgnored(step.path)) this.#sync(this.#file(step.path), step);
        return;
      case 'link':
        this.#rename(step, [[step.path, this.#file(step.from)]]);
        return;
      case 'rename':
        this.#rename(step, [
          [step.path, this.#file(step.from)],
          [step.from, undefined],
        ]);
        return;
      case 'unlink':
        this.#rename(step, [[step.path, undefined]]);
        return;
      case 'answer':
        return;
    }
  }

  /** True if a power cut could take a name away from a file that has content. */
  mayLose(path: string): boolean {
    const file = this.#names.get(path);
    return file !== undefined && file.size > 0 && this.#durableNames.get(path) !== file;
  }

  /** A state that a power cut now could leave. */
  afterPowerCut(leaving: Leaving, random: Random): Files {
    const names = this.#namesLeft(leaving, random);
    const left = new Map<string, Buffer | 'folder'>();
    const contents = new Map<File, Buffer>();
    for (const [path, file] of names) {
      if (path === '.' || !isReachable(path, names)) continue;
      if (!file.isFolder && !contents.has(file)) contents.set(file, contentLeft(file, leaving, random));
      left.set(path, contents.get(file) ?? 'folder');
    }
    return left;
  }

  #file(path: string): File {
    const file = this.#names.get(path);
    if (!file) throw new Error(`the trace uses ${path}, which it has not made`);
    return file;
  }

  #rename({ ended }: Step, names: readonly (readonly [string, File | undefined])[]): void {
    for (const [path, file] of names) setName(this.#names, path, file);
    this.#namings.push({ ended, names: new Map(names) });
  }

  #sync(file: File, { begun }: Step): void {
    if (!file.isFolder) {
      const isCovered = ({ ended }: Change): boolean => ended < begun;
      file.durable = applied(file.durable, file.pending.filter(isCovered));
      file.pending = file.pending.filter((change) => !isCovered(change));
      return;
    }
    const isCovered = ({ ended, names }: Naming): boolean =>
      ended < begun && [...names.keys()].every((path) => this.#names.get(posix.dirname(path)) === file);
    for (const naming of this.#namings)
      if (isCovered(naming)) for (const [path, to] of naming.names) setName(this.#durableNames, path, to);
    this.#namings = this.#namings.filter((naming) => !isCovered(naming));
  }

  #namesLeft(leaving: Leaving, random: Random): Map<string, File> {
    const names = new Map(this.#durableNames);
    if (leaving === 'synced' || leaving === 'contents') return names;
    // Half of the disks have a journal of names, which keeps their order.
    const journaled = random.chance(0.5);
    const share = random.pick([0.2, 0.5, 0.9]);
    const lost = new Set<string>();
    for (const naming of this.#namings) {
      const paths = [...naming.names.keys()];
      const isLost = paths.some((path) => lost.has(path)) || (leaving === 'some' && !random.chance(share));
      if (isLost && journaled) break;
      if (isLost) for (const path of paths) lost.add(path);
      else for (const [path, file] of naming.names) setName(names, path, file);
    }
    return names;
  }
}

const setName = (names: Map<string, File>, path: string, file: File | undefined): void => {
  if (file) names.set(path, file);
  else names.delete(path);
};

const isReachable = (path: string, names: ReadonlyMap<string, File>): boolean => {
  const folder = posix.dirname(path);
  return path === '.' || folder === '.' || (names.has(folder) && isReachable(folder, names));
};

const contentLeft = ({ durable, pending }: File, leaving: Leaving, random: Random): Buffer => {
  switch (leaving) {
    case 'all':
    case 'contents':
      return applied(durable, pending);
    case 'synced':
    case 'names':
      return durable;
    case 'cut': {
      const last = pending.at(-1);
      return applied(durable, last ? [...pending.slice(0, -1), ...torn(last, random)] : []);
    }
    case 'some': {
      const share = random.pick([0.1, 0.5, 0.9]);
      const left = pending.filter(() => random.chance(share));
      return applied(
        durable,
        left.flatMap((change) => (random.chance(0.2) ? torn(change, random) : [change])),
      );
    }
  }
};

/**
 * Returns the rest of a change of which some sectors were not written: nothing of it, or its beginning, or any of them.
 */
const torn = (change: Change, random: Random): Change[] => {
  if (change.kind === 'truncate') return [];
  const { at, bytes, ended } = change;
  const pieces: Change[] = [];
  const share = random.pick([0, 0.5, 0.9]);
  const cutAt = random.chance(0.5) ? random.below(bytes.length) : Infinity;
  let from = 0;
  while (from < bytes.length) {
    const end = Math.min(bytes.length, from + SECTOR - ((at + from) % SECTOR));
    const isLeft = cutAt === Infinity ? random.chance(share) : end <= cutAt;
    if (isLeft) pieces.push({ kind: 'write', at: at + from, bytes: bytes.subarray(from, end), ended });
    from = end;
  }
  // The size may be durable without the content.
  if (random.chance(0.5))
    pieces.push({ kind: 'write', at: at + bytes.length, bytes: Buffer.alloc(0), ended });
  return pieces;
};

const applied = (durable: Buffer, changes: readonly Change[]): Buffer => {
  if (changes.length === 0) return durable;
  let size = durable.length;
  let most = size;
  for (const change of changes) {
    size = change.kind === 'write' ? Math.max(size, change.at + change.bytes.length) : change.size;
    most = Math.max(most, size);
  }
  const content = Buffer.alloc(most);
  durable.copy(content);
  size = durable.length;
  for (const change of changes) {
    if (change.kind === 'write') {
      change.bytes.copy(content, change.at);
      size = Math.max(size, change.at + change.bytes.length);
    } else {
      content.fill(0, Math.min(size, change.size));
      size = change.size;
    }
  }
  return content.subarray(0, size);
};
