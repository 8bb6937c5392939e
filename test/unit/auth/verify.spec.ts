import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { type AuthConfig } from '../../../src/service/auth-config.js';
import { type Problem, sentence } from '../../../src/http/problem.js';
import { localKeys, TokenVerifier } from '../../../src/http/auth/verify.js';
import { type BadTokens, type Claims, TokenMint } from '../../support/auth-tokens.js';

const local: AuthConfig = {
  kind: 'local',
  issuer: 'urn:plants:local',
  audiences: ['plants'],
  ownerClaim: 'sub',
};

const mint = await TokenMint.make('one');
const bad = await mint.bad();

/** A verifier that knows the mint's key, with a clock that the test sets. */
const verifier = (
  auth: Partial<AuthConfig> = {},
  now?: () => number,
  known = mint,
  cacheBytes?: number,
): TokenVerifier => new TokenVerifier({ ...local, ...auth } as AuthConfig, keysOf(known), cacheBytes, now);

const keysOf = ({ publicJwk }: TokenMint) => localKeys({ publicJwk } as Parameters<typeof localKeys>[0]); // the rest of a local key signs

const refused = async (verifying: Promise<unknown>, message: string): Promise<void> => {
  const failure = await verifying.then(
    () => undefined,
    (error: unknown) => error as Problem,
  );
  expect([failure?.code, failure?.message, failure?.cause]).toEqual([
    'token_invalid',
    sentence(message),
    undefined,
  ]);
};

describe('a good token', () => {
  test('says who asks', async () => {
    const exp = Math.floor(Date.now() / 1000) + 60;
    expect(await verifier().verify(await mint.token({ sub: 'ada', exp, client_id: 'garden-app' }))).toEqual({
      owner: 'ada',
      subject: 'ada',
      clientId: 'garden-app',
      scopes: new Set(['plants:read', 'plants:write']),
      expiresAt: exp,
    });
  });

  test.each(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES384', 'ES512', 'EdDSA', 'Ed25519'])(
    'may be signed with %s',
    async (alg) => {
      const other = await TokenMint.make('other', {}, alg);
      const principal = await verifier({}, undefined, other).verify(await other.token());
      expect(principal.owner).toBe('ada');
    },
  );

  test.each(['JWT', 'jwt', 'at+jwt', 'application/at+jwt', undefined])(
    'may have the type %s',
    async (typ) => {
      const token = await mint.token({}, typ === undefined ? {} : { typ });
      expect((await verifier().verify(token)).owner).toBe('ada');
    },
  );

  test('may be meant for several services', async () => {
    expect((await verifier().verify(await mint.token({ aud: ['animals', 'plants'] }))).owner).toBe('ada');
  });

  test.each([
    ['plants', 'ada'],
    ['pots', 'ada'],
    [['animals', 'pots'], 'ada'],
    ['plants,pots', undefined],
  ])('may be meant for any one audience of the settings: %j', async (aud, owner) => {
    const verifying = verifier({ audiences: ['plants', 'pots'] }).verify(await mint.token({ aud }));
    expect((await verifying.catch(() => undefined))?.owner).toBe(owner);
  });

  test('may name its client as OpenID Connect does', async () => {
    expect((await verifier().verify(await mint.token({ azp: 'app' }))).clientId).toBe('app');
  });
});

describe('a bad token is refused, and again when it comes again', () => {
  const reasons: Record<keyof BadTokens, string> = {
    expired: 'the token has expired',
    notYetValid: 'the token is not valid yet (nbf)',
    otherIssuer: 'the token comes from another issuer (iss)',
    otherAudience: 'the token is not meant for this service (aud)',
    withoutExpiry: 'the token lacks a claim (exp)',
    withoutSubject: 'the token lacks a claim (sub)',
    unsigned: 'the algorithm of the signature is not allowed (alg)',
    hmacWithPublicKey: 'the algorithm of the signature is not allowed (alg)',
    otherKey: 'the signature does not match',
    tamperedPayload: 'the signature does not match',
    tamperedSignature: 'the signature does not match',
    noJwt: 'the token is malformed',
  };
  test.each(Object.entries(reasons) as [keyof BadTokens, string][])('%s', async (kind, reason) => {
    const one = verifier();
    await refused(one.verify(bad[kind]), reason);
    expect(one.known(bad[kind])).toBeUndefined();
    await refused(one.verify(bad[kind]), reason);
  });
});

