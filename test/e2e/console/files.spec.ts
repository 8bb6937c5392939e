import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TestService } from '../../support/service.js';

/** The most that a page may take over the wire, in bytes, gzipped, with all that it loads then or later. */
const MOST_BYTES = 60 * 1024;

let service: TestService;
beforeAll(async () => {
  service = await TestService.start();
});
afterAll(() => service.remove());

const ask = async (path: string, headers: Readonly<Record<string, string>> = {}) => {
  const response = await fetch(new URL(path, service.url), { headers });
  const bytes = Buffer.from(await response.arrayBuffer());
  return { response, bytes, text: bytes.toString('utf8') };
};

/** The paths of all files that a file imports or links to, at once or later. */
const loadedBy = (address: string, text: string): string[] =>
  [...text.matchAll(/(?:\bfrom|\bimport\s*\(?|src=|href=)\s*["'](\.[^"']+)["']/g)].map(
    ([, name = '']) => new URL(name, new URL(address, service.url)).pathname,
  );

/** True for the module of a page: a browser loads it when the page is opened. */
const isPage = (address: string): boolean => address.endsWith('-page.js');

/** All files that the document, or another file, leads to, with what is sent of each; `leads` says which are followed. */
const everything = async (
  from = '/console',
  leads: (address: string) => boolean = () => true,
): Promise<Map<string, string>> => {
  const found = new Map<string, string>();
  const waiting = [from];
  for (let address = waiting.pop(); address !== undefined; address = waiting.pop()) {
    if (found.has(address)) continue;
    const { response, text } = await ask(address);
    expect([address, response.status]).toEqual([address, 200]);
    found.set(address, text);
    waiting.push(...loadedBy(address, text).filter(leads));
  }
  return found;
};

describe('the files of the console', () => {
  it('are all there, without an import that only a bundler understands', async () => {
    const files = await everything();
    expect([...files.keys()].filter((path) => path.endsWith('.js')).length).toBeGreaterThan(15);
    for (const [path, text] of files) {
      const bare = [...text.matchAll(/\b(?:from|import)\s*\(?\s*["'](@?[a-z][\w/-]*)["']/g)].map(
        ([, name]) => name,
      );
      expect([path, bare]).toEqual([path, []]);
    }
  });

  it(`take at most ${MOST_BYTES} bytes, gzipped, whichever page is opened`, async () => {
    const sizes = new Map<string, number>();
    for (const path of (await everything()).keys()) {
      // Loaded only for a sign-in at an issuer, before the page, and for whoever trusts a policy or a key of ML-DSA-44.
      const isForFew = /\/vendor\/oauth4webapi\.js$|\/transparency\/(policy|ml-dsa)\.js$|\/@noble\//.test(
        path,
      );
      // Node's fetch undoes the coding: the length is that of what was sent.
      const { response } = await ask(path, { 'accept-encoding': 'gzip' });
      sizes.set(path, isForFew ? 0 : Number(response.headers.get('content-length')));
    }
    const sum = (paths: Iterable<string>): number =>
      [...new Set(paths)].reduce((bytes, path) => bytes + (sizes.get(path) ?? NaN), 0);
    const core = await everything('/console', (address) => !isPage(address));
    const pages = [...sizes.keys()].filter(isPage);
    expect(pages.length).toBeGreaterThan(0);
    for (const page of pages) {
      const bytes = sum([...core.keys(), ...(await everything(page, (address) => !isPage(address))).keys()]);
      process.stdout.write(`\n${page.split('/').at(-1) ?? ''} takes ${bytes} bytes over the wire.`);
      expect(bytes).toBeLessThan(MOST_BYTES);
    }
    process.stdout.write(`\nAll pages together take ${sum(sizes.keys())} bytes.\n`);
  });

  it('may load nothing from elsewhere, nor run anything inline', async () => {
    const { response, text } = await ask('/console');
    expect(response.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    );
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('referrer-policy')).toBe('no-referrer');
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(text).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/);
  });

  it('are kept by browsers for good, the page only until it changes', async () => {
    const page = await ask('/console');
    expect(page.response.headers.get('cache-control')).toBe('no-cache');
    const again = await ask('/console', { 'if-none-match': page.response.headers.get('etag') ?? '' });
    expect(again.response.status).toBe(304);
    const [script = ''] = loadedBy('/console', page.text).filter((path) => path.endsWith('/main.js'));
    expect((await ask(script)).response.headers.get('cache-control')).toBe(
      'public, max-age=31536000, immutable',
    );
  });

  it.each(['/console', '/console/', '/console/plants', '/console/plants/7', '/console/plants?after=x'])(
    'are found from %s',
    async (path) => {
      const { response, text } = await ask(path);
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
      const [script = ''] = loadedBy(path, text).filter((one) => one.endsWith('/main.js'));
      expect((await ask(script)).response.status).toBe(200);
    },
  );

  it.each([
    '/console/_0123456789abcdef/main.js',
    '/console/main.js',
    '/console/a/b/c',
    '/console/../package.json',
  ])('are nothing else: %s', async (path) => {
    const { response } = await ask(path);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      404,
      'application/problem+json; charset=utf-8',
    ]);
  });
});

it('is not there with CONSOLE=off', async () => {
  const without = await TestService.start({ CONSOLE: 'off' });
  expect((await fetch(`${without.url}/console`)).status).toBe(404);
  await without.remove();
});
