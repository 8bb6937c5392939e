import { type ErasureEvent } from './erasure.js';

/**
 * Requests of operators and their outcomes: events in streams of their own, so that a request works from any process,
 * survives restarts, and is part of the audit trail.
 */

/** An operator requested a rebuild of the lists, beside the active generation. */
export interface RebuildRequested {
  readonly type: 'RebuildRequested';
  readonly data: {
    /** A UUID. */
    readonly rebuild: string;
    /** The most events a second; null for no limit. */
    readonly rate: number | null;
    /** True if skipped events are read again, by this rebuild and after it. */
    readonly unskip: boolean;
  };
}

/** A projector builds this generation for the rebuild. Recorded again with another one where that was lost. */
export interface RebuildStarted {
  readonly type: 'RebuildStarted';
  readonly data: { readonly rebuild: string; readonly generation: number };
}

/** The generation of the rebuild was verified, and is the active one. */
export interface RebuildPromoted {
  readonly type: 'RebuildPromoted';
  readonly data: {
    readonly rebuild: string;
    readonly generation: number;
    /** The generation that was active before; null where it was lost. */
    readonly replaced: number | null;
  };
}

/** The rebuild was cancelled: by an operator, or because its generation is not the fold of the log. */
export interface RebuildCancelled {
  readonly type: 'RebuildCancelled';
  readonly data: { readonly rebuild: string; readonly reason: string };
}

/** An operator requested that the previous generation becomes the active one again. */
export interface RollbackRequested {
  readonly type: 'RollbackRequested';
  readonly data: { readonly rebuild: string; readonly reason: string };
}

/** The previous generation is the active one again. */
export interface RolledBack {
  readonly type: 'RolledBack';
  readonly data: { readonly rebuild: string; readonly generation: number; readonly replaced: number };
}

/** The generation that was replaced is no longer kept: no rollback to it is possible. */
export interface RebuildClosed {
  readonly type: 'RebuildClosed';
  readonly data: { readonly rebuild: string };
}

/** An event that the codec refuses is left out of the lists, by an operator's decision. */
export interface EventSkipped {
  readonly type: 'EventSkipped';
  readonly data: {
    /**
     * The stream of the event; its id where that stream names an owner, who may be erased (`skippedPlace`). Its position is
     * not recorded, as it differs in a copy of the log.
     */
    readonly stream: string;
    readonly revision: number;
    readonly reason: string;
  };
}

/** A checkpoint that an auditor has signed, as its log keeps it. */
export interface RecordedCheckpoint {
  /** The key that it was signed with, as C2SP signed-note writes a verifier key. */
  readonly key: string;
  /** The signed note (C2SP tlog-checkpoint). Its tree ends before this event. */
  readonly note: string;
  /** When the oldest checkpoint in the auditor's tree was signed: tells its tree from every other. RFC 3339, UTC. */
  readonly treeSince: string;
}

/** An auditor signs with a key, or over a tree, that the log has no record of yet. */
export interface SigningStarted {
  readonly type: 'SigningStarted';
  readonly data: RecordedCheckpoint;
}

/** An auditor has signed further checkpoints with the same key over the same tree: this is the last of them. */
export interface CheckpointRecorded {
  readonly type: 'CheckpointRecorded';
  readonly data: RecordedCheckpoint;
}

export type AuditEvent = SigningStarted | CheckpointRecorded;

export type RebuildEvent =
  | RebuildRequested
  | RebuildStarted
  | RebuildPromoted
  | RebuildCancelled
  | RollbackRequested
  | RolledBack
  | RebuildClosed;

export type OperationEvent = RebuildEvent | EventSkipped | AuditEvent | ErasureEvent;
