import { beforeAll, describe, expect, it } from '@jest/globals';
import { type ProblemCode } from '../../../src/http/problem.js';
import { TokenMint } from '../../support/auth-tokens.js';
import {
  type Answer,
  problemIn,
  type ProblemDocument,
  type Sent,
  served,
} from '../../support/http-client.js';
import { PLACES } from '../../support/worst-texts.js';
import { BODIES } from './requests/bodies.js';
import { BYTES } from './requests/bytes.js';
import { FIELDS } from './requests/fields.js';
import { ODD } from './requests/odd.js';
import { PATHS } from './requests/paths.js';
import { QUERIES } from './requests/queries.js';
import { type Answers, type Request, type Rule, writtenOf } from './requests/table.js';
import { TOKENS } from './requests/tokens.js';

/** Connections at a time. */
const CONNECTIONS = 8;

/**
 * The most times that a costly text is sent until one of its costs is within the bound: other processes on the machine
 * may make a linear one slow, but do not make a quadratic one quick.
 */
const TRIES = 20;

/**
 * The bound, from the cost of a plain text. Quadratic work on 14 KB took 80 to 110 ms; thousands of names or numbers in
 * one request take some milliseconds.
 */
const FACTOR = 5;
const MARGIN_MS = 15;

const TABLE: Readonly<Record<string, readonly Rule[]>> = {
  'paths, ids and methods': PATHS,
  queries: QUERIES,
  'header fields': FIELDS,
  bodies: BODIES,
  tokens: TOKENS,
  'bytes on a connection': BYTES,
  'what no good client sends': ODD,
};

interface Exchanged {
  readonly sent: string;
  readonly answers: readonly Answer[];
}

/** The exchanges of each rule. */
const exchanged = new Map<Rule, Exchanged[]>();

const http = served();
beforeAll(async () => {
  const mint = await TokenMint.local(http.service.dataDir);
  const rows = Object.values(TABLE)
    .flat()
    .flatMap((rule) => {
      const [, , ...requests] = rule;
      return requests.map((request): [Rule, Request] => [rule, request]);
    });
  const left = rows.entries();
  const work = async (): Promise<void> => {
    for (const [index, [rule, request]] of left) {
      const { bytes, ends } = await writtenOf(request, `owner ${index}`, mint);
      for (const [token] of bytes.toString('latin1').matchAll(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g))
        http.keepSecret(token);
      const connection = http.connect();
      connection.write(bytes);
      if (ends) connection.end();
      const sent = JSON.stringify(bytes.toString('latin1').replace(/eyJ[\w.-]+/g, '{token}')).slice(0, 200);
      const answers = await connection.closed;
      exchanged.set(rule, [...(exchanged.get(rule) ?? []), { sent, answers }]);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
});

const documentIn = ({ text }: Answer): Partial<ProblemDocument> =>
  text.startsWith('{') ? (JSON.parse(text) as Partial<ProblemDocument>) : {};

/** An answer in the words of the table. */
const shown = (answer: Answer, expected = ''): string => {
  const { code, errors = [] } = documentIn(answer);
  const pointers = expected.endsWith(' any') ? ['any'] : errors.map(({ pointer }) => pointer || 'body');
  return [answer.status, ...(code === undefined ? [] : [code]), ...pointers].join(' ');
};

/** Asserts the properties of every answer. */
const expectWhole = (answer: Answer): void => {
  if (answer.status < 200) return;
  expect(answer.headers['x-request-id']).toMatch(/^\S/);
  const { code, errors } = documentIn(answer);
  if (answer.status < 400 || code === undefined) return;
  problemIn(
    answer,
    answer.status,
    code as ProblemCode,
    errors?.map(({ pointer }) => pointer),
  );
};

const expectLast = (answers: Exclude<Answers, string>, answer: Answer): void => {
  if (answers.detail) expect(documentIn(answer).detail).toMatch(answers.detail);
  if (answers.text !== undefined)
    if (typeof answers.text === 'string') expect(answer.text).toBe(answers.text);
    else expect(answer.text).toMatch(answers.text);
  for (const [name, value] of Object.entries(answers.fields ?? {}))
    if (value instanceof RegExp) expect(answer.headers[name]).toMatch(value);
    else expect(answer.headers[name]).toBe(value);
};

describe.each(Object.entries(TABLE))('%s', (_subject, rules) => {
  it.each(rules.map((rule) => [rule[0], rule] as const))('%s', (_why, rule) => {
    const [, answers] = rule;
    const are = typeof answers === 'string' ? answers : answers.are;
    const all = exchanged.get(rule) ?? [];
    if (are === 'any') {
      const bad = all.filter(
        ({ answers }) => answers.length === 0 || answers.some(({ status }) => status >= 500),
      );
      expect(bad).toEqual([]);
    } else {
      const got = all.map(({ sent, answers }) => [sent, answers.map((one) => shown(one, are)).join(', ')]);
      expect(got).toEqual(all.map(({ sent }) => [sent, are]));
    }
    for (const { answers: given } of all) {
      given.forEach(expectWhole);
      const last = given.at(-1);
      if (typeof answers !== 'string' && last) expectLast(answers, last);
    }
  });
});

/** The least that it takes of so many tries, or the first that is not longer than `enough`, in milliseconds. */
const costOf = async (sent: Sent, tries: number, enough = 0): Promise<number> => {
  let cost = Infinity;
  for (let attempt = 0; attempt < tries && cost > enough; attempt += 1) {
    const began = performance.now();
    expect((await http.send(sent)).status).toBeLessThan(500);
    cost = Math.min(cost, performance.now() - began);
  }
  return cost;
};

describe('a text that is made to be dear costs what a plain one of its size costs', () => {
  it.each(PLACES.map((place) => [place.where, place] as const))('in %s', async (_where, place) => {
    const token = await http.token(
      'ada',
      'plants:read plants:write plants:audit plants:operate plants:erase',
    );
    const allowed = FACTOR * (await costOf(place.request(place.plain, token), 5)) + MARGIN_MS;
    const dear: string[] = [];
    for (const text of place.texts) {
      const cost = await costOf(place.request(text, token), TRIES, allowed);
      if (cost > allowed) dear.push(`${text.slice(0, 20)}…${text.slice(-3)}: ${cost} ms, not ${allowed}`);
    }
    expect(dear).toEqual([]);
  });
});

describe('whatever was sent', () => {
  it('what was acknowledged is written, and nothing else', async () => {
    const answers = [...exchanged.values()].flat().flatMap((one) => one.answers);
    const added = answers.filter(({ status }) => status === 201);
    const deleted = answers.filter(({ status, headers }) => status === 204 && headers.allow === undefined);
    // A second request with a key writes nothing, and the first one the key too.
    expect(await http.service.eventCount()).toBe(added.length + deleted.length);
  });

  it('no token has come back, in an answer or in the log', () => {
    http.expectNoSecrets();
  });

  it('the log has no line of an error, and the service goes on', async () => {
    expect(http.service.logged.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
    expect([http.service.endedUnasked, (await http.list()).status]).toEqual([[], 200]);
  });
});
