import { type Command } from 'commander';
import { type VerifierKey } from '../../audit/note.js';
import { nonEmptyText, portNumber } from '../arguments.js';
import { EXITS, UsageError } from '../exit-status.js';
import { verifierKeysOf } from '../verifier-keys.js';

/** Defines `plants witness`. */
export const witnessCommand = (command: Command): void => {
  command
    .requiredOption('--name <name>', 'what the witness is called, such as witness.example/w1')
    .option(
      '--log <vkey>',
      "a log's key, or a file with one in each line: plants audit-key prints it; several times for several logs and keys",
      verifierKeysOf('ed25519'),
      [],
    )
    .option('--data <folder>', 'where its key and its memory are, and are made', nonEmptyText, './witness')
    .option('--host <address>', 'the address that it listens on', nonEmptyText, '127.0.0.1')
    .option('--port <number>', 'the port that it listens on', portNumber, 3100)
    .addHelpText(
      'after',
      `
It answers POST /add-checkpoint and GET /<origin hash>/checkpoint as C2SP tlog-witness has them, and says at its start
what its verifier key is: logs and their auditors need it. A log is known by its key; several keys of one name are of
one log. It uses no settings and no stores of the service. Its key must never be used with an older memory: back up
both files of the folder together, with the witness stopped (docs/witnesses.md).

Example:
  npx plants witness --name witness.example/w1 --log plants.vkey --data ./witness
${EXITS}`,
    )
    .action(witness);
};

interface WitnessOptions {
  readonly name: string;
  readonly log: readonly VerifierKey[];
  readonly data: string;
  readonly host: string;
  readonly port: number;
}

const witness = async ({ name, log, data, host, port }: WitnessOptions): Promise<void> => {
  if (log.length === 0) throw new UsageError('a witness follows at least one log: give its key with --log');
  const [{ runWitness }, { openWitnessStore }] = await Promise.all([
    import('../witness.js'),
    import('../../adapters/sqlite/witness-store.js'),
  ]);
  await runWitness({ name, logs: log, folder: data, host, port }, openWitnessStore);
};
