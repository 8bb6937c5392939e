import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import openapiTS, { astToString } from 'openapi-typescript';
import { served } from '../../support/http-client.js';

const run = promisify(execFile);

/** Below the repository, so that the clients find their packages. */
const FOLDER = 'build/generated-clients';
const BIN = 'node_modules/.bin';

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly operationId: string }>>>>;
}

const http = served();
let document: Document;
beforeAll(async () => {
  const { text } = await http.send({ path: '/openapi.json' });
  document = JSON.parse(text) as Document;
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  cpSync('test/generated-clients', FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, 'openapi.json'), text);
  const types = await openapiTS(text, { defaultNonNullable: false });
  writeFileSync(join(FOLDER, 'api.ts'), astToString(types));
  await run(process.execPath, [
    `${BIN}/oazapfts`,
    join(FOLDER, 'openapi.json'),
    join(FOLDER, 'oazapfts-api.ts'),
  ]);
  const compilerOptions = {
    ...{ target: 'ES2023', module: 'NodeNext', moduleResolution: 'NodeNext', strict: true, types: ['node'] },
    ...{ skipLibCheck: true, noUncheckedIndexedAccess: true, rootDir: '.', outDir: 'out' },
  };
  writeFileSync(join(FOLDER, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  await run(process.execPath, [`${BIN}/tsc`, '--project', FOLDER]).catch((error: unknown) => {
    throw new Error(`the clients do not compile: ${(error as { stdout?: string }).stdout ?? String(error)}`);
  });
});
afterAll(() => {
  rmSync(FOLDER, { recursive: true, force: true });
});

it.each([
  ['openapi-typescript and openapi-fetch', 'openapi-fetch'],
  ['oazapfts', 'oazapfts'],
])('a client that %s made compiles, and does every operation of the document', async (_, name) => {
  const token = await http.token(name, 'plants:read plants:write plants:audit plants:operate plants:erase');
  const { stdout } = await run(process.execPath, [join(FOLDER, `out/${name}.js`), http.service.url, token]);
  const done = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { operation: string });
  const all = Object.values(document.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  );
  expect(done.map(({ operation }) => operation).sort()).toEqual(all.sort());
});
