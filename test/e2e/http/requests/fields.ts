import { each, plant, post, type Rule } from './table.js';

/** Each kind of request with a header field. */
const everywhere = (field: string): (string | Buffer)[] => [
  `GET /plants\n${field}`,
  `DELETE /plants/7\n${field}`,
  post(plant(), field),
];
const KEY = 'Idempotency-Key';
const LONG = 'a'.repeat(256);
const types = (...parameters: string[]): Buffer[] =>
  parameters.map((more) => post(plant(), `Content-Type: application/json${more}`));

export const FIELDS: readonly Rule[] = [
  [
    'a key is 1 to 255 visible ASCII characters, in double quotes or without (draft-ietf-httpapi-idempotency-key-header)',
    `400 invalid_request ${KEY}`,
    ...[
      '',
      '""',
      '"',
      '"a',
      'a"',
      '"a"b',
      'a b',
      'a\\b',
      '"a\\"b"',
      'ключ',
      LONG,
      `"${LONG}"`,
      '"a", "b"',
    ].map((key) => post(plant(), `${KEY}: ${key}`)),
    `DELETE /plants/7\n${KEY}: `,
    post(plant(), `${KEY}: a`, `${KEY}: b`),
  ],
  [
    'a key is the same with quotes and without',
    '201, 201',
    [post(plant(), `${KEY}: a`), post(plant(), `${KEY}: "a"`)],
  ],
  [
    'a position is one that an earlier answer gave, unchanged',
    '400 invalid_request Plants-Position',
    ...['', 'a b', '../1', '1'.repeat(65), '-1', '1, 2', '00000000000000aa', '٧'].map(
      (position) => `GET /plants\nPlants-Position: ${position}`,
    ),
  ],
  [
    'a position that the log has not reached was given by another service',
    '400 position_unknown Plants-Position',
    ...each(
      `9999999999999999 0000000000009999 ${'9'.repeat(64)}`,
      (at) => `GET /plants\nPlants-Position: ${at}`,
    ),
  ],
  [
    'a client that takes no JSON is told so before anything is written (RFC 9110, 12.5.1)',
    '406 not_acceptable',
    ...[
      'text/html',
      'application/json;q=0',
      'application/problem+json',
      'application/json; charset=utf-16',
      '',
    ].flatMap((accepted) => everywhere(`Accept: ${accepted}`)),
    ...['GET /operations/status', 'POST /operations/rebuilds', 'POST /operations/skips'].map(
      (line) => `${line}\nAuthorization: Bearer {token plants:operate}\nAccept: text/html`,
    ),
    'GET /plants/7/history\nAccept: text/html',
    ...['image/*', 'application/json; charset=utf-8; q=0'].map(
      (accepted) => `GET /plants\nAccept: ${accepted}`,
    ),
  ],
  [
    'JSON may be accepted in many ways',
    '200',
    ...[
      '*/*',
      'application/*',
      'text/html, application/json;q=0.1',
      'text/html, */*;q=0.8',
      'APPLICATION/JSON',
      'application/json;charset=UTF-8',
      'application/json; charset="utf-8"',
    ].map((accepted) => `GET /plants\nAccept: ${accepted}`),
  ],
  [
    'header fields are at most 16 KiB together (RFC 6585, 5)',
    '431 headers_too_large',
    `GET /plants\nX: ${'x'.repeat(17_000)}`,
    `GET /plants\nAuthorization: Bearer ${'x'.repeat(17_000)}`,
    `GET /plants?after=${'x'.repeat(17_000)}`,
  ],
  [
    'a body is application/json, and says so',
    { are: '415 unsupported_media_type', fields: { accept: 'application/json' } },
    post(plant(), '-Content-Type'),
    ...['', 'text/plain', 'application/x-www-form-urlencoded', 'application/problem+json', 'json'].map(
      (type) => post(plant(), `Content-Type: ${type}`),
    ),
    post(plant(), 'Content-Type: application/json, text/plain'),
  ],
  [
    'JSON is UTF-8 (RFC 8259, 8.1): no other charset, however that is written, is read as if it were',
    { are: '415 unsupported_media_type', fields: { accept: 'application/json' } },
    ...types('; charset=iso-8859-1', ';charset="utf-16"', '; charset =utf-16', '; charset= utf-16'),
    ...types("; charset*=utf-8''utf-16", '; charset*0=utf-; charset*1=16', '; charset=utf-8; charset=utf-16'),
    ...types('; charset="utf-8', '; =utf-8', '; charset=', `; a=${'x;'.repeat(40)}"`),
  ],
  [
    'a media type and its charset may be written in any case, and with quotes',
    '201',
    ...types('; charset=utf-8', ';charset=UTF-8', '; charset="UTF-8"', ';'),
    post(plant(), 'Content-Type: Application/JSON'),
  ],
  [
    'a body is not compressed (RFC 9110, 15.5.16)',
    { are: '415 unsupported_media_type', fields: { 'accept-encoding': 'identity' } },
    ...each('gzip br deflate identity,gzip', (coding) => post(plant(), `Content-Encoding: ${coding}`)),
    post(`22\r\n${plant()}\r\n0\r\n\r\n`, 'Transfer-Encoding: gzip, chunked'),
  ],
  ['identity is no compression', '201', post(plant(), 'Content-Encoding: identity')],
  [
    'an expectation is 100-continue (RFC 9110, 10.1.1)',
    '417 expectation_failed',
    post(plant(), 'Expect: the-best'),
  ],
  ['a client that asks whether to go on is told so', '100, 201', post(plant(), 'Expect: 100-continue')],
];
