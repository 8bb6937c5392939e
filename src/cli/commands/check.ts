import { type Command } from 'commander';
import { type VerifierKey } from '../../audit/note.js';
import { isThere } from '../../files/new-file.js';
import { positiveInteger } from '../arguments.js';
import { readWhole } from '../check-files.js';
import { EXIT, UsageError } from '../exit-status.js';
import { demandOf, verifierKeysOf } from '../verifier-keys.js';

/** Defines `plants check`. */
export const checkCommand = (command: Command): void => {
  command
    .argument('<file>', 'what plants export wrote, or a list proof (GET /log/list)')
    .option(
      '--key <vkey>',
      "the log's key, or a file with one in each line: plants audit-key prints it; several times for old and new keys",
      verifierKeysOf('ed25519'),
      [],
    )
    .option(
      '--witness <vkey>',
      'the key of a witness that has to have cosigned the checkpoint, or a file with one in each line; several times',
      verifierKeysOf('cosignature'),
      [],
    )
    .option('--witnesses-required <number>', 'how many of them have to; all unless set', positiveInteger)
    .option('--against <file>', 'a checkpoint kept from before: the events go on from it')
    .option(
      '--previous <file>',
      'an older file of plants export: no event of it differs, and what has changed since',
    )
    .option('--owner <name>', 'it has to be of this owner')
    .option('--json', 'print one object, and no progress')
    .addHelpText(
      'after',
      `
It stops at the first line that does not fit, and names it. Each checkpoint has to be signed by one of the keys. Where
the log records that its key was changed, it says so, and whether the old key has signed the change. Without --key it says only that the file fits together:
anybody may have made it.

Example:
  npx plants check events.ndjson.gz --key plants.vkey --against checkpoint-of-last-month

Exit status: 0 if all of it holds, 1 if something does not or cannot be proven, 2 wrong usage.`,
    )
    .action(checkFile);
};

interface CheckOptions {
  readonly key: readonly VerifierKey[];
  readonly witness: readonly VerifierKey[];
  readonly witnessesRequired?: number;
  readonly against?: string;
  readonly previous?: string;
  readonly owner?: string;
  readonly json?: true;
}

const checkFile = async (
  file: string,
  { key, witness, witnessesRequired, against, previous, owner, json }: CheckOptions,
): Promise<void> => {
  for (const needed of [file, against, previous])
    if (needed !== undefined && !isThere(needed)) throw new UsageError(`there is no file ${needed}`);
  const demand = demandOf(witness, witnessesRequired);
  const lists = await import('../check-list.js');
  if (await lists.isListProof(file)) {
    if (against !== undefined || previous !== undefined)
      throw new UsageError('--against and --previous are for bundles: a list proof is of one moment');
    const well = await lists.checkList({ json: json ?? false }, { file, keys: key, demand, owner });
    process.exitCode = well ? EXIT.ok : EXIT.failed;
    return;
  }
  const { check } = await import('../check.js');
  const kept = against === undefined ? undefined : await readWhole(against);
  const well = await check(
    { json: json ?? false },
    { file, keys: key, demand, against: kept, previous, owner },
  );
  process.exitCode = well ? EXIT.ok : EXIT.failed;
};
