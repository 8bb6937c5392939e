import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A plant of the real input. */
export interface Houseplant {
  readonly id: number;
  readonly name: string;
  readonly tag: string;
}

/** Real plants as lines of JSON, with names in several scripts. The file is not compiled: it stands with the sources. */
export const HOUSEPLANT_LINES: readonly string[] = readFileSync(
  join(process.cwd(), 'test/support/houseplants.ndjson'),
  'utf8',
)
  .split('\n')
  .filter((line) => line !== '');

/** The same, read, in ascending order of id. */
export const HOUSEPLANTS: readonly Houseplant[] = HOUSEPLANT_LINES.map(
  (line) => JSON.parse(line) as Houseplant,
).sort((a, b) => a.id - b.id);
