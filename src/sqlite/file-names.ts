import { lstatSync, realpathSync, statSync, type BigIntStats } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** A file of an open database was removed, replaced or changed by another program. */
export interface FileFault {
  readonly path: string;
  readonly kind: 'missing' | 'replaced' | 'truncated' | 'overwritten';
  /** Its size after a truncation. */
  readonly bytes?: bigint;
  /** A clause with the file and what happened to it. */
  readonly message: string;
}

/** A path, and what was there at the last examination without a fault. */
export interface Watched {
  readonly path: string;
  seen: BigIntStats;
}

export interface Standing {
  readonly database: BigIntStats;
  readonly wal: BigIntStats;
  readonly shm: BigIntStats;
}

/**
 * The names of an open database in write-ahead-log mode, FILE, FILE-wal and FILE-shm, and the files that had them when
 * it was opened. To be constructed after the connection has read or written the database. An examination takes about 10
 * µs and opens none of the files.
 */
export class FileNames {
  readonly database: Watched;
  readonly wal: Watched;
  readonly shm: Watched;
  readonly #folder: Watched;
  readonly #file: string;

  /** Throws an error of the file system. */
  constructor(file: string) {
    this.#file = resolve(file);
    const real = realpathSync(file); // SQLite, too, resolves symbolic links when it opens, and only then
    this.database = watched(real);
    this.wal = watched(`${real}-wal`);
    this.shm = watched(`${real}-shm`);
    this.#folder = watched(dirname(real));
  }

  /** The fault of a name, else the files that have the names. Throws an error of the file system, such as EACCES. */
  look(): FileFault | Standing {
    // FILE last: where all three go at once, with their folder, it is FILE that is named.
    const shm = lookAt(this.shm);
    const wal = lookAt(this.wal);
    const database = lookAt(this.database);
    for (const one of [database, wal, shm]) if ('kind' in one) return one;
    return this.#renamed() ?? ({ database, wal, shm } as Standing);
  }

  /** The fault of a name; undefined where there is none. Throws as `look`. */
  fault(): FileFault | undefined {
    const found = this.look();
    return 'kind' in found ? found : undefined;
  }

  /** Makes what was found what is to be there from now on. */
  accept({ database, wal, shm }: Standing): void {
    this.database.seen = database;
    this.wal.seen = wal;
    this.shm.seen = shm;
  }

  /** True if the folder was moved or removed, or another file system was mounted over it. */
  folderIsAnother(): boolean {
    return 'kind' in lookAt(this.#folder);
  }

  /** The fault of a symbolic link in the name that was opened: it leads elsewhere. */
  #renamed(): FileFault | undefined {
    const path = this.#file;
    if (path === this.database.path) return undefined;
    const now = statSync(path, { bigint: true, throwIfNoEntry: false });
    if (!now) return { path, kind: 'missing', message: removed(path) };
    return isSame(now, this.database.seen) ? undefined : { path, kind: 'replaced', message: replaced(path) };
  }
}

/** The entry of a name, without following a symbolic link; undefined for none. */
export const standingAt = (path: string): BigIntStats | undefined => {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (['ENOTDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
};

export const watched = (path: string): Watched => ({ path, seen: lstatSync(path, { bigint: true }) });

const isSame = (one: BigIntStats, other: BigIntStats): boolean =>
  one.dev === other.dev && one.ino === other.ino;

/** The entry of a path where `seen` was before; its fault where that is another one. */
const lookAt = ({ path, seen }: Watched): BigIntStats | FileFault => {
  const now = standingAt(path);
  if (!now) return { path, kind: 'missing', message: removed(path) };
  return isSame(now, seen) ? now : { path, kind: 'replaced', message: replaced(path) };
};

/** The fault of a path, in a clause; undefined where it has none. Throws an error of the file system, such as EACCES. */
export const faultOf = (one: Watched): string | undefined => {
  const found = lookAt(one);
  return 'kind' in found ? found.message : undefined;
};

const removed = (path: string): string => `${path} was removed or moved while it was in use`;

const replaced = (path: string): string => `${path} was replaced by another file while it was in use`;
