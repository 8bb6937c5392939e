import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, posix, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Docs } from '../openapi/docs.js';
import { keptDocuments } from '../openapi/documents.js';
import { escaped } from '../problem-page.js';

/** Written by `npm run build:console`. */
const FOLDER = fileURLToPath(new URL('../../../console', import.meta.url));

/** The page that loads everything else; what it has in braces is filled in. */
const PAGE = 'index.html';

/** The module that the page begins with. */
const MAIN = 'main.js';

/** Libraries that are served as their packages hold them, by the names of their imports, and the files that they become. */
const LIBRARIES = {
  preact: 'vendor/preact.js',
  'preact/hooks': 'vendor/preact-hooks.js',
  'preact/jsx-runtime': 'vendor/preact-jsx-runtime.js',
  '@preact/signals': 'vendor/preact-signals.js',
  '@preact/signals-core': 'vendor/preact-signals-core.js',
  oauth4webapi: 'vendor/oauth4webapi.js',
} as const;

/** The library of ML-DSA-44, which is built as the console is: in the folder and by the names that it is imported by. */
const NOBLE = '@noble/';

/** The verifier, which the service and the console share: how its modules are imported, and the folder of the files. */
const VERIFIER = { imported: /^(?:\.\.\/)+src\/transparency\//, folder: 'transparency/' } as const;

/** An import of a library, or of another module, in what SWC and the libraries' own minifiers write. */
const IMPORTED = /\b(from|import)(\s*\(?\s*)(["'])([^"'\n]+)\3/g;

/** Facts that the page is given. */
export interface ConsoleAbout {
  readonly version: string;
  /** The claim of a token that names the owner of plants. */
  readonly ownerClaim: string;
  /** Undefined where tokens are pasted. */
  readonly signIn: { readonly issuer: string; readonly clientId: string } | undefined;
}

/** A file of the console; its path is relative to the folder of all of them. */
interface ConsoleFile {
  readonly path: string;
  readonly body: string;
}

/**
 * The console's files, in memory, by their addresses. Files have an address with a hash of all of them in it, so that
 * browsers keep them for good and never mix those of two versions; the page names that address, and is asked for again.
 * A page of one or two parts, such as /console/plants, is the same document: which pages there are is the browser's to know.
 * Rejects where the console was not built.
 */
export const consoleFiles = async (about: ConsoleAbout): Promise<Docs> => {
  const [page, files] = await Promise.all([readFile(join(FOLDER, PAGE), 'utf8'), readFiles()]);
  const hash = hashOf(files);
  const folder = `_${hash}`;
  const kept = await keptDocuments([
    ...files.map(({ path, body }) => ({ path: `/console/${folder}/${path}`, body: Buffer.from(body) })),
    // Addresses in the page are relative, so that it works behind a proxy that adds a prefix.
    ...PAGE_BASES.map(([path, up]) => ({
      path,
      body: Buffer.from(filledIn(page, `${up}${folder}/`, preloadedBy(files), about)),
    })),
  ]);
  return async ({ url, headers }) => {
    const path = pageOf(url.split('?')[0] ?? '') ?? url;
    const answer = await kept({ url: path, headers });
    if (!answer || !path.startsWith(`/console/${folder}/`)) return answer;
    return {
      ...answer,
      headers: { ...answer.headers, 'cache-control': 'public, max-age=31536000, immutable' },
    };
  };
};

/** Documents that the page is kept as, and how each of them names the folder /console/. */
const PAGE_BASES = [
  ['/console', './console/'],
  ['/console/', './'],
  ['/console/page/', '../'],
] as const;

/** The document of a path that can be a page's; undefined for the paths of files. */
const pageOf = (path: string): string | undefined => {
  if (path === '/console') return path;
  if (/^\/console\/([a-z][a-z0-9-]*)?$/.test(path)) return '/console/';
  return /^\/console\/[a-z][a-z0-9-]*\/[A-Za-z0-9-]*$/.test(path) ? '/console/page/' : undefined;
};

const readFiles = async (): Promise<ConsoleFile[]> => {
  const entries = await readdir(FOLDER, { recursive: true, withFileTypes: true });
  const own = entries
    .filter((entry) => entry.isFile() && /\.(js|css|svg)$/.test(entry.name))
    .map(async (entry) => {
      const file = join(entry.parentPath, entry.name);
      return { path: relative(FOLDER, file).split(sep).join('/'), body: await readFile(file, 'utf8') };
    });
  const libraries = Object.entries(LIBRARIES).map(async ([name, path]) => ({
    path,
    body: await readFile(fileURLToPath(import.meta.resolve(name)), 'utf8'),
  }));
  const files = await Promise.all([...own, ...libraries]);
  return files.map(served).sort((one, other) => (one.path < other.path ? -1 : 1));
};

/** A file as a browser can load it: imports of libraries name their files, and no source map is looked for. */
const served = ({ path, body }: ConsoleFile): ConsoleFile => {
  if (!path.endsWith('.js')) return { path, body };
  const named = body.replace(
    IMPORTED,
    (_, keyword: string, between: string, quote: string, name: string) =>
      `${keyword}${between}${quote}${addressOf(path, name)}${quote}`,
  );
  return { path, body: named.replace(/\n?\/\/# sourceMappingURL=\S+\s*$/, '') };
};

const addressOf = (path: string, name: string): string => {
  if (isLibrary(name)) return addressFrom(path, LIBRARIES[name]);
  if (name.startsWith(NOBLE)) return addressFrom(path, name);
  return VERIFIER.imported.test(name)
    ? addressFrom(path, name.replace(VERIFIER.imported, VERIFIER.folder))
    : name;
};

const isLibrary = (name: string): name is keyof typeof LIBRARIES => Object.hasOwn(LIBRARIES, name);

const addressFrom = (path: string, target: string): string => {
  const address = posix.relative(dirname(path), target);
  return address.startsWith('.') ? address : `./${address}`;
};

/** The modules that the first one imports, directly or not, but for those that are loaded when they are wanted. */
const preloadedBy = (files: readonly ConsoleFile[]): string[] => {
  const bodies = new Map(files.map(({ path, body }) => [path, body]));
  const found = new Set([MAIN]);
  for (const path of found)
    for (const [, keyword, between = '', , name = ''] of bodies.get(path)?.matchAll(IMPORTED) ?? [])
      if (name.startsWith('.') && (keyword === 'from' || !between.includes('(')))
        found.add(posix.join(dirname(path), name));
  return [...found].filter((path) => path !== MAIN && bodies.has(path));
};

const filledIn = (page: string, base: string, preloaded: readonly string[], about: ConsoleAbout): string => {
  const preload = preloaded.map((path) => `<link rel="modulepreload" href="${base}${path}">`).join('\n');
  const { version, ownerClaim, signIn } = about;
  const texts: Readonly<Record<string, string>> = { version, ownerClaim, ...signIn };
  return page.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (name === 'base') return base;
    return name === 'preload' ? preload : escaped(texts[name] ?? '');
  });
};

const hashOf = (files: readonly ConsoleFile[]): string => {
  const sum = createHash('sha256');
  for (const { path, body } of files) sum.update(`${path}\n${body.length}\n`).update(body);
  return sum.digest('hex').slice(0, 16);
};
