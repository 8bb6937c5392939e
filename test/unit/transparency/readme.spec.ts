import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from '@jest/globals';
import ts from 'typescript';

it('compiles what the README of the library shows', () => {
  const readme = readFileSync('src/transparency/README.md', 'utf8');
  const shown = Array.from(readme.matchAll(/^```ts\n(.*?)^```$/gms), ([, code = ''], at) => [
    resolve(`src/transparency/example-${at}.ts`),
    `declare const vkey: string, text: string;\n${code}`,
  ]);
  const examples = new Map(shown as [string, string][]);
  const { config } = ts.readConfigFile('tsconfig.json', (file) => readFileSync(file, 'utf8')) as {
    config: unknown;
  };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, '.');
  const host = ts.createCompilerHost(options);
  host.fileExists = (file) => examples.has(file) || ts.sys.fileExists(file);
  host.readFile = (file) => examples.get(file) ?? ts.sys.readFile(file);
  const faults = ts.getPreEmitDiagnostics(
    ts.createProgram([...examples.keys()], { ...options, noEmit: true }, host),
  );
  expect(examples.size).toBeGreaterThan(0);
  expect(faults.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([]);
});
