import { type Position, START } from '../log/event-log.js';
import { type Generation } from './read-model.js';

export interface GenerationInfo {
  readonly generation: Generation;
  /** Lists are read from the active one; there is at most one. */
  readonly active: boolean;
}

/** The active one, if any. */
export const activeOf = <T extends Pick<GenerationInfo, 'active'>>(
  generations: readonly T[],
): T | undefined => generations.find(({ active }) => active);

/** The one with this id; undefined where the store does not have it. */
export const findGeneration = (
  generations: readonly GenerationInfo[],
  wanted: Generation | undefined,
): GenerationInfo | undefined => generations.find(({ generation }) => generation === wanted);

/** The time after a switch that a process may still answer lists from the replaced generation, in milliseconds. */
export const SWITCH_SEEN_MS = 1_000;

/**
 * The generations of the read model of one log; those of other logs are invisible. Every method throws
 * ReadModelUnavailable where the store cannot be used, in bounded time. An abstract class without code, so that Nest
 * can inject by it.
 */
export abstract class Generations {
  /** All generations, in ascending order of their ids, which says nothing of their age. */
  abstract generations(): Promise<GenerationInfo[]>;

  /** Creates an empty, inactive generation whose partitions are at START. Its id is random: none ever comes back. */
  abstract createGeneration(): Promise<Generation>;

  /**
   * Makes a generation the active one, in one atomic switch. Where it is active already nothing happens, whatever
   * `replaces` says: so a promotion whose outcome is unknown may be asked for again.
   *
   * Otherwise throws, and changes nothing: GenerationMissing if there is none such; ActiveChanged if `replaces` is
   * given and is not what the switch would replace ('none': no generation is active); NotAsFar if a partition of it
   * stands before the same partition of the active one.
   */
  abstract promote(generation: Generation, replaces?: Generation | 'none'): Promise<void>;

  /** Makes a generation that is of no use any more inactive, if it is the active one: lists are refused from then on. */
  abstract deactivate(generation: Generation): Promise<void>;

  /**
   * Removes from the files of the store what rows that were deleted have left there. What was applied before is durable
   * then. May be repeated.
   */
  abstract scrub(): Promise<void>;

  /** Removes a generation, in small steps. Throws GenerationActive for the active one; a missing one is no error. */
  abstract drop(generation: Generation): Promise<void>;
}

/** The active generation cannot be dropped. */
export class GenerationActive extends Error {
  override readonly name = 'GenerationActive';
}

/** A generation is behind the active one: lists would go backwards if it were promoted. */
export class NotAsFar extends Error {
  override readonly name = 'NotAsFar';
}

/** Another generation is active than the one to be replaced. */
export class ActiveChanged extends Error {
  override readonly name = 'ActiveChanged';
}

/** Throws ActiveChanged where a promotion is to replace another generation than the active one. */
export const assertReplaces = (
  active: Generation | undefined,
  replaces: Generation | 'none' | undefined,
): void => {
  if (replaces !== undefined && replaces !== (active ?? 'none'))
    throw new ActiveChanged(`the active generation is ${active ?? 'none'}, not ${replaces}`);
};

/** Throws NotAsFar where a partition of a generation, at these positions, stands before that of the active one. */
export const assertAsFar = (
  generation: Generation,
  positions: readonly Position[],
  ofActive: readonly Position[],
): void => {
  const partition = positions.findIndex((position, index) => position < (ofActive[index] ?? START));
  if (partition !== -1)
    throw new NotAsFar(`generation ${generation} is behind the active one in partition ${partition}`);
};
