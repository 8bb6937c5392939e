/** The last checkpoint of a log that a witness has cosigned. */
export interface WitnessedCheckpoint {
  readonly size: number;
  readonly root: Uint8Array;
  /** Signed by the log and by the witness. */
  readonly note: string;
}

/** Two checkpoints of one size with different roots, both signed by the log: a proof that it has two histories. */
export interface ForkEvidence {
  readonly cosigned: string;
  readonly refused: string;
}

/** Proofs of two histories that are kept of each log: one is enough, and whoever holds the log's key can make many. */
export const MAX_FORKS = 10;

/** The changes that a decision about a log makes. */
export interface WitnessChange<Answer> {
  readonly answer: Answer;
  /** Replaces the last checkpoint. */
  readonly next?: WitnessedCheckpoint;
  /** Is kept, unless there are MAX_FORKS of this log. */
  readonly fork?: ForkEvidence;
}

/** The memory of a witness cannot be used. The message is one line. */
export class WitnessStoreUnavailable extends Error {
  override readonly name = 'WitnessStoreUnavailable';
}

/** The memory of a witness: its state of each log, by the log's origin. Each method throws WitnessStoreUnavailable. */
export interface WitnessStore {
  last(origin: string): WitnessedCheckpoint | undefined;

  /**
   * Decides about the last checkpoint of a log, and stores what that changes. Nobody else, in this process or another,
   * changes it meanwhile; what is stored is durable when it returns. Nothing is stored where `decide` throws.
   */
  decide<Answer>(
    origin: string,
    decide: (last: WitnessedCheckpoint | undefined) => WitnessChange<Answer>,
  ): Answer;

  /** The proofs of two histories that are kept, the oldest first. */
  forks(origin: string): ForkEvidence[];

  close(): void;
}
