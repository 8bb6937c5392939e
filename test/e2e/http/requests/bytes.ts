import { each, plant, post, type Request, type Rule } from './table.js';

/** A connection that the service closes, whatever its client asks for. */
const kept = (text: string | Buffer): string => text.toString().replace('\n', '\n-Connection\n');
const withFields = (...fields: string[]): string => ['DELETE /plants/7', '-Connection', ...fields].join('\n');
const BODY = plant({ name: '"n"', tag: '"t"', id: '10' }); // 30 bytes
const CHUNKS = `1e\r\n${BODY}\r\n0\r\n\r\n`;
const posted = (body: string, ...fields: string[]): string => kept(post(body, ...fields));
const hosted = (line: string, ...hosts: string[]): string[] => hosts.map((host) => `${line}\nHost: ${host}`);

const REFUSED = '400 malformed_request';

/** A rule for bytes that are no HTTP request: the connection is closed. */
const refused = (why: string, ...requests: Request[]): Rule => [
  why,
  { are: REFUSED, fields: { connection: 'close' } },
  ...requests,
];

export const BYTES: readonly Rule[] = [
  refused(
    'what is no HTTP/1.1 is answered, and ends its connection',
    { exactly: 'hello\r\n\r\n' },
    { exactly: Buffer.from([0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]) }, // a TLS handshake
    { exactly: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' },
  ),
  refused(
    'the version is HTTP/1.1 or HTTP/1.0 (RFC 9112, 2.3)',
    ...each('HTTP/9.9 HTTP/2.0 HTTP/0.9', (version) => kept(`DELETE /plants/7 ${version}\n`)),
  ),
  refused(
    'a method is known, and in capitals (RFC 9110, 9.1)',
    ...each('FOO delete', (method) => kept(`${method} /plants/7\n`)),
  ),
  refused(
    'a target has no space, NUL or other character that is not encoded (RFC 9112, 3.2)',
    ...['/plants/ 7', '/plants/7\0', '/plants/１'].map((target) => kept(`DELETE ${target}\n`)),
  ),
  [
    'a target has no fragment, no user name, and a host (RFC 9112, 3.2)',
    REFUSED,
    'DELETE /plants/7#now',
    'GET /plants#',
    'GET http://ada:secret@plants/plants',
    'GET http:///plants',
  ],
  ['a target may be absolute', '200', 'GET http://plants/plants?limit=1'],
  ['HTTP/1.0 needs no host', '200', 'GET /plants HTTP/1.0\n-Host'],
  [
    'HTTP/1.1 has one Host (RFC 9112, 3.2)',
    REFUSED,
    'DELETE /plants/7\n-Host',
    'DELETE /plants/7\nHost: plants\nHost: other',
  ],
  [
    'a Host is a name or an address, and a port (RFC 3986, 3.2.2)',
    REFUSED,
    ...hosted(
      'GET /plants',
      '',
      'a b',
      'a/b',
      'a@b',
      'ada:secret@plants',
      'plants:x',
      'plants:65536',
      'plants:1:2',
    ),
    ...hosted(
      'DELETE /plants/7 HTTP/1.0',
      'http://x',
      '[::1',
      '::1',
      '[::g]',
      '[1]',
      'plants%zz',
      'a"b',
      'pl\xE4nts',
      '\t',
    ),
  ],
  [
    'a Host may be any of those',
    '200',
    ...hosted(
      'GET /plants',
      'plants',
      'PLANTS.example:65535',
      '127.0.0.1:',
      '[::1]:3000',
      'pl_ants',
      'a%20b',
    ),
  ],
  refused(
    'a header field has a name of letters and no control character (RFC 9112, 5)',
    withFields('X Y: 1'),
    withFields('X-Y : 1'),
    withFields('Idempotency-Key: a\0b'),
    withFields('X-A: a', ' Authorization: b\0'),
    withFields('X-A: a\n X-B: \x01'),
    { exactly: 'DELETE /plants/7 HTTP/1.1\r\nHost: x\r\nX-A: a\nX-B: \x01\r\n\r\n' },
  ),
  [
    'there is one Content-Type (RFC 9110, 5.3)',
    REFUSED,
    post(BODY, 'Content-Type: application/json', 'content-type: text/plain'),
  ],
  refused(
    'a body has one length, or chunks, which are well-formed and the last coding (RFC 9112, 6)',
    posted(BODY, 'Content-Length: x'),
    posted(BODY, 'Content-Length: 30', 'Content-Length: 31'),
    posted(CHUNKS, 'Content-Length: 30', 'Transfer-Encoding: chunked'),
    posted(`zz\r\n${BODY}\r\n0\r\n\r\n`, 'Transfer-Encoding: chunked'),
    posted(`2\r\n${BODY}\r\n0\r\n\r\n`, 'Transfer-Encoding: chunked'),
    posted(CHUNKS, 'Transfer-Encoding: chunked, gzip'),
  ),
  refused(
    'HTTP/1.0 has no chunks (RFC 9112, 6.1)',
    post(CHUNKS, 'Transfer-Encoding: chunked', 'Connection: keep-alive')
      .toString()
      .replace('\n', ' HTTP/1.0\n'),
  ),
  refused('a body is as long as it says', {
    exactly: `POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n${BODY}`,
    ends: true,
  }),
  [
    'a client that says it sends no more is answered',
    '200',
    { exactly: 'GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n', ends: true },
  ],
  [
    'what is broken spoils neither the answer nor the write before it',
    `201, ${REFUSED}`,
    [post(BODY), { exactly: 'garbage\r\n' }],
    [post(BODY), posted('zz', 'Transfer-Encoding: chunked')],
  ],
  [
    'requests of one connection take place in the order in which they were sent',
    { are: '201, 204, 201, 200, 405 method_not_allowed, 204, 200', text: '[]' },
    [post(), 'DELETE /plants/7', post(), 'GET /plants', 'PUT /plants', 'DELETE /plants/7', 'GET /plants'],
  ],
  [
    'a plant is there once, and gone once',
    '201, 409 plant_exists, 204, 404 plant_not_found',
    [post(), post(), 'DELETE /plants/7', 'DELETE /plants/7'],
  ],
];
