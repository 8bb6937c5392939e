import { type BadTokens, type Claims, TokenMint } from '../../../support/auth-tokens.js';
import { each, plant, post, type Rule } from './table.js';

const PLANT = plant({ id: '1' });

/** A request of each kind, all of them good but for what is said of their tokens. */
const everywhere = (authorization: string): string[] => [
  `POST /plants\n${authorization}\n\n${PLANT}`,
  `GET /plants\n${authorization}`,
  `DELETE /plants/7\n${authorization}`,
];
const list = (token: string): string => `GET /plants\nAuthorization: Bearer ${token}`;

/** A list with a token that is signed as it is. */
const signed =
  (claims: Claims, header: Claims = {}, line = 'GET /plants') =>
  async (mint: TokenMint): Promise<string> =>
    `${line}\nAuthorization: Bearer ${await mint.token({ sub: 'signed', ...claims }, header)}`;

/** A list with a good token that is changed. */
const changed =
  (change: (token: string) => string) =>
  async (mint: TokenMint): Promise<string> =>
    list(change(await mint.token()));

const CHALLENGE = 'Bearer realm="plants"';
const none = { are: '401 token_missing', fields: { 'www-authenticate': CHALLENGE } };

/** A token is not valid, and the client is told why, in the answer and in its challenge (RFC 6750, 3). */
const invalid = (reason: string, ...requests: Rule[2][]): Rule => [
  `a token is not valid: ${reason}`,
  {
    are: '401 token_invalid',
    detail: new RegExp(reason.replaceAll(/[()]/g, '\\$&'), 'i'),
    fields: {
      'www-authenticate': `${CHALLENGE}, error="invalid_token", error_description="${reason}"`,
    },
  },
  ...requests,
];

/** One of the bad tokens, with each kind of request. */
const bad = (kind: keyof BadTokens): Rule[2][] =>
  everywhere('Authorization: Bearer BAD').map(
    (request) => async (mint: TokenMint) => request.replace('BAD', (await mint.bad())[kind]),
  );

/** A token lacks a scope, which is named (RFC 6750, 3.1). */
const lacking = (scope: string, ...requests: Rule[2][]): Rule => [
  `this needs the scope ${scope}`,
  {
    are: '403 scope_missing',
    fields: {
      'www-authenticate': `${CHALLENGE}, error="insufficient_scope", error_description="this needs a token with the scope ${scope}", scope="${scope}"`,
    },
  },
  ...requests,
];
const withScope = (line: string, ...scopes: string[]): Rule[2][] =>
  scopes.map((scope) => signed({ scope }, {}, line));

const OPERATIONS = [
  'GET /operations',
  'GET /operations/status',
  'POST /operations/rebuilds',
  'DELETE /operations/rebuilds/7',
  'POST /operations/rollback',
  'POST /operations/skips',
];
const inBody = async (mint: TokenMint): Promise<string> =>
  plant({ access_token: `"${await mint.token({ sub: 'in a body' })}"` });

