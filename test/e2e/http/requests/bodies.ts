import { gzipSync } from 'node:zlib';
import { each, plant, post, type Rule } from './table.js';

const LIMIT = 16_384;
const FEW_WORDS = /^.{1,2499}$/s;

const bytes = (...parts: (string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)));
const ids = (...spellings: string[]): Buffer[] => spellings.map((id) => post(plant({ id })));
const names = (...values: string[]): Buffer[] => values.map((name) => post(plant({ name })));
const chunked = (body: string): Buffer =>
  post(`${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`, 'Transfer-Encoding: chunked');
const operating = (path: string, body: string, ...fields: string[]): string =>
  [`POST /operations/${path}`, 'Authorization: Bearer {token plants:operate}', ...fields, '', body].join(
    '\n',
  );
/** Each operation that takes a body, with this one. */
const operations = (body: string, ...fields: string[]): string[] =>
  ['rebuilds', 'rollback', 'skips'].map((path) => operating(path, body, ...fields));

/** A rule for bodies that are not JSON. */
const broken = (why: string, detail: RegExp, ...bodies: (string | Buffer)[]): Rule => [
  why,
  { are: '400 malformed_json', detail },
  ...bodies.map((body) => post(body)),
];

/** A rule for plants with faults at these pointers. */
const faulty = (why: string, pointers: string, ...bodies: string[]): Rule => [
  why,
  `400 invalid_request ${pointers}`,
  ...bodies.map((body) => post(body)),
];

/** A rule for plants whose name is refused. */
const misnamed = (why: string, ...values: string[]): Rule => [
  why,
  '400 invalid_request /name',
  ...names(...values),
];

