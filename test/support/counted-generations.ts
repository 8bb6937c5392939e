import { MACHINE } from '../../src/runtime/runtime.js';
import { replaceParts } from './replaced-runtime.js';

/**
 * Gives the generations that are created from now on the ids 1, 2, 3 … until the file of tests ends: they are random
 * otherwise. Called again, it begins at 1.
 */
export const countGenerations = (): void => {
  let last = 0;
  replaceParts({
    randomOctets: (count) => {
      const octets = MACHINE.randomOctets(count);
      if (count === 6) octets.writeUIntBE((last += 1), 0, count);
      return octets;
    },
  });
};
