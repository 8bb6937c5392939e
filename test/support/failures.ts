/**
 * Prints what failed in the lanes of `npm test` once more, last of all, and fails as they did: other lanes print for
 * half an hour after a failure, and of CI's output only the end is kept.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAILURES_FOLDER } from './lane-reporter.js';

const files = existsSync(FAILURES_FOLDER) ? readdirSync(FAILURES_FOLDER) : [];
for (const file of files) process.stderr.write(readFileSync(join(FAILURES_FOLDER, file)));
if (files.length === 0)
  process.stderr.write('No test failed: the reason stands above, a lane that was ended or the coverage.\n');
process.exitCode = 1;
