import { join } from 'node:path';
import { fileLock } from '../sqlite/file-lock.js';
import { CosignedNotes, textFile } from '../audit/cosigned-notes.js';
import { type SignerKey } from '../transparency/note.js';
import { type WitnessesConfig } from './witnesses-config.js';

/** Cosigned checkpoints, as DATA_DIR holds them. */
export const cosignedNotes = (
  dataDir: string,
  { targets, required }: WitnessesConfig,
  key: SignerKey,
): CosignedNotes =>
  new CosignedNotes(
    textFile(join(dataDir, 'witnessed.json')),
    targets.map((target) => target.key),
    required,
    [key],
    fileLock(join(dataDir, 'witnessed.lock')),
  );
