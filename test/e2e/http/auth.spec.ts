import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startIssuer } from '../../support/auth-issuer.js';
import { type BadTokens, TokenMint } from '../../support/auth-tokens.js';
import { HttpClient, problemIn, type Sent } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

let http: HttpClient;
let mint: TokenMint;
let bad: BadTokens;
beforeAll(async () => {
  http = new HttpClient(await TestService.start());
  mint = await TokenMint.local(http.service.dataDir);
  bad = await mint.bad();
  Object.values<string>({ ...bad }).forEach((token) => http.keepSecret(token));
  await http.service.ready();
});
afterAll(async () => {
  await http.finish();
});

/** One request of each kind, all of them good but for the token. */
const EACH: readonly Sent[] = [
  { method: 'POST', body: '{"name":"n","tag":"t","id":1}', headers: { 'content-type': 'application/json' } },
  { method: 'GET' },
  { method: 'GET', path: '/plants?limit=0' },
  { method: 'DELETE', path: '/plants/1' },
];
const [CREATE = {}, LIST = {}, , DELETE = {}] = EACH;

describe('a request without a token', () => {
  it.each<[what: string, headers: Record<string, string>]>([
    ['no Authorization', {}],
    ['an empty one', { authorization: '' }],
    ['Basic', { authorization: 'Basic YWRhOmFkYQ==' }],
    ['DPoP', { authorization: 'DPoP abc' }],
    ['a scheme that only begins like Bearer', { authorization: 'Bearerish abc' }],
    ['a token in another header', { 'x-access-token': 'abc' }],
    ['a token in a cookie', { cookie: 'access_token=abc' }],
  ])('%s: 401, and the challenge names no error', async (_what, headers) => {
    for (const sent of EACH) {
      const answer = await http.send({ ...sent, headers: { ...sent.headers, ...headers } });
      problemIn(answer, 401, 'token_missing');
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="plants"');
    }
    expect(await http.service.eventCount()).toBe(0);
  });

  it('is told nothing about the rest of it', async () => {
    const sent = http.send({ ...CREATE, body: '{"name": 7' });
    await http.refused(sent, 401, 'token_missing');
  });
});

describe('a token in the wrong place', () => {
  it('two Authorization headers: 400, in either order and spelling', async () => {
    const token = await http.token();
    const raw = async (...lines: string[]): Promise<void> => {
      const bytes = ['DELETE /plants/1 HTTP/1.1', 'Host: x', 'Connection: close', ...lines, '', ''].join(
        '\r\n',
      );
      const [answer] = await http.exchange(bytes);
      if (!answer) throw new Error('no answer');
      problemIn(answer, 400, 'token_repeated');
      expect(answer.headers['www-authenticate']).toContain('error="invalid_request"');
    };
    await raw(`Authorization: Bearer ${token}`, 'Authorization: Bearer abc');
    await raw('Authorization: Bearer abc', `AUTHORIZATION: Bearer ${token}`);
    await raw(`Authorization: Bearer ${token}`, `authorization: Bearer ${token}`);
    await raw(`Authorization: Bearer ${token}`, 'Authorization:');
    expect(await http.service.eventCount()).toBe(0);
  });

  it.each(['access_token', 'access%5Ftoken', '%61ccess_token'])('in the query as %s: 400', async (name) => {
    const token = await http.token();
    for (const authorization of [{}, { token }]) {
      const sent = http.send({ path: `/plants?${name}=${token}`, ...authorization });
      await http.refused(sent, 400, 'token_misplaced');
    }
  });

  it('in the query under another name: nothing known, and nothing repeated', async () => {
    const token = await http.token();
    await http.refused(http.send({ path: `/plants?token=${token}` }), 401, 'token_missing');
    await http.refused(http.list(`?token=${token}`), 400, 'invalid_request', ['?token']);
  });

  it('in a form, as RFC 6750 once allowed: 401', async () => {
    const sent = http.send({
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: `access_token=${await http.token()}`,
    });
    await http.refused(sent, 401, 'token_missing');
  });

  it('in the body beside a plant: an unknown field, and not repeated', async () => {
    const token = await http.token();
    const plant = { name: 'n', tag: 't', id: 1, access_token: token };
    await http.refused(http.create(plant), 400, 'invalid_request', ['/access_token']);
    const broken = `${JSON.stringify(plant).slice(0, -1)},`;
    await http.refused(http.create(broken), 400, 'malformed_json');
  });

  it.each([
    'Bearer',
    'Bearer ',
    'Bearer a b',
    'Bearer a,b',
    'Bearer "abc"',
    'Bearer\tabc',
    'bearer =',
    'Bearer é',
  ])('%j: 400', async (authorization) => {
    const sent = http.send({ headers: { authorization: Buffer.from(authorization).toString('latin1') } });
    await http.refused(sent, 400, 'token_malformed');
  });

  it.each(['bearer', 'BEARER', 'Bearer  '])('the scheme may be spelled %j', async (scheme) => {
    const answer = await http.send({ headers: { authorization: `${scheme} ${await http.token()}` } });
    expect(answer.status).toBe(200);
  });
});

