import { each, post, type Rule } from './table.js';

const METHODS = 'GET POST PUT PATCH DELETE TRACE PROPFIND MKCOL LOCK SEARCH QUERY';

/** A path answers the methods that it knows, and names them to every other one, before it looks at a token or a body. */
const knows = (path: string, ...methods: string[]): Rule[] => {
  const shown = path.slice(0, 40);
  const others = METHODS.split(' ').filter((method) => !methods.includes(method));
  const fields = { allow: [...methods, 'OPTIONS'].sort().join(', ') };
  const stranger = (method: string) => `${method} ${path}\n-Authorization`;
  return [
    [`${shown} says which methods it knows`, { are: '204', fields }, stranger('OPTIONS')],
    [`${shown} knows no other method`, { are: '405 method_not_allowed', fields }, ...others.map(stranger)],
  ];
};

const deleting = (id: string): string => `DELETE /plants/${id}`;

export const PATHS: readonly Rule[] = [
  [
    'an id has one spelling, the plain decimal form of a safe integer',
    '400 invalid_request id',
    ...each(
      `1.5 1.0 1e3 007 -0 +1 %2B1 0x1 - 1,2 1;a=b abc 9007199254740992 -9007199254740992 ${'1'.repeat(1_000)}`,
      deleting,
    ),
  ],
  [
    'an id holds nothing that is encoded but digits: no space, NUL, slash, dots, or digits of other scripts',
    '400 invalid_request id',
    ...each('%201 1%20 %C2%A01 1%0A %00 1%00 ..%2F1 %2e%2e%2f1 1%2F %EF%BC%91 %D9%A1', deleting),
    'GET /plants/01',
    'GET /plants/import',
    'GET /plants/7.0/history',
  ],
  [
    'a path is percent-encoded UTF-8 (RFC 3986, 2.5)',
    '400 malformed_request',
    ...each('% %2 %zz %FF %C0%AF %ED%A0%80', deleting),
  ],
  ['a digit and its percent-encoded form are the same path', '201, 204', [post(), 'DELETE /plants/%37']],
  [
    'nothing is normalised: what is no path of the API leads nowhere',
    '404 route_not_found',
    ...each('../1 ./1 1/ 1/2 /1 1// 1/name', deleting),
    ...each(
      '/ /plant /Plants //plants /plants;a=b /health /favicon.ico /.env /docs/../plants *',
      (path) => `GET ${path}`,
    ),
  ],
  ...[
    ['/plants/', '/plants'],
    ['/plants//', '/plants'],
    ['/plants/1/', '/plants/1'],
    ['/plants/?limit=1', '/plants'],
    ['/health/live/', '/health/live'],
  ].map(([path, meant]): Rule => [
    `${path} has a slash too many: ${meant} may be meant`,
    { are: '404 route_not_found', detail: new RegExp(`Do you mean ${meant}\\?$`) },
    `GET ${path}`,
  ]),
  ...knows('/plants', 'DELETE', 'GET', 'HEAD', 'POST'),
  ...knows('/plants/1', 'DELETE', 'GET', 'HEAD'),
  ...knows(`/plants/${'7'.repeat(5_000)}`, 'DELETE', 'GET', 'HEAD'),
  ...knows('/operations/rebuilds', 'POST'),
  ...knows('/operations/rebuilds/7', 'DELETE'),
  ...knows('/operations/status', 'GET', 'HEAD'),
  ...knows('/health/ready', 'GET', 'HEAD'),
  ...knows('/openapi.json', 'GET', 'HEAD'),
  [
    'a path below another is not that: the plant with the id import has no place, imports have',
    { are: '204', fields: { allow: 'OPTIONS, POST' } },
    'OPTIONS /plants/import',
  ],
  ['a method is looked at before a body is', '405 method_not_allowed', 'PUT /plants\n\n{'],
  ['there is no tunnel, for this is no proxy', '405 method_not_allowed', 'CONNECT plants:80'],
  [
    'what needs no token is answered to strangers',
    '200',
    ...each('/health/live /health/ready /openapi.json /docs', (path) => `GET ${path}\n-Authorization`),
  ],
];
