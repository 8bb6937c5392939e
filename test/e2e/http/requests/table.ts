import { type TokenMint } from '../../../support/auth-tokens.js';

/**
 * A request as text: the request line, a line for each header field, an empty line, the body. What a good request has
 * beside it is added, but for the fields that are named here, and those of a line such as `-Host`. `{token}` stands for a
 * token of an owner of this row's own, `{token SCOPES}` for one with scopes. The client says that no more will come,
 * unless there is a line `-Connection`: then the service has to close the connection by itself.
 */
type Text = string | Buffer;

/** Bytes that are sent as they are, but for `{token}`; `ends` says that no more will come. */
interface Exact {
  readonly exactly: Text;
  readonly ends?: boolean;
}

type One = Text | Exact | ((mint: TokenMint) => Promise<string>);

/** The requests on one connection: one, or several at once. */
export type Request = One | readonly One[];

/**
 * The answers that come on one connection, each as its status, the code of its problem and the pointers of what is wrong
 * (`body` for the whole body), separated by a comma; `any` for one of any status below 500. With what the last one holds.
 */
export type Answers =
  | string
  | {
      readonly are: string;
      readonly detail?: RegExp;
      readonly fields?: Readonly<Record<string, string | RegExp | undefined>>;
      readonly text?: string | RegExp;
    };

/** Why it is so, what is answered, and requests that are answered so, each on a connection of its own. */
export type Rule = readonly [why: string, answers: Answers, ...requests: Request[]];

/** One request for each of these words. */
export const each = (words: string, request: (word: string) => One): One[] => words.split(' ').map(request);

/** A plant as JSON, its values as they are written here. */
export const plant = (fields: Readonly<Record<string, string>> = {}): string =>
  `{${Object.entries({ name: '"Aloe"', tag: '"dry"', id: '7', ...fields })
    .map(([name, value]) => `"${name}":${value}`)
    .join(',')}}`;

/** A request that adds a plant; `fields` are lines. */
export const post = (body: Text = plant(), ...fields: string[]): Buffer =>
  Buffer.concat([
    Buffer.from(`${['POST /plants', ...fields].join('\n')}\n\n`),
    typeof body === 'string' ? Buffer.from(body) : body,
  ]);

export interface Written {
  readonly bytes: Buffer;
  readonly ends: boolean;
}

/** The bytes that are written on the connection of an owner's request. */
export const writtenOf = async (request: Request, owner: string, mint: TokenMint): Promise<Written> => {
  const all = (Array.isArray(request) ? request : [request]) as readonly One[];
  const tokens = new Map<string, string>();
  let written = '';
  let ends = false;
  for (const [index, one] of all.entries()) {
    const text = typeof one === 'function' ? await one(mint) : one;
    const exact = typeof text === 'object' && 'exactly' in text;
    let bytes = Buffer.from((exact ? text.exactly : text) as string).toString('latin1'); // one character each
    if (!exact) bytes = completed(bytes, index === all.length - 1);
    for (const [place, scopes = ''] of bytes.matchAll(/\{token ?([^}]*)\}/g)) {
      const claims = { sub: owner, ...(scopes === '' ? {} : { scope: scopes }) };
      const token = tokens.get(scopes) ?? (await mint.token(claims));
      tokens.set(scopes, token);
      bytes = bytes.replace(place, token);
    }
    ends = exact ? text.ends === true : !/^-Connection$/m.test(String(text));
    written += bytes;
  }
  return { bytes: Buffer.from(written, 'latin1'), ends };
};

/** A request with the fields that a good one has; the last one of its connection closes that. */
const completed = (text: string, last: boolean): string => {
  const [head = '', ...rest] = text.split('\n\n');
  const body = rest.join('\n\n');
  const [line = '', ...named] = head.split('\n');
  const usual = [
    'Host: plants',
    'Authorization: Bearer {token}',
    ...(last ? ['Connection: close'] : []),
    ...(body === '' ? [] : ['Content-Type: application/json']),
    ...(body === '' || /^Transfer-Encoding:/im.test(head) ? [] : [`Content-Length: ${body.length}`]),
  ];
  const nameOf = (field: string): string => field.replace(/^-/, '').split(':')[0]?.toLowerCase() ?? '';
  const names = new Set(named.map(nameOf));
  const fields = [
    ...usual.filter((field) => !names.has(nameOf(field))),
    ...named.filter((field) => !field.startsWith('-')),
  ];
  const version = / HTTP\/\d/.test(line) ? '' : ' HTTP/1.1';
  return [`${line}${version}`, ...fields, '', body].join('\r\n');
};
