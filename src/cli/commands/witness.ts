import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Command } from 'commander';
import { AuditKeyError, hasWitnessKey, openWitnessKeys } from '../../audit/key.js';
import { NoteRefused, type VerifierKey, formatVerifierKey } from '../../transparency/note.js';
import { isThere } from '../../runtime/new-file.js';
import { createLogger } from '../../service/logging/logger.js';
import { StartError } from '../../service/start-error.js';
import { type ListeningWitness, serveWitness } from '../../witness/witness-server.js';
import { Witness } from '../../witness/witness.js';
import { nonEmptyText, portNumber } from '../arguments.js';
import { EXITS, UsageError } from '../exit-status.js';
import { version } from '../package.js';
import { verifierKeysOf } from '../verifier-keys.js';

/** Defines `plants witness`. */
export const define = (command: Command): void => {
  command
    .requiredOption('--name <name>', 'what the witness is called, such as witness.example/w1')
    .option(
      '--log <vkey>',
      "a log's key, or a file with one in each line: plants audit-key prints it; several times for several logs and keys",
      verifierKeysOf('ed25519'),
      [],
    )
    .option('--data <folder>', 'folder of its key and memory; made if missing', nonEmptyText, './witness')
    .option('--host <address>', 'the address that it listens on', nonEmptyText, '127.0.0.1')
    .option('--port <number>', 'the port that it listens on', portNumber, 3100)
    .addHelpText(
      'after',
      `
It answers POST /add-checkpoint and GET /<origin hash>/checkpoint as C2SP tlog-witness has them, and says at its start
what its verifier keys are, of Ed25519 and ML-DSA-44: logs and their auditors need one of them. A log is known by its
key; several keys of one name are of one log. It uses no settings and no stores of the service. Its keys must never be
used with an older memory: back up all files of the folder together, with the witness stopped (docs/witnesses.md).

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

/**
 * Runs a witness until SIGTERM or SIGINT. Throws UsageError without a log and for a name that notes cannot hold,
 * AuditKeyError, WitnessStoreUnavailable, and StartError where it cannot listen.
 */
const witness = async ({ name, log: logs, data: folder, host, port }: WitnessOptions): Promise<void> => {
  if (logs.length === 0) throw new UsageError('a witness follows at least one log: give its key with --log');
  const { openWitnessStore } = await import('../../witness/sqlite-witness-store.js');
  const stopping = new Promise<NodeJS.Signals>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, resolve);
  });
  const file = join(folder, 'witness.db');
  if (!isThere(file) && (await hasWitnessKey(folder)))
    throw new AuditKeyError(
      `there is no ${file} next to the key: a key without its record could cosign a second history. Put the file back; if it is lost, move the key away, and give the logs the new one (docs/witnesses.md)`,
    );
  const store = openWitnessStore(file); // before the key is made: a start that is cut off here can be repeated
  try {
    const keys = await openWitnessKeys(folder, name).catch((error: unknown) => {
      throw error instanceof NoteRefused ? new UsageError(error.message) : error;
    });
    const logger = createLogger('info', undefined, { pid: process.pid, host: hostname(), version });
    const witness = new Witness(keys, logs, store, () => new Date());
    const listening = await listen(witness, { host, port }, logger);
    const [vkey, mlDsa44] = keys.map((key) => formatVerifierKey(key, 'cosignature'));
    logger.info(
      { url: listening.url, vkey, mlDsa44, logs: logs.map((log) => log.name) },
      `the witness ${vkey} listens on ${listening.url}`,
    );
    logger.info({ signal: await stopping }, 'stopping');
    await listening.stop();
    logger.info('stopped');
  } finally {
    store.close();
  }
};

const listen = async (
  witness: Witness,
  address: { readonly host: string; readonly port: number },
  logger: { error: (message: string) => void; warn: (about: object, message: string) => void },
): Promise<ListeningWitness> => {
  try {
    return await serveWitness(witness, address, {
      onFound: (message) => {
        logger.error(message);
      },
      onError: (reason) => {
        logger.warn({ reason }, 'a request cannot be answered');
      },
    });
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    throw new StartError(`the witness cannot listen on ${address.host} port ${address.port}: ${code}`, {
      cause: error,
    });
  }
};
