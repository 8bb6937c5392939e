import { lstatSync, realpathSync, statSync, type BigIntStats } from 'node:fs';
import { dirname } from 'node:path';

/** That a file of an open database is not what it was when the database was opened. */
export interface FileFault {
  /** The name that it is about. */
  readonly path: string;
  readonly kind: 'missing' | 'replaced' | 'truncated' | 'overwritten';
  /** How many bytes it has after it was truncated. */
  readonly bytes?: bigint;
  /** One clause that names the file and says what happened to it. */
  readonly message: string;
}

/** One of the three files, as it was at the last look without a fault. */
interface Watched {
  readonly path: string;
  seen: BigIntStats;
}

/** The three files as they are now. */
interface Standing {
  readonly database: BigIntStats;
  readonly wal: BigIntStats;
  readonly shm: BigIntStats;
}

/**
 * The names of an open database in write-ahead-log mode, FILE, FILE-wal and FILE-shm, and which files stood there when
 * it was opened. To be made when the connection has read or written the database: all three exist from then on, until
 * the last connection is closed. A look takes about 10 µs, and opens none of them.
 */
export class FileNames {
  readonly database: Watched;
  readonly wal: Watched;
  readonly shm: Watched;
  readonly #folder: Watched;

  /** Throws where the files cannot be looked at. */
  constructor(private readonly file: string) {
    const real = realpathSync(file); // SQLite, too, resolves symbolic links when it opens, and only then
    this.database = watched(real);
    this.wal = watched(`${real}-wal`);
    this.shm = watched(`${real}-shm`);
    this.#folder = watched(dirname(real));
  }

  /** Which three files these are: equal for names that lead to the same ones. */
  get identity(): string {
    return [this.database, this.wal, this.shm].map(({ seen }) => `${seen.dev}:${seen.ino}`).join(' ');
  }

  /**
   * What has happened to a name since the database was opened, else the files that stand there. Throws an error of the
   * file system where a name cannot be looked at, such as EACCES.
   */
  look(): FileFault | Standing {
    // FILE last: where all three go at once, with their folder, it is FILE that is named.
    const shm = lookAt(this.shm);
    const wal = lookAt(this.wal);
    const database = lookAt(this.database);
    for (const one of [database, wal, shm]) if ('kind' in one) return one;
    return this.#renamed() ?? ({ database, wal, shm } as Standing);
  }

  /** What has happened to a name since the database was opened; undefined where all are in place. Throws as `look`. */
  fault(): FileFault | undefined {
    const found = this.look();
    return 'kind' in found ? found : undefined;
  }

  /** Whether the folder is not at its name: it was moved or removed, or another file system is mounted over it. */
  folderIsAnother(): boolean {
    const now = standingAt(this.#folder.path);
    return now === undefined || !isSame(now, this.#folder.seen);
  }

  /** Those of the three names at which the file still stands that stood there at the last look. */
  stillThere(): string[] {
    return [this.database, this.wal, this.shm]
      .filter((one) => !('kind' in lookAt(one)))
      .map(({ path }) => path);
  }

  /** The database is in place, but the name that was opened, or a folder in it, leads elsewhere by now. */
  #renamed(): FileFault | undefined {
    if (this.file === this.database.path) return undefined;
    const now = statSync(this.file, { bigint: true, throwIfNoEntry: false });
    if (!now) return { path: this.file, kind: 'missing', message: removed(this.file) };
    return isSame(now, this.database.seen)
      ? undefined
      : { path: this.file, kind: 'replaced', message: replaced(this.file) };
  }
}

/** What stands at a name, itself and not what a symbolic link there leads to. Undefined for nothing. */
export const standingAt = (path: string): BigIntStats | undefined => {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (['ENOTDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
};

const watched = (path: string): Watched => ({ path, seen: lstatSync(path, { bigint: true }) });

export const isSame = (one: BigIntStats, other: BigIntStats): boolean =>
  one.dev === other.dev && one.ino === other.ino;

const lookAt = ({ path, seen }: Watched): BigIntStats | FileFault => {
  const now = standingAt(path);
  if (!now) return { path, kind: 'missing', message: removed(path) };
  return isSame(now, seen) ? now : { path, kind: 'replaced', message: replaced(path) };
};

const removed = (path: string): string => `${path} was removed or moved while it was in use`;

const replaced = (path: string): string => `${path} was replaced by another file while it was in use`;
