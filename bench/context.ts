import { type Stage } from './contenders.js';
import { type Results } from './results.js';

/** How much is done. */
export interface Sizes {
  readonly repeats: number;
  /** How long one measurement loads, in seconds. */
  readonly seconds: number;
  /** How long each contender is loaded before anything counts, in seconds. */
  readonly warmUpSeconds: number;
  /** The events of the large log. */
  readonly events: number;
  /** The owners that share them; as many are there where many owners ask. */
  readonly owners: number;
  /** How many of these ask for most of it. */
  readonly activeOwners: number;
  /** How often the service is killed under load. */
  readonly kills: number;
  /** How often it is started to see how long that takes. */
  readonly starts: number;
  /** The fixed-rate run, in seconds. */
  readonly steadySeconds: number;
}

export const FULL: Sizes = {
  repeats: 3,
  seconds: 5,
  warmUpSeconds: 3,
  events: 1_000_000,
  owners: 100_000,
  activeOwners: 20_000,
  kills: 3,
  starts: 5,
  steadySeconds: 15,
};

/** For the working and not for the figures: what it takes to go through everything once. */
export const QUICK: Sizes = {
  repeats: 1,
  seconds: 1,
  warmUpSeconds: 0,
  events: 10_000,
  owners: 1_000,
  activeOwners: 200,
  kills: 1,
  starts: 1,
  steadySeconds: 1,
};

/** What a workload works with. */
export interface Context {
  readonly stage: Stage;
  readonly sizes: Sizes;
  readonly results: Results;
  /** Whether a workload, or a part of one, was asked for. */
  readonly wants: (name: string) => boolean;
  /** Tells a person how far the run is. */
  readonly say: (line: string) => void;
}
