import { lstatSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Database } from './database.js';
import { rescue, type Rescue, watchOf } from './file-rescue.js';
import { type FileFault } from './file-names.js';
import { type FileWatch } from './file-watch.js';

/** Less free space is a full disk, in bytes: a commit and a checkpoint may need as much. */
const LEAST_FREE_BYTES = 1_048_576;

/** Whether the disk of a file has room for commits; true where the system does not report it. */
export const hasRoom = (file: string): boolean => {
  try {
    const { bavail, bsize } = statfsSync(dirname(file));
    return bavail * bsize >= LEAST_FREE_BYTES;
  } catch {
    return true;
  }
};

/** Watches the files of an open event log, and saves their content when one of them is taken away. */
export class EventLogGuard {
  readonly #watch: FileWatch;
  #fault: FileFault | undefined;
  #saved: Rescue | undefined;

  /** To be constructed after the connection has written. Throws an error of the file system. */
  constructor(
    private readonly db: Database,
    private readonly file: string,
  ) {
    this.#watch = watchOf(db, file);
  }

  /**
   * The fault of a file, in one clause; undefined where there is none. A fault stays. Throws an error of the file
   * system where it cannot be examined.
   */
  look(): string | undefined {
    this.#fault ??= this.#watch.look();
    return this.#fault?.message;
  }

  /** Whether a file was taken away. */
  get isAtFault(): boolean {
    return this.#fault !== undefined;
  }

  /** Whether the content has to be saved, and no attempt was made. */
  get hasWork(): boolean {
    return this.#fault !== undefined && this.#saved === undefined;
  }

  /**
   * Saves the content of the open files. Returns one line: what has happened, which files to keep, what to do. Blocks
   * for as long as a copy takes. `last`: the number of the last event that was committed.
   */
  save(last: number): string {
    const fault = this.#fault;
    if (!fault) return '';
    this.#saved ??= rescue(this.db, this.file, this.#watch, fault, (copy) => contentOf(copy, last));
    const now = this.#watch.whereabouts(fault.path);
    const where = now === undefined || now === 'removed' || now === fault.path ? '' : ` (it is now ${now})`;
    return `${fault.message}${where}: ${this.#advice(this.#saved, fault)}`;
  }

  /** Whether a start would find all acknowledged events: the files are in place again. */
  get restartHelps(): boolean {
    if (!this.#fault || !this.#saved) return false;
    if (this.#saved.kind === 'put back') return true;
    if (isIndex(this.#fault)) return !isInTheWay(this.#fault.path);
    try {
      return this.#watch.look() === undefined;
    } catch {
      return false;
    }
  }

  close(): void {
    this.#watch.close();
  }

  #advice(saved: Rescue, fault: FileFault): string {
    const { file } = this;
    switch (saved.kind) {
      case 'not needed':
        return isIndex(fault)
          ? `nothing is lost, for ${file} and ${file}-wal hold everything; ${isInTheWay(fault.path) ? `move what stands at ${fault.path} aside, then ` : ''}start again`
          : `the folder ${dirname(file)} was moved, or another file system was mounted over it; put it back, then start again`;
      case 'put back':
        return `nothing is lost, for what it held was put back in its place; start again`;
      case 'copied':
        return `the whole log, ${saved.content}, was saved in ${saved.file}; keep that file; to go on, stop the service, move what is left of ${file}, ${file}-wal and ${file}-shm aside, rename the saved file to ${file}, and start again`;
      case 'failed':
        return `what the open files hold could not be saved (${saved.reason}); keep ${file}, ${file}-wal, the read model and tree.db, delete none of them, for they may be the only copies; put the file back or restore the log from a backup, then start again`;
    }
  }
}

/** SQLite rebuilds the index of the write-ahead log from the other two files. */
const isIndex = ({ path }: FileFault): boolean => path.endsWith('-shm');

/** Whether SQLite could not create a file of this name. */
const isInTheWay = (path: string): boolean => !(lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? true);

/** Describes the content of a copy. Throws where events are missing. */
const contentOf = (copy: Database, last: number): string => {
  const { events, end } = copy
    .prepare('SELECT count(*) AS events, coalesce(max(seq), 0) AS end FROM events')
    .get() as { events: number; end: number };
  if (events !== end || end < last)
    throw new Error(`a copy would hold ${events} events of ${Math.max(end, last)}`);
  return `${events} events`;
};
