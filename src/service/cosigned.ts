import { join } from 'node:path';
import { fileLock } from '../sqlite/file-lock.js';
import { CosignedNotes, textFile } from '../audit/cosigned-notes.js';
import { type WitnessesConfig } from './witnesses-config.js';
import { readyFor } from '../transparency/cosignature.js';
import { type SignerKey } from '../transparency/sign.js';

/** Cosigned checkpoints, as DATA_DIR holds them; what verifies them is loaded. */
export const cosignedNotes = async (
  dataDir: string,
  { targets, required }: WitnessesConfig,
  key: SignerKey,
): Promise<CosignedNotes> => {
  const keys = targets.map((target) => target.key);
  await readyFor(keys);
  const file = textFile(join(dataDir, 'witnessed.json'));
  return new CosignedNotes(file, keys, required, [key], fileLock(join(dataDir, 'witnessed.lock')));
};
