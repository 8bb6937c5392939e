/**
 * What operators ask for and what comes of it. These are events like all others, in streams of their own: so a
 * request works from any process, survives restarts, and stands in the audit trail.
 */

/** Somebody asked for the lists to be rebuilt, beside those that are answered. */
export interface RebuildRequested {
  readonly type: 'RebuildRequested';
  readonly data: {
    /** A UUID. */
    readonly rebuild: string;
    /** At most so many events a second, or null for as many as go. */
    readonly rate: number | null;
    /** Whether events that were skipped until now are looked at again, in what is built and ever after. */
    readonly unskip: boolean;
  };
}

/** A projector makes this generation of the read model for it. Again with another one where that was lost. */
export interface RebuildStarted {
  readonly type: 'RebuildStarted';
  readonly data: { readonly rebuild: string; readonly generation: number };
}

/** It was built, verified, and is what lists are answered from. */
export interface RebuildPromoted {
  readonly type: 'RebuildPromoted';
  readonly data: {
    readonly rebuild: string;
    readonly generation: number;
    /** What lists were answered from until then; null where that had been lost. */
    readonly replaced: number | null;
  };
}

/** It was given up: by an operator, or since what it built is not the fold of the log. */
export interface RebuildCancelled {
  readonly type: 'RebuildCancelled';
  readonly data: { readonly rebuild: string; readonly reason: string };
}

/** Somebody asked to answer lists from the generation before again. */
export interface RollbackRequested {
  readonly type: 'RollbackRequested';
  readonly data: { readonly rebuild: string; readonly reason: string };
}

/** Lists are answered from the generation before again. */
export interface RolledBack {
  readonly type: 'RolledBack';
  readonly data: { readonly rebuild: string; readonly generation: number; readonly replaced: number };
}

/** A generation that was replaced is not kept any longer: there is no way back to it. */
export interface RebuildClosed {
  readonly type: 'RebuildClosed';
  readonly data: { readonly rebuild: string };
}

/** An event that the codec refuses is left out of the lists, by somebody's decision. */
export interface EventSkipped {
  readonly type: 'EventSkipped';
  readonly data: {
    /** Where it stands. Not its position: that is another one in a copy of the log. */
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

export type OperationEvent = RebuildEvent | EventSkipped | AuditEvent;
