import { type Claims, type TokenMint } from '../../../support/auth-tokens.js';
import { type Rule } from './table.js';

const LONG = 'x'.repeat(4_000);

const TARGETS = [
  'GET /plants',
  'POST /plants',
  'DELETE /plants/1',
  'POST /operations/rebuilds',
  'GET /metrics',
  'OPTIONS *',
];

const FIELDS = [
  ...['Host:', 'Host: ,', `Host: ${LONG}`, 'X: y'],
  ...[
    'Accept: /',
    'Accept: */*;q=nan',
    'Accept: application/json;q=2',
    'Accept: ";";,"',
    `Accept: ${'a/b,'.repeat(1_000)}`,
  ],
  ...['Prefer: "', 'Prefer: ="', 'Prefer: respond-async="a, receipt', `Prefer: ${'",'.repeat(2_000)}`],
  ...['Content-Type:', 'Content-Type: ;', 'Content-Type: a/b; c="', 'Content-Type: \x80'],
  ...['0', '+1', '-1', '1, 1', '99999999999999999999'].map((length) => `Content-Length: ${length}`),
  ...['chunked', 'chunked, chunked', 'x', ''].map((coding) => `Transfer-Encoding: ${coding}`),
  ...[
    'Expect: 100-continue',
    'Upgrade: websocket\nConnection: upgrade',
    'Upgrade: h2c\nHTTP2-Settings: AA',
    'Connection: host',
  ],
  ...[
    'Range: bytes=0-',
    'If-Match: *',
    'If-None-Match: *',
    'If-Modified-Since: x',
    'TE: trailers',
    'Trailer: Host',
    'Max-Forwards: 0',
  ],
  ...[
    'X-Request-Id: \x00',
    `X-Request-Id: ${LONG}`,
    'X-Correlation-Id: \xFF',
    'traceparent: 00',
    'X-Forwarded-For: x',
    'Cookie: =;',
  ],
  ...['Idempotency-Key: "', 'Last-Event-ID: x', `Authorization: Bearer ${LONG}`],
  ...[': x', 'X', '\x01: x', 'X: \x7F', ' folded', `${LONG}: x`, '__proto__: x', 'constructor: x'],
];

const VALUES: readonly unknown[] = [
  ...[null, true, 7.5, 1e308, '', LONG, '\u0000', '\uD800', 'ключ', '__proto__', [null], { toString: 1 }],
];
const PARAMETERS = 'alg typ kid crit b64 jwk jku x5c x5u cty zip enc __proto__'.split(' ');
const CLAIMS = 'iss aud exp nbf iat sub scope scp client_id azp jti __proto__'.split(' ');

const list = (token: string): string => `GET /plants\nAuthorization: Bearer ${token}`;
const base64url = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A list with a token that is signed with these, or has the signature of another one where that cannot be. */
const oddly =
  (claims: Claims, parameters: Claims = {}) =>
  async (mint: TokenMint): Promise<string> =>
    list(
      await mint.token(claims, parameters).catch(async () => {
        const [, ...rest] = (await mint.token()).split('.');
        return [base64url({ alg: 'ES256', ...parameters }), ...rest].join('.');
      }),
    );

/** Parts that may stand where those of a token do. */
const PARTS = ['', 'e30', 'bnVsbA', 'IiI', '%', 'ключ', 'e30=', '0', '1', '2'];

/** Requests that no good client sends: each is answered, none with 5xx, and only acknowledged writes are written. */
export const ODD: readonly Rule[] = [
  ...FIELDS.map((field): Rule => [
    `at every path, with and without a token: ${JSON.stringify(field).slice(0, 60)}`,
    'any',
    ...TARGETS.flatMap((target) => [`${target}\n${field}`, `${target}\n-Authorization\n${field}`]),
  ]),
  ...PARAMETERS.map((name): Rule => [
    `a token whose header has any ${name}`,
    'any',
    ...VALUES.map((value) => oddly({}, { [name]: value })),
  ]),
  ...CLAIMS.map((name): Rule => [
    `a token that claims any ${name}`,
    'any',
    ...VALUES.map((value) => oddly({ [name]: value })),
  ]),
  [
    'a token of any parts',
    'any',
    ...PARTS.flatMap((first) =>
      PARTS.map((second) => async (mint: TokenMint) => {
        const parts = (await mint.token()).split('.');
        const part = (text: string): string => parts[/^\d$/.test(text) ? Number(text) : -1] ?? text;
        return list(`${part(first)}.${part(second)}.${parts[2] ?? ''}`);
      }),
    ),
  ],
];
