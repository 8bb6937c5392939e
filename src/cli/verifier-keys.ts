import { existsSync, readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { NoteRefused, parseVerifierKey, type SignatureType, type VerifierKey } from '../transparency/note.js';
import { parsePolicy, type Policy, trustInPolicy } from '../transparency/policy.js';
import { type Trust } from '../transparency/signed.js';
import { positiveInteger } from './arguments.js';
import { UsageError } from './exit-status.js';

/** One more verifier key of this type, or those in a file that holds one in each line. */
export const verifierKeysOf =
  (type: SignatureType) =>
  (value: string, before: readonly VerifierKey[]): readonly VerifierKey[] => {
    const text = (): string => (existsSync(value) ? readFileSync(value, 'utf8').trim() : value);
    const keys = argumentIn(() =>
      text()
        .split(/\r?\n/)
        .map((vkey) => parseVerifierKey(vkey, type)),
    );
    return [...before, ...keys];
  };

/** The policy in a file. */
const policyIn = (file: string): Policy => argumentIn(() => parsePolicy(readFileSync(file)));

/** Throws InvalidArgumentError for whatever `read` throws. */
const argumentIn = <T>(read: () => T): T => {
  try {
    return read();
  } catch (error) {
    throw new InvalidArgumentError(
      error instanceof NoteRefused ? error.message : 'It names a file that cannot be read.',
    );
  }
};

/** The keys whose signatures a command asks for, by the options of `addKeys`. */
export interface KeyOptions {
  readonly key: readonly VerifierKey[];
  readonly witness: readonly VerifierKey[];
  readonly witnessesRequired?: number;
  readonly policy?: Policy;
}

/** Adds the options for the keys of a log, the first called `key`, and of its witnesses; `witness` says what these have to do. */
export const addKeys = (command: Command, witness: string, key = 'key'): Command =>
  command
    .option(
      `--${key} <vkey>`,
      "the log's key, or a file with one in each line: plants audit-key prints it; several times for old and new keys",
      verifierKeysOf('ed25519'),
      [],
    )
    .option('--witness <vkey>', `the key of a witness that ${witness}`, verifierKeysOf('cosignature'), [])
    .option('--witnesses-required <number>', 'how many of them have to; all unless set', positiveInteger)
    .option('--policy <file>', 'instead of these: logs, witnesses and quorum as C2SP tlog-policy', policyIn);

/** The keys that are trusted, and the witnesses that must have cosigned: all, unless told. Throws UsageError. */
export const trustOf = ({ key: keys, witness, witnessesRequired, policy }: KeyOptions): Trust => {
  if (!policy) {
    const required = witnessesRequired ?? witness.length;
    if (required > witness.length)
      throw new UsageError(`--witnesses-required ${required}: --witness names only ${witness.length}`);
    return { keys, witnesses: witness, required };
  }
  if (witness.length > 0 || witnessesRequired !== undefined)
    throw new UsageError('--policy names the witnesses and the quorum: give no --witness beside it');
  return trustInPolicy(policy, keys);
};
