import { readyFor } from '../../src/transparency/cosignature.js';
import { parseVerifierKey, type VerifierKey } from '../../src/transparency/note.js';
import { CliProcess } from './cli-process.js';

/** A `plants witness` that listens. */
export interface WitnessProcess {
  readonly process: CliProcess;
  readonly url: string;
  readonly vkey: string;
  readonly key: VerifierKey;
  /** Its other one; what verifies by it is loaded. */
  readonly mlDsa44: VerifierKey;
}

/** Starts `plants witness` with these options, on a free port. */
export const startWitness = async (options: readonly string[], port = '0'): Promise<WitnessProcess> => {
  const process = CliProcess.piped(['witness', '--port', port, ...options], {});
  await process.says(/listens on/);
  const said = JSON.parse(process.stdout.split('\n')[0] ?? '') as Record<'url' | 'vkey' | 'mlDsa44', string>;
  const [key, mlDsa44] = [said.vkey, said.mlDsa44].map((vkey) => parseVerifierKey(vkey, 'cosignature'));
  if (!key || !mlDsa44) throw new Error('a witness has two keys');
  await readyFor([mlDsa44]);
  return { process, url: said.url, vkey: said.vkey, key, mlDsa44 };
};
