import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { loadConfig } from '../../../src/service/config.js';
import { openLocalKey } from '../../../src/http/auth/local-key.js';
import { localKeys, TokenVerifier } from '../../../src/http/auth/verify.js';
import { signToken, type TokenRequest, TokenRefused } from '../../../src/cli/token.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

let dataDir: string;
const now = new Date('2026-01-01T00:00:00Z');

beforeEach(() => {
  dataDir = temporaryFolder();
});

const sign = (request: Partial<TokenRequest> = {}, env: Record<string, string> = {}) =>
  signToken(loadConfig({ DATA_DIR: dataDir, ...env }), { owner: 'ada', expires: '30d', ...request }, now);

describe('a signed token', () => {
  test('is one that the service accepts', async () => {
    const { token, expiresAt } = await sign({ owner: 'Zoë 🌱', clientId: 'cli' });
    const keys = localKeys(await openLocalKey(dataDir));
    const verifier = new TokenVerifier(loadConfig({}).auth, keys, undefined, () => now.getTime());
    expect(await verifier.verify(token)).toEqual({
      owner: 'Zoë 🌱',
      subject: 'Zoë 🌱',
      clientId: 'cli',
      scopes: new Set(['plants:read', 'plants:write']),
      expiresAt: now.getTime() / 1000 + 30 * 86_400,
    });
    expect(expiresAt).toEqual(new Date('2026-01-31T00:00:00Z'));
  });

  test('names its key, its kind and itself', async () => {
    const { token } = await sign();
    const { kid } = await openLocalKey(dataDir);
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'ES256', typ: 'at+jwt', kid });
    expect(decodeJwt(token).jti).not.toBe(decodeJwt((await sign()).token).jti);
  });

  test('has the scopes that were asked for, each once', async () => {
    const { token } = await sign({ scope: ' plants:audit  plants:read plants:audit' });
    expect(decodeJwt(token).scope).toBe('plants:audit plants:read');
  });

  test('is meant for the audience of the settings', async () => {
    expect(decodeJwt((await sign({}, { AUTH_AUDIENCE: 'garden' })).token).aud).toBe('garden');
  });

  test('comes with a new key when there was none', async () => {
    expect(await sign()).toMatchObject({ keyCreated: true, keyFile: join(dataDir, 'signing-key.json') });
    expect(await sign()).toMatchObject({ keyCreated: false });
  });

  test.each([
    ['90s', 90],
    ['15m', 900],
    ['12h', 43_200],
    ['365d', 31_536_000],
  ])('lives for %s', async (expires, seconds) => {
    expect((await sign({ expires })).expiresAt.getTime() - now.getTime()).toBe(seconds * 1000);
  });
});

describe('refused before a key is made', () => {
  const refused = async (request: Partial<TokenRequest>, message: string, env = {}): Promise<void> => {
    const failure = await sign(request, env).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(TokenRefused);
    expect((failure as Error).message).toContain(message);
    expect(await readdir(dataDir)).toEqual([]);
  };

  test.each([
    ['', 'the owner must not be empty'],
    ['a\nb', 'the owner must not hold control characters'],
    ['a\u0085b', 'the owner must not hold control characters'],
    ['\uD800', 'the owner must be well-formed Unicode'],
    ['x'.repeat(256), 'the owner must be at most 255 characters long'],
    ['🌱'.repeat(256), 'the owner must be at most 255 characters long'],
  ])('the owner %j', (owner, message) => refused({ owner }, message));

  test('an owner as long as allowed is none of them', async () => {
    expect(decodeJwt((await sign({ owner: '🌱'.repeat(255) })).token).sub).toHaveLength(510);
  });

  test('a client id that is none', () => refused({ clientId: '' }, 'the client id must not be empty'));

  test.each(['', ' ', 'plants:all', 'plants:read,plants:write', 'plants:read plants:admin', 'PLANTS:READ'])(
    'the scope %j',
    (scope) => refused({ scope }, 'the scope must be one or more of plants:read plants:write'),
  );

  test.each([
    '',
    '0d',
    '366d',
    '8761h',
    '30',
    'd',
    '-1d',
    '1.5h',
    '30D',
    '1w',
    ' 30d',
    '99999999999s',
    '30d\n',
  ])('the duration %j', (expires) =>
    refused({ expires }, 'the time until it expires must be like 15m, 12h or 30d, at most 365d'),
  );

  test('everything, where an issuer makes the tokens', () =>
    refused({}, 'tokens come from the issuer', {
      AUTH_ISSUER: 'https://id.example',
      AUTH_AUDIENCE: 'plants',
      AUTH_JWKS_URL: 'https://id.example/jwks',
    }));
});
