/**
 * The limit of durable writes: a process that does nothing but insert events into a log of the adapter's own schema and
 * settings, so many in each transaction.
 */
import { newLog } from './filled.js';
import { answer, order, sampleOf } from './program.js';

export interface Commits {
  readonly file: string;
  readonly seconds: number;
  readonly together: number;
}

const { file, seconds, together } = order() as Commits;
const { db, append } = newLog(file, 'FULL');
const sample = await sampleOf(() => {
  const end = performance.now() + seconds * 1_000;
  let written = 0;
  while (performance.now() < end) {
    db.exec('BEGIN IMMEDIATE');
    for (let one = 0; one < together; one++) append('writer', (written += 1));
    db.exec('COMMIT');
  }
  return written;
});
db.close();
answer(sample);
