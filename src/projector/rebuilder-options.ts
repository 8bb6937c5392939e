import { type StandbyOptions } from './standby.js';

/** The steps of a rebuild, each of which another process may have to go on from. */
export const REBUILD_STEPS = [
  'rebuild seen',
  'generation created',
  'generation recorded',
  'half built',
  'caught up',
  'verified',
  'promotion recorded',
  'promoted',
  'rolled back',
  'dropped',
] as const;
export type RebuildStep = (typeof REBUILD_STEPS)[number];

export interface RebuilderOptions extends StandbyOptions {
  readonly now: () => Date;
  /** How long what was replaced is kept up to date, in milliseconds. */
  readonly graceMs: number;
  /** Called at each step. */
  readonly onStep: (step: RebuildStep) => void;
  /** Called with what was done, for the log. */
  readonly onDone: (message: string) => void;
  /** Called with an erasure before which the store has put the active generation back, once a rebuild was requested. */
  readonly onPutBack: (erasure: string) => void;
  /** Called with how many plants of a new generation differ from the log, as soon as that is known. Must not reject. */
  readonly onCompared: (differing: number) => Promise<void>;
}
