import { type Position } from '../../ports/event-log.js';
import { ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import {
  type Generation,
  type Healing,
  type PartitionChanges,
  GenerationMissing,
  OwnerParked,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../../ports/read-model.js';
import { explainSqliteError, SQLITE, sqliteCode } from './database.js';
import { type FileFault } from './file-names.js';
import { portErrorOf } from './worker-call.js';

/** The work of the writer thread, each in a transaction, in the order of the calls. */
export type Work =
  | { readonly kind: 'create' }
  | {
      readonly kind: 'promote';
      readonly generation: Generation;
      readonly replaces: Generation | 'none' | undefined;
      readonly logEnd: Position | undefined;
    }
  | { readonly kind: 'drop'; readonly generation: Generation }
  | { readonly kind: 'sweep' }
  | {
      readonly kind: 'apply';
      readonly generation: Generation;
      readonly partitions: readonly PartitionChanges[];
    }
  /** Moves all pages from the write-ahead log into the database, and lets that log begin again. */
  | { readonly kind: 'checkpoint' }
  /** Makes what was committed before durable. */
  | { readonly kind: 'sync' }
  /** Removes what deleted rows have left in the file. */
  | { readonly kind: 'scrub' }
  | { readonly kind: 'heal'; readonly generation: Generation; readonly healing: Healing }
  | { readonly kind: 'takeLease'; readonly holder: string; readonly forMs: number }
  | { readonly kind: 'returnLease'; readonly holder: string }
  | {
      readonly kind: 'report';
      readonly process: string;
      readonly text: string;
      readonly forMs: number;
    };

/** The positions of the partitions after an apply, and whether its generation was active then. */
export interface Applied {
  readonly positions: Position[];
  readonly active: boolean;
}

/** The answer to each kind of work. */
export interface Answers {
  readonly create: Generation;
  readonly promote: undefined;
  readonly drop: undefined;
  /** Whether nothing is left of dropped generations. */
  readonly sweep: boolean;
  readonly apply: Applied;
  readonly checkpoint: undefined;
  readonly sync: undefined;
  readonly scrub: undefined;
  readonly heal: boolean;
  readonly takeLease: boolean;
  readonly returnLease: undefined;
  readonly report: undefined;
}

export interface WriterData {
  readonly file: string;
  readonly log: string;
}

/** The error for a file that was taken away. */
export const takenAway = ({ message }: FileFault): ReadModelUnavailable =>
  new ReadModelUnavailable(`${message}: the lists are built anew from the event log`);

/** Advice for a file that cannot be used. It is not deleted automatically, as it may be a mistake. */
export const rebuildAdvice = (file: string): string =>
  `stop the service and delete ${file} (and ${file}-wal, ${file}-shm): it is rebuilt from the log`;

export const unavailable = (message: string, options?: ErrorOptions): ReadModelUnavailable =>
  new ReadModelUnavailable(message, options);

const PORT_ERRORS = [
  ReadModelUnavailable,
  ReadModelIncomplete,
  ActiveChanged,
  GenerationMissing,
  GenerationActive,
  NotAsFar,
] as const;

/** The port's error for what SQLite or the writer has thrown. */
export const readModelError = (thrown: unknown, file: string): Error => {
  if (thrown instanceof OwnerParked) return thrown;
  return portErrorOf(thrown, PORT_ERRORS, (cause) => {
    switch (sqliteCode(cause)) {
      case SQLITE.CORRUPT:
        return unavailable(`${file} is damaged: ${rebuildAdvice(file)}`, { cause });
      case SQLITE.NOTADB:
        return unavailable(
          `${file} is not an SQLite database: let READ_MODEL name another file; or, if it was this read model, ${rebuildAdvice(file)}`,
          { cause },
        );
      default:
        return unavailable(explainSqliteError(cause, file), { cause });
    }
  });
};

export const missing = (generation: Generation): GenerationMissing =>
  new GenerationMissing(`there is no generation ${generation}`);
