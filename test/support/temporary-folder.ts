import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The folder that test/support/tidy-environment.ts removes when a file of tests is over; none outside Jest. */
const { FOLDER_OF_TESTS } = globalThis as { FOLDER_OF_TESTS?: string };

/** A new, empty folder. It goes with the file of tests that made it; outside Jest, whoever made it removes it. */
export const temporaryFolder = (): string => mkdtempSync(join(FOLDER_OF_TESTS ?? tmpdir(), 'plants-test-'));