describe('a token that does not hold', () => {
  it.each<[kind: keyof BadTokens, reason: RegExp]>([
    ['expired', /expired/],
    ['notYetValid', /not valid yet/],
    ['otherIssuer', /another issuer/],
    ['otherAudience', /not meant for this service/],
    ['withoutExpiry', /lacks a claim \(exp\)/],
    ['withoutSubject', /lacks a claim \(sub\)/],
    ['unsigned', /algorithm/],
    ['hmacWithPublicKey', /algorithm/],
    ['otherKey', /signature/],
    ['tamperedPayload', /signature/],
    ['tamperedSignature', /signature/],
    ['noJwt', /malformed/],
  ])('%s: 401', async (kind, reason) => {
    for (const sent of EACH) {
      const answer = await http.send({ ...sent, token: bad[kind] });
      expect(problemIn(answer, 401, 'token_invalid').detail).toMatch(reason);
      expect(answer.headers['www-authenticate']).toMatch(
        /^Bearer realm="plants", error="invalid_token", error_description="[^"\\]+"$/,
      );
    }
    expect(await http.service.eventCount()).toBe(0);
  });

  it.each<[what: string, claims: Record<string, unknown>]>([
    ['an owner with control characters', { sub: 'a\nb' }],
    ['an empty owner', { sub: '' }],
    ['an owner that is no text', { sub: 7 }],
    ['an owner that is too long', { sub: 'x'.repeat(256) }],
    ['scopes that are no text', { scope: 7 }],
    ['an expiry that is no number', { exp: 'tomorrow' }],
  ])('%s: 401', async (_what, claims) => {
    const token = http.keepSecret(await mint.token(claims));
    await http.refused(http.list('', { token }), 401, 'token_invalid');
  });
});

describe('a token without the scope', () => {
  it.each<[what: string, sent: Sent, scope: string, needed: string]>([
    ['reading only, creating', CREATE, 'plants:read', 'plants:write'],
    ['reading only, deleting', DELETE, 'plants:read', 'plants:write'],
    ['writing only, listing', LIST, 'plants:write', 'plants:read'],
    ['auditing, listing', LIST, 'plants:audit', 'plants:read'],
    ['operating, creating', CREATE, 'plants:operate', 'plants:write'],
    ['nothing, listing', LIST, '', 'plants:read'],
    ['a scope in capitals', LIST, 'PLANTS:READ', 'plants:read'],
    ['a scope that only begins alike', LIST, 'plants:readonly', 'plants:read'],
  ])('%s: 403', async (_what, sent, scope, needed) => {
    const token = http.keepSecret(await mint.token({ scope }));
    const before = await http.service.eventCount();
    const answer = await http.send({ ...sent, token });
    problemIn(answer, 403, 'scope_missing');
    expect(answer.headers['www-authenticate']).toBe(
      `Bearer realm="plants", error="insufficient_scope", error_description="this needs a token with the scope ${needed}", scope="${needed}"`,
    );
    expect(await http.service.eventCount()).toBe(before);
  });

  it('is refused before its body is read', async () => {
    const token = await http.token('ada', 'plants:read');
    await http.refused(http.create('{"name": 7', { token }), 403, 'scope_missing');
  });

  it('a token without any scope claim may read and write', async () => {
    const token = http.keepSecret(await mint.token({ sub: 'bob' }));
    const answers = [
      await http.send({ ...CREATE, token }),
      await http.send({ ...LIST, token }),
      await http.send({ ...DELETE, token }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 200, 204]);
  });

  it.each(['scope', 'scp'])('%s may hold several', async (claim) => {
    const token = http.keepSecret(await mint.token({ [claim]: 'openid plants:read' }));
    expect((await http.send({ ...LIST, token })).status).toBe(200);
  });
});

describe('what needs no token', () => {
  it.each(['/health/live', '/health/ready', '/openapi.json', '/docs'])('%s', async (path) => {
    expect((await http.send({ path })).status).toBe(200);
  });
});

describe('tokens of an issuer', () => {
  it('are verified by its keys, and 503 while those cannot be had', async () => {
    const theirs = await TokenMint.make('theirs', { iss: 'https://issuer.example', aud: 'garden' });
    const issuer = await startIssuer(theirs.publicJwk);
    issuer.answer(500, 'down');
    const service = await TestService.start({
      AUTH_ISSUER: 'https://issuer.example',
      AUTH_AUDIENCE: 'garden',
      AUTH_JWKS_URL: issuer.jwksUrl.href,
      AUTH_OWNER_CLAIM: 'org',
    });
    const client = new HttpClient(service);
    try {
      await service.ready();
      expect(service.stderr).toBe(''); // no local key, so nothing to tell of one
      const token = client.keepSecret(await theirs.token({ org: 'kew', sub: 'ada' }));
      await client.refused(client.send({ ...CREATE, token }), 503, 'keys_unavailable');
      expect(await client.logged({ level: 'warn', reason: 'it answers 500' })).toMatchObject({
        msg: "the issuer's keys cannot be fetched; known keys are used for an hour",
      });

      issuer.publish(theirs.publicJwk);
      issuer.answer(200, JSON.stringify({ keys: [theirs.publicJwk] }));
      // It is asked again after a second, as Retry-After says.
      let created = await client.send({ ...CREATE, token });
      while (created.status === 503) created = await client.send({ ...CREATE, token });
      expect(created.status).toBe(201);
      const colleague = client.keepSecret(await theirs.token({ org: 'kew', sub: 'bob' }));
      expect((await client.list('', { token: colleague })).text).toBe('[{"name":"n","tag":"t"}]');

      const local = await TokenMint.local(service.dataDir);
      const foreign = client.keepSecret(await local.token({ org: 'kew' }));
      await client.refused(client.list('', { token: foreign }), 401, 'token_invalid');
      client.expectNoSecrets();
    } finally {
      await service.remove();
      await issuer.stop();
    }
  });
});
