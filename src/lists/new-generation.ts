import { randomOctets } from '../runtime/runtime.js';
import { type Generation } from './read-model.js';

/** The id of a new generation: 48 random bits, so that the id of one that was lost or dropped never comes back. */
export const newGeneration = (): Generation => (randomOctets(6).readUIntBE(0, 6) || 1) as Generation;
