import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A new, empty folder for the files of a test, which removes it. */
export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'plants-test-'));
