import { type Model } from './model.js';

/** When the files are altered. `started`: a new folder with events.db, tree.db and the key, on which nothing ran yet. */
export const STATES = ['running', 'restarted', 'started'] as const;
export type State = (typeof STATES)[number];

export type Random = (below: number) => number;

/** Random numbers that are the same in each run. */
export const randomOf = (seed: number): Random => {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

export interface Expected {
  /** The event that is to be named: any of these indices of the log. */
  readonly indices?: readonly number[];
  /** Source of a regular expression for the message. */
  readonly says?: string;
}

/** One alteration more of a copy of the model, in `folder`. */
export interface Place {
  readonly folder: string;
  readonly model: Model;
  readonly random: Random;
}

export interface Kind {
  /** All of them where absent. */
  readonly states?: readonly State[];
  readonly alter: (place: Place) => Expected | Promise<Expected>;
}
