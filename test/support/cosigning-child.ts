import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileLock } from '../../src/sqlite/file-lock.js';
import { cosignaturesOf } from '../../src/transparency/cosignature.js';
import { CosignedNotes, textFile } from '../../src/audit/cosigned-notes.js';
import { parseVerifierKey } from '../../src/transparency/note.js';

/** Added by a child to the file that an auditor's processes share. */
export interface ToCosign {
  readonly folder: string;
  /** Verifier keys of the log and of all witnesses. */
  readonly log: string;
  readonly witnesses: readonly string[];
  /** The witness whose cosignatures it adds. */
  readonly mine: number;
  /** Signed notes, each with the cosignature as a line. */
  readonly notes: readonly (readonly [note: string, line: string])[];
}

// cosigning-child.js: reads a line with ToCosign, says `ready`, adds all cosignatures after the next line, and ends.
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { folder, log, witnesses, mine, notes } = JSON.parse(String((await lines.next()).value)) as ToCosign;
const keys = witnesses.map((vkey) => parseVerifierKey(vkey, 'cosignature'));
const kept = new CosignedNotes(
  textFile(join(folder, 'witnessed.json')),
  keys,
  keys.length + 1,
  [parseVerifierKey(log)],
  fileLock(join(folder, 'witnessed.lock')),
);
process.stdout.write('ready\n');
await lines.next();
for (const [note, line] of notes) {
  const [cosignature] = cosignaturesOf(
    note + line,
    keys.filter((_key, index) => index === mine),
  );
  for (let added = !cosignature; !added;)
    try {
      if (cosignature) kept.add(note, cosignature);
      added = true;
    } catch (error) {
      // As a witness is asked again where its cosignature cannot be kept
      if (!(error instanceof Error && error.message.includes('locked'))) throw error;
    }
}
process.exit(0);
