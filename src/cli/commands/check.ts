import { type Command } from 'commander';
import { isThere } from '../../runtime/new-file.js';
import { readWhole } from '../check-files.js';
import { exitBy, UsageError } from '../exit-status.js';
import { addKeys, type KeyOptions, trustOf } from '../verifier-keys.js';

/** Defines `plants check`. */
export const define = (command: Command): void => {
  const cosigned = 'has to have cosigned the checkpoint, or a file with one in each line; several times';
  addKeys(command.argument('<file>', 'a file of plants export, or a list proof (GET /log/list)'), cosigned)
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
the log records that its key was changed, it says so, and whether the old key has signed the change. Without --key it
says only that the file fits together: anyone may have made it.

Example:
  npx plants check events.ndjson.gz --key plants.vkey --against checkpoint-of-last-month

Exit status: 0 if all of it holds, 1 if something does not or cannot be proven, 2 wrong usage.`,
    )
    .action(async (file: string, options: CheckOptions) => {
      exitBy(await checkFile(file, options));
    });
};

interface CheckOptions extends KeyOptions {
  readonly against?: string;
  readonly previous?: string;
  readonly owner?: string;
  readonly json?: boolean;
}

const checkFile = async (file: string, options: CheckOptions): Promise<boolean> => {
  const { against, previous, owner, json = false } = options;
  for (const needed of [file, against, previous])
    if (needed !== undefined && !isThere(needed)) throw new UsageError(`there is no file ${needed}`);
  const question = { file, trust: trustOf(options), owner };
  const { checkList, isListProof } = await import('../check-list.js');
  if (await isListProof(file)) {
    if (against !== undefined || previous !== undefined)
      throw new UsageError('--against and --previous are for bundles: a list proof is of one moment');
    return checkList({ json }, question);
  }
  const { check } = await import('../check.js');
  const kept = against === undefined ? undefined : await readWhole(against);
  return check({ json }, { ...question, against: kept, previous });
};
