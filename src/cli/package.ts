import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';

const packageFile = createRequire(import.meta.url).resolve('#package.json');

/** The folder of this package. */
export const PACKAGE = dirname(packageFile);

/** The version of this package. */
export const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string };