export const BODIES: readonly Rule[] = [
  ['there is a body', { are: '400 malformed_json', detail: /empty/ }, 'POST /plants'],
  broken('a body is whole', /^It ends too early\.$/, ' \n', '{"name":"Aloe vera"', '['),
  broken('a refusal says where JSON went wrong', /line 1, column 9/, '{"name":}'),
  broken(
    'a body is JSON as RFC 8259 has it, and nothing around it',
    /column/,
    "{'name':'x'}",
    '{"name":"x",}',
    `/* a plant */ ${plant()}`,
    `${plant()} x`,
    `${plant()}${plant({ id: '8' })}`,
    'plant',
    'name=Aloe&tag=x&id=7',
    plant({ name: String.raw`"\x41"` }),
  ),
  broken(
    'a number is one of JSON',
    /column/,
    ...['NaN', '-Infinity', '0x10', '007', '+1', '.5', '1.', '1e'].map((id) => plant({ id })),
  ),
  broken('a string holds no control character', /./, plant({ name: '"a\nb"' }), plant({ name: '"a\0b"' })),
  broken(
    'a body is UTF-8, every byte of it',
    /^It is not UTF-8\.$/,
    bytes('{"name":"', [0xff], '"}'),
    bytes('{"name":"', [0xc0, 0xaf], '"}'),
    bytes('{"name":"', [0xed, 0xa0, 0x80], '"}'),
    bytes('{"name":"', [0xf0, 0x9f, 0x8c], '"}'),
    Buffer.from(plant({ name: '"Caña índica"' }), 'latin1'),
  ),
  broken(
    'a body is what it says, or is not read: neither UTF-16 nor compressed',
    /./,
    Buffer.from(plant(), 'utf16le'),
    gzipSync(plant()),
  ),
  [
    'nothing of a body is repeated, since it may hold a secret',
    { are: '400 malformed_json', text: /^(?!.*hunt)/s },
    ...['hunter2', '{"password":hunter2}', '["hunter2"', '{"a":"hunter2\n"}'].map((body) => post(body)),
  ],
  [
    'a body may be as deep as it is long, and is refused',
    '400 malformed_json',
    post('['.repeat(16_000)),
    post(`${'{"a":'.repeat(2_700)}1${'}'.repeat(2_700)}`),
    post(plant({ name: '['.repeat(8_000) + ']'.repeat(8_000) })),
  ],
  faulty('a plant is a JSON object', 'body', ...['null', 'true', '7', '"plant"', '[]'], `[${plant()}]`),
  faulty('a plant has a name, a tag and an id', '/name /tag /id', '{}'),
  faulty(
    'each field has its type',
    '/name /tag /id',
    ...['null', '{}', '[]', 'true'].map((any) => plant({ name: any, tag: any, id: any })),
    plant({ name: '1', tag: '1', id: '"7"' }),
  ),
  faulty(
    'all that is wrong is named',
    '/name /id /colour',
    plant({ name: '""', id: '1.5', colour: '"red"' }),
  ),
  faulty('names of fields are in small letters', '/name /tag /Name /TAG', '{"Name":"n","TAG":"t","id":7}'),
  ...['colour', 'toString', 'constructor', '__proto__'].map((name) =>
    faulty(
      `a field that is not known is not overlooked: ${name}`,
      `/${name}`,
      `${plant().slice(0, -1)},"${name}":{"id":7}}`,
    ),
  ),
  faulty('a prototype gives a plant nothing', '/name /tag /id /__proto__', `{"__proto__":${plant()}}`),
  faulty('a pointer is escaped (RFC 6901)', '/a~1b~0c', plant({ 'a/b~c': '1' })),
  [
    'an id is an integer that a double holds exactly, and not another one near by',
    '400 invalid_request /id',
    ...ids(
      '9007199254740992',
      '9007199254740993',
      '-9007199254740992',
      '18446744073709551616',
      '1e400',
      '1e-400',
    ),
    ...ids('-0', '-0.0e5', '1.5', '1e-1', '7.0000000000000000001', '1'.repeat(10_000)),
  ],
  ...[
    ['9007199254740991', '9007199254740991'],
    ['-9007199254740991', '-9007199254740991'],
    ['0e5', '0'],
    ['1.0', '1'],
    ['2.50e1', '25'],
    ['1E+2', '100'],
  ].map(([spelling = '', id = '']): Rule => [
    `an integer may be spelled in any way that JSON has: ${spelling}`,
    { are: '201, 204', fields: { 'content-length': undefined } },
    [post(plant({ id: spelling })), `DELETE /plants/${id}`],
  ]),
  misnamed('a name is not empty', '""'),
  misnamed(
    'a name has at most 200 characters as Unicode counts them',
    ...['a'.repeat(201), '🌱'.repeat(201), `e${'\u0301'.repeat(200)}`, 'a'.repeat(15_000)].map(
      (text) => `"${text}"`,
    ),
  ),
  faulty('a tag has at most 200 characters', '/tag', plant({ tag: `"${'a'.repeat(201)}"` })),
  misnamed(
    'a name is well-formed Unicode: half a surrogate pair is no character',
    String.raw`"a\ud83cb"`,
    String.raw`"\udf31"`,
    String.raw`"\udf31\ud83c"`,
  ),
  misnamed(
    'a name holds no control character',
    String.raw`"a\u0000"`,
    String.raw`"a\nb"`,
    String.raw`"\t"`,
    '"a\u007f"',
    '"a\u0085"',
  ),
  faulty(
    'a tag is well-formed Unicode without control characters, as a name is',
    '/tag',
    plant({ tag: String.raw`"a\nb"` }),
    plant({ tag: String.raw`"\ud83c"` }),
  ),
  faulty(
    'a name occurs once in an object: others would read the first, or the last (RFC 8259, 4)',
    '/name',
    '{"name":"n","name":"n","tag":"t","id":7}',
    '{"name":"n","name":"m","tag":"t","id":7}',
  ),
  faulty(
    'a name occurs once in an object, also where it is escaped',
    '/id',
    String.raw`{"name":"n","tag":"t","id":7,"\u0069d":8}`,
  ),
  faulty(
    'a name occurs once in an object, also deep inside',
    '/more/0/a',
    plant({ more: '[{"a":1,"a":2}]' }),
  ),
  faulty('a name occurs once in an object, also __proto__', '/__proto__', '{"__proto__":1,"__proto__":2}'),
  faulty(
    'every name that occurs twice is named',
    '/name /tag /id',
    `${plant().slice(0, -1)},${plant().slice(1)}`,
  ),
  [
    'a refusal has few words, however much is wrong',
    { are: '400 invalid_request any', text: FEW_WORDS },
    post(plant(Object.fromEntries(Array.from({ length: 1_200 }, (_, index) => [`f${index}`, '1'])))),
    post(`{${'"a":1,"b":1,'.repeat(1_200)}"a":1}`),
    post(plant({ ['x'.repeat(15_000)]: '1' })),
  ],
  [
    'a refusal says what each field must be',
    {
      are: '400 invalid_request /name /tag /id',
      detail: /\/tag: must be a string/,
      text: /must not hold control characters: U\+0085 at character 2.*must be a string.*must be a number that a double holds exactly/s,
    },
    post(plant({ name: '"a\u0085b"', tag: 'null', id: '9007199254740993' })),
  ],
  [
    'a body of 16 KiB is read, with a length or in chunks',
    '201',
    post(plant().padEnd(LIMIT)),
    chunked(plant().padEnd(LIMIT)),
  ],
  [
    'a body of more than 16 KiB is not read',
    { are: '413 body_too_large', detail: new RegExp(String(LIMIT)) },
    post(plant().padEnd(LIMIT + 1)),
    chunked(plant().padEnd(LIMIT + 1)),
    `DELETE /plants/7\n\n${plant().padEnd(LIMIT + 1)}`,
  ],
  [
    'the longest plant fits, every character of it escaped',
    { are: '201', text: `{"name":"${'🌱'.repeat(200)}","tag":"${'🌱'.repeat(200)}"}` },
    post(
      plant({
        name: `"${String.raw`\ud83c\udf31`.repeat(200)}"`,
        tag: `"${String.raw`\ud83c\udf31`.repeat(200)}"`,
        id: '-9007199254740990',
      }),
    ),
  ],
  [
    'there is no body where none belongs',
    '400 invalid_request body',
    ...['{}', ' '].map((body) => `DELETE /plants/7\n\n${body}`),
    'DELETE /operations/rebuilds/7\nAuthorization: Bearer {token plants:operate}\n\n{}',
  ],
  ['an operation has a body of JSON', '400 malformed_json', ...operations('{')],
  [
    'a body of an operation says that it is JSON',
    '415 unsupported_media_type',
    ...operations('{}', 'Content-Type: text/plain'),
  ],
  [
    'a body of an operation is an object',
    '400 invalid_request body',
    ...operations('[]'),
    ...operations('null'),
  ],
  [
    'with a key that is none, an operation is not begun',
    '400 invalid_request Idempotency-Key',
    ...operations('{}', 'Idempotency-Key: '),
  ],
  [
    'what an operation does not know is not overlooked',
    '400 invalid_request /more',
    operating('rebuilds', '{"more":1}'),
    operating('rollback', '{"more":1}'),
    operating('skips', '{"position":"1","reason":"a test","more":1}'),
  ],
  [
    'a rate is an integer of at least 1',
    '400 invalid_request /rate',
    ...each('null 0 1.5 9007199254740992 "5"', (rate) => operating('rebuilds', `{"rate":${rate}}`)),
    operating('rebuilds', '{"rate":1,"rate":1}'),
  ],
  [
    'a flag is true or false',
    '400 invalid_request /unskip',
    ...each('1 "no"', (flag) => operating('rebuilds', `{"unskip":${flag}}`)),
  ],
  [
    'a reason is a text of one line, of at most 200 characters',
    '400 invalid_request /reason',
    ...['""', String.raw`"a\nb"`, `"${'a'.repeat(201)}"`, '7'].map((reason) =>
      operating('rollback', `{"reason":${reason}}`),
    ),
  ],
  [
    'an event is skipped by its position, and for a reason',
    '400 invalid_request /position /reason',
    operating('skips', '{"position":"x","reason":""}'),
  ],
  [
    'an event that is not there, or can be read, is not skipped',
    '409 operation_refused',
    operating('skips', '{"position":"7","reason":"a test"}'),
  ],
];
