import { type Position } from './event-log.js';

/** A backup cannot be made or restored. The message is one line for the operator. */
export class BackupRefused extends Error {
  override readonly name = 'BackupRefused';
}

/** A backup is not what was backed up: parts of it are other ones. */
export class BackupDamaged extends BackupRefused {}

/** The end of a backup, or some of its events, are missing. */
export class BackupCut extends BackupRefused {}

/** The contents of a copy of a log. */
export interface CopiedLog {
  readonly events: number;
  /** The position of its last event, or START. */
  readonly head: Position;
  readonly bytes: number;
}

export interface BackupProgress {
  /** Making the copy; reading the log again; reading the copy. */
  readonly phase: 'copying' | 'comparing' | 'checking';
  readonly unit: 'events';
  readonly done: number;
  readonly total: number;
}

export interface BackupWatch {
  readonly onProgress: (progress: BackupProgress) => void;
  /** Aborting removes what was made so far. */
  readonly signal: AbortSignal;
}

/**
 * Keeps a backup that `download` writes into the file that it is given: it gets its own name once it was checked. Throws
 * BackupRefused, LogUnavailable, the signal's reason, and what `download` throws.
 */
export type KeepBackup = (
  file: string,
  download: (partial: string) => Promise<void>,
  watch: BackupWatch,
) => Promise<CopiedLog>;