export const TOKENS: readonly Rule[] = [
  [
    'a request without a bearer token is challenged, and the challenge names no error (RFC 6750, 3)',
    none,
    ...everywhere('-Authorization'),
    ...[
      'Authorization: ',
      'Authorization: Basic YWRhOmFkYQ==',
      'Authorization: DPoP abc',
      'Authorization: Bearerish abc',
      '-Authorization\nX-Access-Token: abc',
      '-Authorization\nCookie: access_token=abc',
    ].map((field) => `GET /plants\n${field}`),
  ],
  [
    'a stranger is told nothing about the rest of a request',
    none,
    post('{"name": 7', '-Authorization'),
    'GET /plants?limit=0\n-Authorization',
    'DELETE /plants/x\n-Authorization',
    ...OPERATIONS.map((line) => `${line}\n-Authorization`),
  ],
  [
    'a header field has one token and nothing else (RFC 6750, 2.1)',
    {
      are: '400 token_malformed',
      fields: {
        'www-authenticate': new RegExp(`^${CHALLENGE}, error="invalid_request", error_description="`),
      },
    },
    ...[
      'Bearer',
      'Bearer ',
      'Bearer a b',
      'Bearer a,b',
      'Bearer "abc"',
      'Bearer\tabc',
      'bearer =',
      'Bearer é',
      'Bearer, a',
    ].map((value) => `GET /plants\nAuthorization: ${value}`),
  ],
  [
    'the word Bearer may be in any case (RFC 9110, 11.1)',
    '200',
    ...['bearer', 'BEARER', 'Bearer '].map((word) => `GET /plants\nAuthorization: ${word} {token}`),
  ],
  [
    'there is one Authorization, even if both hold the same good token: others might read the other one',
    { are: '400 token_repeated', fields: { 'www-authenticate': /error="invalid_request"/ } },
    ...[
      ['Authorization: Bearer {token}', 'Authorization: Bearer abc'],
      ['Authorization: Bearer abc', 'AUTHORIZATION: Bearer {token}'],
      ['Authorization: Bearer {token}', 'authorization: Bearer {token}'],
      ['Authorization: Bearer {token}', 'Authorization:'],
      [
        ...Array.from({ length: 2_100 }, () => 'a:'),
        'Authorization: Bearer {token}',
        'Authorization: Bearer x',
      ],
    ].flatMap((fields) => ['GET /plants', 'DELETE /plants/7'].map((line) => [line, ...fields].join('\n'))),
  ],
  [
    'a token is never in the query, however its name is written (RFC 9700, 4.3.2)',
    { are: '400 token_misplaced', fields: { 'www-authenticate': /error="invalid_request"/ } },
    ...each(
      'access_token= limit=1&access_token= access%5Ftoken= %61ccess_tok%65n= x=%&access_token= ?access_token=&access_token=',
      (query) => `GET /plants?${query}{token}`,
    ),
    'GET /plants?access_token={token}\n-Authorization',
  ],
  [
    'a token in the query under another name is a parameter that is not known',
    '400 invalid_request ?token',
    'GET /plants?token={token}',
  ],
  [
    'a token in the query under another name is not looked for',
    none,
    'GET /plants?token={token}\n-Authorization',
  ],
  [
    'a token in a path is in no answer and no line of the log',
    '404 route_not_found',
    ...each('/{token}/plants /callback/{token} /plants/7/{token}', (path) => `GET ${path}\n-Authorization`),
    async (mint) => `GET /callback/${(await mint.token()).replaceAll('.', '/')}\n-Authorization`,
  ],
  [
    'a token in place of an id is in no answer and no line of the log',
    '400 invalid_request id',
    'DELETE /plants/{token}',
  ],
  [
    'a token in a fragment, or in place of a user name, is in no answer and no line of the log',
    '400 malformed_request',
    'GET /plants#access_token={token}',
    'GET http://{token}@plants/plants',
  ],
  [
    'a token in a body is not looked at, as RFC 6750, 2.2 once allowed',
    none,
    async (mint) => `POST /plants\n-Authorization\n\n${await inBody(mint)}`,
    async (mint) =>
      `POST /plants\n-Authorization\nContent-Type: application/x-www-form-urlencoded\n\naccess_token=${await mint.token()}`,
  ],
  [
    'a token in a body is a field that is not known, and is not repeated',
    '400 invalid_request /access_token',
    async (mint) => `POST /plants\n\n${await inBody(mint)}`,
  ],
  [
    'a token in a body that is broken is not repeated',
    '400 malformed_json',
    async (mint) => `POST /plants\n\n${(await inBody(mint)).slice(0, -1)},`,
  ],
  invalid('the token has expired', ...bad('expired')),
  invalid('the token is not valid yet (nbf)', ...bad('notYetValid')),
  invalid('the token comes from another issuer (iss)', ...bad('otherIssuer')),
  invalid('the token is not meant for this service (aud)', ...bad('otherAudience'), signed({ aud: [] })),
  ...(['exp', 'sub', 'iss', 'aud'] as const).map((claim) =>
    invalid(`the token lacks a claim (${claim})`, signed({ [claim]: undefined })),
  ),
  invalid(
    'the algorithm of the signature is not allowed (alg)',
    ...bad('unsigned'),
    ...bad('hmacWithPublicKey'),
  ),
  invalid(
    'the signature does not match',
    ...bad('otherKey'),
    ...bad('tamperedPayload'),
    ...bad('tamperedSignature'),
    // One that carries the key for it (RFC 8725, 3.10).
    async (mint) => {
      const other = await TokenMint.make(mint.publicJwk.kid ?? '');
      return list(await other.token({}, { jwk: other.publicJwk, jku: 'https://evil.example/jwks' }));
    },
  ),
  invalid('a claim of the token has the wrong type (exp)', signed({ exp: '2999-01-01' })),
  invalid('a claim of the token has the wrong type (nbf)', signed({ nbf: 'now' })),
  invalid('a claim of the token must not be empty (sub)', signed({ sub: '' })),
  invalid('a claim of the token must be a string (sub)', signed({ sub: 7 })),
  invalid('a claim of the token must not hold control characters (sub)', signed({ sub: 'a\u0000b' })),
  invalid('a claim of the token must be well-formed Unicode (sub)', signed({ sub: '\uDC00' })),
  invalid('a claim of the token must be at most 255 characters long (sub)', signed({ sub: 'x'.repeat(256) })),
  invalid('a claim of the token must be a string (client_id)', signed({ client_id: ['a'] })),
  invalid(
    'a claim of the token has the wrong type (scope)',
    ...[{ scope: 7 }, { scope: null }, { scp: ['plants:read', 7] }].map((claims) => signed(claims)),
  ),
  invalid(
    'the token is not an access token (typ)', // RFC 8725, 3.11
    ...['id+jwt', 'dpop+jwt', 'logout+jwt', '', 7, null, true, {}, ['JWT']].map((typ) => signed({}, { typ })),
  ),
  invalid(
    'the token is malformed',
    list('abc'),
    // An extension that is not known (RFC 7515, 4.1.11).
    changed((token) => {
      const [, payload, signature] = token.split('.');
      const header = { alg: 'ES256', crit: ['strange'], strange: 1 };
      return `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${payload}.${signature}`;
    }),
    // A second spelling: padding, another part, or bits that a decoder ignores (RFC 4648, 3.5).
    ...['=', '==', '.', '~'].map((end) => changed((token) => token + end)),
    changed((token) => {
      const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
      return token.slice(0, -1) + (letters[letters.indexOf(token.at(-1) ?? '') ^ 1] ?? '');
    }),
  ),
  lacking(
    'plants:write',
    ...withScope('POST /plants', 'plants:read', 'plants:operate', ''),
    ...withScope('DELETE /plants/7', 'plants:read'),
  ),
  lacking(
    'plants:read',
    ...withScope('GET /plants', 'plants:write', 'plants:audit', '', 'PLANTS:READ', 'plants:readonly'),
    ...withScope('GET /plants/7/history', 'plants:audit'),
    signed({ scp: [] }),
    signed({ scope: '', scp: ['plants:read'] }),
  ),
  lacking('plants:audit', ...withScope('GET /audit/events', 'plants:read plants:write plants:operate')),
  lacking(
    'plants:operate',
    ...OPERATIONS,
    ...OPERATIONS.flatMap((line) => withScope(line, 'plants:read plants:write plants:audit')),
  ),
  [
    'a scope is looked at before a body is read',
    '403 scope_missing',
    'POST /plants\nAuthorization: Bearer {token plants:read}\n\n{"name": 7',
  ],
  [
    'a token without a claim of scopes may read and write',
    '201, 200, 204',
    [post(), 'GET /plants', 'DELETE /plants/7'],
  ],
  [
    'a claim may hold several scopes, also such as are not known here',
    '200',
    signed({ scope: 'openid  plants:read ' }),
    signed({ scp: 'openid plants:read' }),
    signed({ scp: ['plants:read'] }),
  ],
];
