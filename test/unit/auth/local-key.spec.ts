import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { LocalKeyError, openLocalKey } from '../../../src/http/auth/local-key.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

let folder: string;
let dataDir: string;
let file: string;

beforeEach(() => {
  folder = temporaryFolder();
  dataDir = join(folder, 'a', 'data');
  file = join(dataDir, 'signing-key.json');
});

const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8);

const jwk = async (alg = 'ES256'): Promise<JWK> =>
  exportJWK((await generateKeyPair(alg, { extractable: true })).privateKey);

describe('at first start', () => {
  test('a key is made that only its owner can read', async () => {
    const key = await openLocalKey(dataDir);
    expect(key.created).toBe(true);
    expect(await modeOf(file)).toBe('600');
    expect(await modeOf(dataDir)).toBe('700');
    expect(await readdir(dataDir)).toEqual(['signing-key.json']);
  });

  test('what is made public holds nothing private', async () => {
    const { publicJwk, kid } = await openLocalKey(dataDir);
    expect(Object.keys(publicJwk).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y']);
    expect(publicJwk.kid).toBe(kid);
  });

  test('those who start together agree on one key, which one of them has made', async () => {
    const keys = await Promise.all(Array.from({ length: 20 }, () => openLocalKey(dataDir)));
    expect(new Set(keys.map(({ kid }) => kid)).size).toBe(1);
    expect(keys.filter(({ created }) => created)).toHaveLength(1);
    expect(await readdir(dataDir)).toEqual(['signing-key.json']);
  });
});

describe('at the next start', () => {
  test('it is the same key', async () => {
    const first = await openLocalKey(dataDir);
    const text = await readFile(file, 'utf8');
    const second = await openLocalKey(dataDir);
    expect(second).toMatchObject({ kid: first.kid, created: false });
    expect(await readFile(file, 'utf8')).toBe(text);
  });
});

describe('a key is refused, in one line, and not replaced', () => {
  const refused = async (message: string): Promise<void> => {
    const before = await stat(file);
    const failure = await openLocalKey(dataDir).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(LocalKeyError);
    expect((failure as Error).message).toContain(message);
    expect((failure as Error).message).toContain(file);
    expect((failure as Error).message).not.toMatch(/[\n\r]/);
    expect((await stat(file)).ino).toBe(before.ino);
  };

  const holding = async (text: string, mode = 0o600): Promise<void> => {
    await mkdir(dataDir, { recursive: true });
    await writeFile(file, text);
    await chmod(file, mode);
  };

  test.each([0o640, 0o604, 0o660, 0o601])('when its mode is %o', async (mode) => {
    await holding(JSON.stringify(await jwk()), mode);
    await refused(`run: chmod 600 ${file}`);
  });

  test.each(['', '{', 'null', '"text"', '[]', '{}', '{"kty":"EC","crv":"P-256"}'])(
    'when it holds %j',
    async (text) => {
      await holding(text);
      await refused('is damaged');
    },
  );

  test('when it is cut off', async () => {
    await openLocalKey(dataDir);
    await writeFile(file, (await readFile(file, 'utf8')).slice(0, 100));
    await refused('is damaged');
  });

  test('when it is of another kind', async () => {
    await holding(JSON.stringify(await jwk('EdDSA')));
    await refused('is damaged');
  });

  test('when its private part is no text', async () => {
    await holding(JSON.stringify({ ...(await jwk()), d: 7 }));
    await refused('is damaged');
  });

  test('when only its public part is there', async () => {
    await holding(JSON.stringify({ ...(await jwk()), d: undefined }));
    await refused('only the public part');
  });

  test('when its parts come from two keys', async () => {
    await holding(JSON.stringify({ ...(await jwk()), d: (await jwk()).d }));
    await refused('its parts are no key pair');
  });

  test('when it is a folder', async () => {
    await mkdir(file, { recursive: true });
    await refused('is not a file');
  });
});

test('where no key can be made, one line says so', async () => {
  const blocked = join(folder, 'file');
  await writeFile(blocked, '');
  await expect(openLocalKey(blocked)).rejects.toThrow(/signing key .*: ENOTDIR$/);
  await expect(openLocalKey('/sys/plants')).rejects.toThrow(/^cannot make the signing key .*: [A-Z]+$/);
});
