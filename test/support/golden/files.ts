import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { temporaryFolder } from '../temporary-folder.js';

/** The folder of the golden files, in git. */
export const GOLDEN = fileURLToPath(new URL('../../../../test/golden/', import.meta.url));

/** A golden file as text. */
export const golden = (name: string): string => readFileSync(join(GOLDEN, name), 'utf8');

/** A golden file that is compressed. */
export const goldenZipped = (name: string): Buffer => gunzipSync(readFileSync(join(GOLDEN, `${name}.gz`)));

/** Writes a golden file, compressed. */
export const writeZipped = (name: string, content: string | Buffer): void => {
  writeFileSync(join(GOLDEN, `${name}.gz`), gzipSync(content, { level: 9 }));
};

/** A new data folder with copies of golden stores, which are never opened themselves. */
export const copyOfStores = (stores: 'data' | 'recorded' = 'data'): string => {
  const folder = temporaryFolder();
  for (const name of readdirSync(join(GOLDEN, stores))) {
    const content = readFileSync(join(GOLDEN, stores, name));
    writeFileSync(
      join(folder, name.replace(/\.gz$/, '')),
      name.endsWith('.gz') ? gunzipSync(content) : content,
      { mode: 0o600 },
    );
  }
  return folder;
};

export interface Meta {
  /** No event of the golden log is newer. */
  readonly madeAt: string;
  /** The commit whose code made the stores. */
  readonly commit: string;
  /** Positions of three events. */
  readonly positions: readonly [string, string, string];
}

/** Reads it. */
export const meta = (): Meta => JSON.parse(golden('meta.json')) as Meta;
