import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { createGzip } from 'node:zlib';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { type JWK } from 'jose';
import { type AuthConfig } from '../../../src/service/auth-config.js';
import { IssuerKeys, KeysUnavailable } from '../../../src/http/auth/issuer-keys.js';
import { TokenVerifier } from '../../../src/http/auth/verify.js';
import { Problem } from '../../../src/http/problem.js';
import { type Issuer, startIssuer } from '../../support/auth-issuer.js';
import { TokenMint } from '../../support/auth-tokens.js';
import { until } from '../../support/waiting.js';

const local: AuthConfig = {
  kind: 'local',
  issuer: 'urn:plants:local',
  audiences: ['plants'],
  ownerClaim: 'sub',
};
const UNKNOWN = 'The token was signed with a key that the issuer does not have (kid).';
const FORGED = 'The signature does not match.';

let mint: TokenMint;
let next: TokenMint;
beforeAll(async () => {
  mint = await TokenMint.make('one');
  next = await TokenMint.make('two');
});

const servers: Server[] = [];
const issuers: Issuer[] = [];
afterEach(async () => {
  await Promise.all(issuers.splice(0).map((issuer) => issuer.stop()));
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** A verifier with the keys at a URL, on a clock that the test moves. */
const verifying = (url: URL) => {
  let now = 0;
  let retryAfter = NaN;
  const states: (string | undefined)[] = [];
  const keys = new IssuerKeys(
    url,
    (failure) => states.push(failure),
    () => now,
  );
  const verifier = new TokenVerifier(local, keys);
  return {
    keys,
    verifier,
    /** Reports to the log: the reason of a failed fetch, or undefined once keys are fetched again. */
    states,
    /** The Retry-After of the last refusal, in seconds. */
    retryAfter: () => retryAfter,
    later: (seconds: number): void => {
      now += seconds * 1_000;
    },
    verify: (token: string) => verifier.verify(token),
    /** `ok`, why the token is refused, or `unavailable`. */
    outcome: async (token: string): Promise<string> => {
      try {
        await verifier.verify(token);
        return 'ok';
      } catch (error) {
        if (error instanceof KeysUnavailable) {
          retryAfter = error.retryAfterSeconds;
          return 'unavailable';
        }
        if (error instanceof Problem) return error.message;
        throw error;
      }
    },
  };
};

const start = async (...mints: TokenMint[]) => {
  const issuer = await startIssuer(...mints.map(({ publicJwk }) => publicJwk));
  issuers.push(issuer);
  return { issuer, ...verifying(issuer.jwksUrl) };
};

/** An issuer that answers in a way of its own. */
const startOdd = async (listener: RequestListener) => {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return verifying(new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`));
};

/** A token of its own, so that none is remembered. */
let made = 0;
const token = (of = mint, header = {}) => of.token({ jti: `${(made += 1)}` }, header);
const madeUp = () => token(mint, { kid: `made up ${made}` });
const forged = () => token(next, { kid: 'one' });

/** The mint's public key by another name, or by none. */
const named = ({ publicJwk }: TokenMint, kid?: string) => ({ ...publicJwk, kid }) as JWK;

describe('the keys of an issuer', () => {
  test('are fetched once for many tokens that come together', async () => {
    const { issuer, verify } = await start(mint);
    expect(issuer.fetches()).toBe(0);
    const tokens = await Promise.all(['ada', 'bob', 'eve'].map((sub) => mint.token({ sub })));
    const principals = await Promise.all(tokens.map(verify));
    expect(principals.map(({ owner }) => owner)).toEqual(['ada', 'bob', 'eve']);
    expect(issuer.fetches()).toBe(1);
  });

  test.each([undefined, 'same'])('are each tried where several have the name %s', async (kid) => {
    const { generateKeyPairSync } = await import('node:crypto');
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' });
    const { issuer, outcome } = await start();
    issuer.publish({ ...weak, kid } as JWK, named(mint, kid), named(next, kid));
    const third = await TokenMint.make('three');
    expect(await outcome(await token(mint, { kid }))).toBe('ok');
    expect(await outcome(await token(next, { kid }))).toBe('ok');
    expect(await outcome(await next.token({ exp: 1 }, { kid }))).toBe('The token has expired.');
    expect(await outcome(await token(third, { kid }))).toBe(FORGED);
  });

  test('may follow a byte order mark', async () => {
    const { issuer, outcome } = await start();
    issuer.answer(200, `\uFEFF${JSON.stringify({ keys: [mint.publicJwk] })}`);
    expect(await outcome(await token())).toBe('ok');
  });

  test('that are too weak leave the token undecided', async () => {
    const { generateKeyPairSync, sign } = await import('node:crypto');
    const weak = generateKeyPairSync('rsa', { modulusLength: 1024 });
    const { issuer, outcome } = await start();
    issuer.publish({ ...weak.publicKey.export({ format: 'jwk' }), kid: 'weak' });
    const [, payload = ''] = (await mint.token()).split('.');
    const input = `${Buffer.from('{"alg":"RS256","kid":"weak"}').toString('base64url')}.${payload}`;
    const signature = sign('sha256', Buffer.from(input), weak.privateKey).toString('base64url');
    expect(await outcome(`${input}.${signature}`)).toBe('unavailable');
  });
});

describe('a new key of the issuer', () => {
  test('is found with its first token, a second after the last fetch', async () => {
    const { issuer, outcome, later } = await start(mint);
    expect(await outcome(await token())).toBe('ok');
    issuer.publish(mint.publicJwk, next.publicJwk);
    later(1);
    expect(await outcome(await token(next))).toBe('ok');
    expect(issuer.fetches()).toBe(2);
  });

  test('is fetched once, however many tokens bring it', async () => {
    const { issuer, verify, later } = await start(mint);
    await verify(await token());
    issuer.publish(next.publicJwk);
    later(1);
    const tokens = await Promise.all(Array.from({ length: 20 }, () => token(next)));
    await Promise.all(tokens.map(verify));
    expect(issuer.fetches()).toBe(2);
  });

  test('is found within six seconds while somebody makes keys up all the time', async () => {
    const { issuer, outcome, later } = await start(mint);
    await outcome(await token());
    for (let second = 0; second < 30; second += 1) {
      later(1);
      expect(await outcome(await madeUp())).toBe(UNKNOWN);
    }
    issuer.publish(mint.publicJwk, next.publicJwk);
    let seconds = 0;
    for (; (await outcome(await token(next))) !== 'ok'; seconds += 1) {
      later(1);
      await outcome(await madeUp());
    }
    expect(seconds).toBeLessThanOrEqual(6);
  });

  test('takes the place of one that was withdrawn', async () => {
    const { issuer, outcome, later } = await start(mint);
    await outcome(await token());
    issuer.publish(next.publicJwk);
    later(1);
    expect(await outcome(await token(next))).toBe('ok');
    expect(await outcome(await token())).toBe(UNKNOWN);
  });

  test.each([undefined, 'one'])('takes the place of one with the same name (%s)', async (kid) => {
    const { issuer, outcome, later, verifier } = await start();
    issuer.publish(named(mint, kid));
    const before = await token(mint, { kid });
    expect(await outcome(before)).toBe('ok');
    issuer.publish(named(next, kid));
    later(1);
    expect(await outcome(await token(next, { kid }))).toBe('ok');
    expect(issuer.fetches()).toBe(2);
    expect(verifier.known(before)).toBeUndefined();
    expect(await outcome(before)).toBe(FORGED);
  });
});

describe('keys that somebody makes up', () => {
  test.each([
    ['names', madeUp, UNKNOWN],
    ['signatures', forged, FORGED],
  ])(
    '(%s) cause fifteen fetches in a minute at most, and ten in each one after it',
    async (_, make, reason) => {
      const { issuer, outcome, later } = await start(mint);
      await outcome(await token());
      const before = issuer.fetches();
      for (let tick = 0; tick < 120; tick += 1) {
        later(0.5);
        expect(await outcome(await make())).toBe(reason);
      }
      const afterOne = issuer.fetches() - before;
      for (let tick = 0; tick < 120; tick += 1) {
        later(0.5);
        await outcome(await make());
      }
      expect(afterOne).toBeLessThanOrEqual(15);
      expect(issuer.fetches() - before - afterOne).toBeLessThanOrEqual(10);
    },
  );

  test('hammer no issuer that fails: a fetch a second at most, then one in ten seconds; one line in the log', async () => {
    const { issuer, outcome, later, states, retryAfter } = await start(mint);
    issuer.answer(503, 'busy');
    const at: number[] = [];
    for (let tick = 0; tick < 255; tick += 1) {
      const before = issuer.fetches();
      expect(await outcome(await madeUp())).toBe('unavailable');
      if (issuer.fetches() > before) at.push(tick / 4);
      later(0.25);
    }
    expect(at).toEqual([0, 1, 3, 7, 15, 25, 35, 45, 55]);
    expect(retryAfter()).toBe(2); // it was asked 8.5 s ago
    expect(states).toEqual(['it answers 503']);
  });
});

describe('an issuer that cannot be asked', () => {
  test('leaves tokens undecided until it answers again, which the log is told once', async () => {
    const { issuer, outcome, later, states } = await start(mint);
    for (const [status, text] of [
      [503, 'busy'],
      [200, ''],
      [200, '<html>'],
      [200, '{"keys":7}'],
    ] as const) {
      issuer.answer(status, text);
      expect(await outcome(await token())).toBe('unavailable');
      later(10);
    }
    issuer.answer(200, JSON.stringify({ keys: [mint.publicJwk] }));
    expect(await outcome(await token())).toBe('ok');
    expect(issuer.fetches()).toBe(5);
    expect(states).toEqual(['it answers 503', undefined]);
  });

  test('where nobody listens', async () => {
    const { issuer, outcome, states, keys } = await start(mint);
    await issuers.splice(0)[0]?.stop();
    expect(await outcome(await token())).toBe('unavailable');
    expect(states).toEqual(['ECONNREFUSED']);
    expect(keys.fetches).toEqual({ fetched: 0, failed: 1, ageSeconds: undefined });
    expect(issuer.fetches()).toBe(0);
  });

  test('does not stop tokens of keys that are known, for an hour after they were fetched', async () => {
    const { issuer, outcome, later, states, keys } = await start(mint);
    await outcome(await token());
    issuer.answer(503, 'busy');
    for (const seconds of [299, 2, 298, 2, 1_000, 1_000, 998]) {
      later(seconds);
      expect(await outcome(await token())).toBe('ok');
    }
    expect(await outcome(await token(next))).toBe('unavailable'); // it may be a new one
    later(2);
    expect(await outcome(await token())).toBe('unavailable');
    expect(states).toEqual(['it answers 503']);
    issuer.publish(mint.publicJwk);
    issuer.answer(200, JSON.stringify({ keys: [mint.publicJwk] }));
    later(10);
    expect(await outcome(await token())).toBe('ok');
    expect(states).toEqual(['it answers 503', undefined]);
    expect(keys.fetches.ageSeconds).toBe(0);
  });
});

describe('keys that have grown old', () => {
  test('are fetched again after five minutes, while tokens go on', async () => {
    const { issuer, outcome, later, keys } = await start(mint);
    await outcome(await token());
    issuer.publish(next.publicJwk);
    later(300);
    expect(await outcome(await token())).toBe('ok'); // with the keys that are known
    await until(() => keys.fetches.fetched === 2);
    expect(await outcome(await token())).toBe(UNKNOWN);
  });

  test('verify nothing after ten minutes before the issuer was asked: a key that it withdrew is gone', async () => {
    const { issuer, outcome, later } = await start(mint);
    await outcome(await token());
    issuer.publish(next.publicJwk);
    later(600);
    expect(await outcome(await token())).toBe(UNKNOWN);
  });

  test.each([300, 600])(
    'end the tokens of a withdrawn key too, %d seconds after they were fetched',
    async (age) => {
      const { issuer, outcome, later, keys, verifier } = await start(mint);
      const before = await token();
      await outcome(before);
      issuer.publish(next.publicJwk);
      later(age);
      expect(verifier.known(before) !== undefined).toBe(age < 600);
      await until(() => keys.fetches.fetched === 2);
      expect(verifier.known(before)).toBeUndefined();
      expect(await outcome(before)).toBe(UNKNOWN);
    },
  );

  test('end no tokens where they are the same, nor while the issuer does not answer', async () => {
    const { issuer, outcome, later, keys, verifier } = await start(mint);
    const before = await token();
    await outcome(before);
    later(300);
    await outcome(await token());
    await until(() => keys.fetches.fetched === 2);
    expect(verifier.known(before)).toBeDefined();
    issuer.answer(503, 'busy');
    later(600);
    expect(await outcome(before)).toBe('ok');
    later(2_999);
    expect(verifier.known(before)).toBeDefined();
    later(1);
    expect(await outcome(before)).toBe('unavailable');
  });
});

describe('a fetch is bounded', () => {
  test('in bytes, also where they are compressed', async () => {
    let sent = 0;
    const { outcome, states } = await startOdd((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      const gzip = createGzip();
      gzip.pipe(response);
      const spaces = Buffer.alloc(64 * 1024, ' ');
      const more = (): void => {
        while (!response.destroyed && sent < 1e9 && gzip.write(spaces)) sent += spaces.length;
        sent += spaces.length;
        if (!response.destroyed) gzip.once('drain', more);
      };
      more();
    });
    expect(await outcome(await token())).toBe('unavailable');
    expect(states).toEqual(['its key set is larger than 262144 bytes']);
    expect(sent).toBeLessThan(1e9);
  });

  test('in time, also where the answer has begun', async () => {
    const { outcome, states } = await startOdd((_request, response) => {
      response.writeHead(200).write('{"keys":['); // and no more
    });
    expect(await outcome(await token())).toBe('unavailable');
    expect(states).toEqual(['no answer within 5 s']);
  });

  test('to the URL that was set: no redirect is followed', async () => {
    let asked = 0;
    const { outcome, states } = await startOdd((_request, response) => {
      asked += 1;
      response.writeHead(302, { location: '/elsewhere?secret=1' }).end();
    });
    expect(await outcome(await token())).toBe('unavailable');
    expect(asked).toBe(1);
    expect(states).toEqual(['it answers 302, and redirects are not followed']);
  });

  test('and one that ends before its end is no key set', async () => {
    const { outcome, states } = await startOdd((_request, response) => {
      response.writeHead(200, { 'content-length': 1_000 }).write('{"keys":[');
      setImmediate(() => response.destroy());
    });
    expect(await outcome(await token())).toBe('unavailable');
    expect(states).toHaveLength(1);
    expect(states[0]).toMatch(/^[A-Z_]+$|^the request failed$/);
  });
});
