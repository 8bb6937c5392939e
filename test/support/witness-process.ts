import { parseVerifierKey, type VerifierKey } from '../../src/transparency/note.js';
import { CliProcess } from './cli-process.js';

/** A `plants witness` that listens. */
export interface WitnessProcess {
  readonly process: CliProcess;
  readonly url: string;
  readonly vkey: string;
  readonly key: VerifierKey;
}

/** Starts `plants witness` with these options, on a free port. */
export const startWitness = async (options: readonly string[], port = '0'): Promise<WitnessProcess> => {
  const process = CliProcess.piped(['witness', '--port', port, ...options], {});
  await process.says(/listens on/);
  const { url, vkey } = JSON.parse(process.stdout.split('\n')[0] ?? '') as { url: string; vkey: string };
  return { process, url, vkey, key: parseVerifierKey(vkey, 'cosignature') };
};
