import fc from 'fast-check';

const SURROGATES = { from: 0xd800, count: 0x800 };

/**
 * Any Unicode scalar value as a unit of `fc.string`. Its own unit "binary" is the same, and looks up all of them in a
 * table that it makes for each file of tests, in a second.
 */
export const anyCharacter: fc.Arbitrary<string> = fc
  .nat(0x10_ffff - SURROGATES.count)
  .map((n) => String.fromCodePoint(n < SURROGATES.from ? n : n + SURROGATES.count));
