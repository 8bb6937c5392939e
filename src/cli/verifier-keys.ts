import { existsSync, readFileSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import { type WitnessDemand } from '../audit/cosignature.js';
import { NoteRefused, parseVerifierKey, type SignatureType, type VerifierKey } from '../audit/note.js';
import { UsageError } from './exit-status.js';

/** One more verifier key of this type, or those in a file that holds one in each line. */
export const verifierKeysOf =
  (type: SignatureType) =>
  (value: string, before: readonly VerifierKey[]): readonly VerifierKey[] => {
    try {
      const text = existsSync(value) ? readFileSync(value, 'utf8').trim() : value;
      return [...before, ...text.split(/\r?\n/).map((vkey) => parseVerifierKey(vkey, type))];
    } catch (error) {
      throw new InvalidArgumentError(
        error instanceof NoteRefused ? error.message : 'It names a file that cannot be read.',
      );
    }
  };

/** What `--witness` and `--witnesses-required` ask for: all of them, unless told. Throws UsageError. */
export const demandOf = (witnesses: readonly VerifierKey[], required = witnesses.length): WitnessDemand => {
  if (required > witnesses.length)
    throw new UsageError(`--witnesses-required ${required}: --witness names ${witnesses.length}`);
  return { witnesses, required };
};