test('made-up tokens are looked at one in a turn of the event loop, so that others are answered in between', async () => {
  const unknown = await TokenMint.make('two');
  const tokens = await Promise.all([1, 2, 3].map((number) => unknown.token({ sub: `stranger ${number}` })));
  const one = verifier();
  let turn = 0;
  const refusedIn: number[] = [];
  for (const token of tokens) void one.verify(token).catch(() => refusedIn.push(turn));
  for (; refusedIn.length < tokens.length; turn += 1) await nextTurn();
  expect(new Set(refusedIn).size).toBe(tokens.length);
});

describe('clocks may differ by 30 seconds', () => {
  const at = 1_800_000_000;
  const clock = (seconds: number) => () => (at + seconds) * 1000;

  test.each([
    [29, true],
    [30, false],
  ])('%d seconds after it expired', async (seconds, good) => {
    const verifying = verifier({}, clock(seconds)).verify(await mint.token({ exp: at }));
    await (good ? expect(verifying).resolves.toBeDefined() : refused(verifying, 'the token has expired'));
  });

  test.each([
    [-30, true],
    [-31, false],
  ])('%d seconds before it is valid', async (seconds, good) => {
    const token = await mint.token({ nbf: at, exp: at + 60 });
    const verifying = verifier({}, clock(seconds)).verify(token);
    await (good
      ? expect(verifying).resolves.toBeDefined()
      : refused(verifying, 'the token is not valid yet (nbf)'));
  });
});

describe('the owner', () => {
  test('is what the chosen claim says; who acts stays the subject', async () => {
    const token = await mint.token({ sub: 'ada', tenant: 'garden' });
    const principal = await verifier({ ownerClaim: 'tenant' }).verify(token);
    expect(principal).toMatchObject({ owner: 'garden', subject: 'ada' });
  });

  const cases: [Claims, string][] = [
    [{}, 'the token lacks a claim (tenant)'],
    [{ tenant: '' }, 'a claim of the token must not be empty (tenant)'],
    [{ tenant: ['garden'] }, 'a claim of the token must be a string (tenant)'],
    [{ tenant: 'garden', sub: undefined }, 'the token lacks a claim (sub)'],
  ];
  test.each(cases)('with the claims %j is nobody', async (claims, reason) => {
    await refused(verifier({ ownerClaim: 'tenant' }).verify(await mint.token(claims)), reason);
  });

  test('is not what every object has', async () => {
    await refused(
      verifier({ ownerClaim: 'constructor' }).verify(await mint.token()),
      'a claim of the token must be a string (constructor)',
    );
  });
});

describe('a verified token', () => {
  test('is known from then on', async () => {
    const one = verifier();
    const token = await mint.token();
    expect(one.known(token)).toBeUndefined();
    const principal = await one.verify(token);
    expect(one.known(token)).toBe(principal);
    expect(await one.verify(token)).toBe(principal);
  });

  test('is forgotten at the second in which it expires', async () => {
    let now = 1_800_000_000_000;
    const one = verifier({}, () => now);
    const token = await mint.token({ exp: now / 1000 + 60 });
    const principal = await one.verify(token);
    now += 89_999;
    expect(one.known(token)).toBe(principal);
    now += 1;
    expect(one.known(token)).toBeUndefined();
    await refused(one.verify(token), 'the token has expired');
  });
});

describe('the cache of verified tokens', () => {
  test('holds as many as its bytes allow, and forgets the one that was not used for longest', async () => {
    const one = verifier({}, undefined, mint, 10_000);
    const tokens = await Promise.all(Array.from({ length: 30 }, (_, n) => mint.token({ jti: `${n}` })));
    const used = tokens[0] ?? '';
    for (const token of tokens) {
      await one.verify(token);
      expect(one.known(used)).toBeDefined();
      expect(one.cache.bytes).toBeLessThanOrEqual(10_000);
    }
    const { entries, evictions } = one.cache;
    expect(entries).toBeGreaterThan(5);
    expect(entries + evictions).toBe(30);
    expect(tokens.map((token) => one.known(token) !== undefined)).toEqual(
      tokens.map((_, n) => n === 0 || n > 30 - entries),
    );
  });

  test('counts long names', async () => {
    const one = verifier();
    await one.verify(await mint.token({ sub: 'a' }));
    const { bytes } = one.cache;
    await one.verify(await mint.token({ sub: 'a'.repeat(200) }));
    expect(one.cache.bytes - 2 * bytes).toBeGreaterThan(4 * 199);
  });
});
