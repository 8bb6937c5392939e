import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { loggedPath } from '../../../src/http/logged-path.js';
import { TokenMint } from '../../support/auth-tokens.js';

describe('the path of a request in the log', () => {
  it.each([
    '/',
    '/plants',
    '/plants/-9007199254740991',
    '/plants/7/history',
    '/operations/rebuilds/0191f0a0-7b1c-4c5e-9d7f-3a2b1c0d9e8f',
    '/log/tile/entries/x001/x234/067.p/128',
    '/docs/swagger-ui-standalone-preset.js',
    '/.well-known/openid-configuration',
    '/plants/%2e%2e',
    '*',
  ])('%s is shown whole', (path) => {
    expect(loggedPath(path)).toBe(path);
  });

  it.each([
    ['/plants?limit=7', '/plants'],
    ['/plants#secret', '/plants'],
    ['/plants?access_token=secret#secret', '/plants'],
    [`/plants/${'1'.repeat(21)}`, '/plants/…'],
    ['/reset/5f2b8c1d9e7a4f3b6c0d8e1a2b3c4d5e', '/reset/…'],
    ['/callback/Zm9v%2FYmFyYmF6cXV4cXV1eA/rest', '/callback/…'],
    ['/callback/dGhpcyBpcyBub3QgZm9y/IGxvZ3M', '/callback/dGhpcyBpcyBub3QgZm9y/IGxvZ3M'], // short enough to be a name
    ['/<script>', '/…'],
    ['/a b', '/…'],
    ['/a/b/c/d/e/f/g/h/i/j', '/a/b/c/d/e/f/g/h/…'],
    ['http://ada:secret@plants/plants/7?x', '/plants/7'],
    ['http://ada:secret@plants', '…'],
    ['ada:secret@plants:80', '…'],
    ['', '…'],
  ])('%s is %s', (url, shown) => {
    expect(loggedPath(url)).toBe(shown);
  });

  it('holds no token, wherever one stands', async () => {
    const mint = await TokenMint.make('one');
    for (const at of [
      '/TOKEN',
      '/plants/TOKEN',
      '/a/TOKEN/b',
      '/plants;TOKEN',
      '/x=TOKEN',
      '//TOKEN',
      'TOKEN',
      '/%TOKEN',
    ])
      for (const token of [await mint.token(), (await mint.token()).replaceAll('.', '/')]) {
        const shown = loggedPath(at.replace('TOKEN', token));
        for (const part of token.split(/[./]/)) expect(shown).not.toContain(part);
      }
  });

  it('is bounded, and told by the first 1,024 characters', () => {
    const text = fc.oneof(
      fc.string({ unit: anyCharacter, maxLength: 2_000 }),
      fc.constantFrom('/', '-', 'a', 'a-', '%', '.', '?', '#', '//a').map((part) => part.repeat(2_000)),
    );
    fc.assert(
      fc.property(text, (rest) => {
        const path = loggedPath(`/${rest}`);
        expect(path.length).toBeLessThanOrEqual(8 * 126);
        expect(loggedPath(`/${rest}`.slice(0, 1_024))).toBe(path);
      }),
    );
  });
});
