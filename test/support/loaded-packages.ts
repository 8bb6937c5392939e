import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { temporaryFolder } from './temporary-folder.js';

/** Looks on as a process and its threads import: what CommonJS requires in turn is not seen. */
export interface LoadedPackages {
  /** The settings of the process. */
  readonly settings: Readonly<Record<string, string>>;
  /** The packages of which something was imported so far, a name for each file. */
  readonly names: () => string[];
}

export const watchLoading = (): LoadedPackages => {
  const folder = temporaryFolder();
  const [hooks, script, list] = ['hooks.mjs', 'watch.mjs', 'loaded.txt'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  writeFileSync(list, '');
  writeFileSync(
    hooks,
    `import { appendFileSync } from 'node:fs';
    export const load = (url, context, next) => {
      appendFileSync(${JSON.stringify(list)}, url + '\\n');
      return next(url, context);
    };`,
  );
  writeFileSync(
    script,
    `import { register } from 'node:module'; register(${JSON.stringify(pathToFileURL(hooks).href)});`,
  );
  return {
    settings: { NODE_OPTIONS: `--import ${script}` },
    names: () =>
      [...readFileSync(list, 'utf8').matchAll(/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//g)].map(
        ([, name = '']) => name,
      ),
  };
};
