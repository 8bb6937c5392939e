import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { HttpClient, type Sent } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';
import { BODIES, HEADERS, TARGET_TEXTS, TARGETS, times, WORST_TEXTS } from '../../support/worst-texts.js';

/**
 * How often a request is sent until its cost is within the bound: other processes on the machine make some of them
 * slow, and no quadratic one quick.
 */
const TRIES = 20;

/**
 * What a request of the worst text may cost more than a plain one of its size. Quadratic work on 14 KB took 80 to
 * 110 ms; thousands of names or numbers in one request take some milliseconds.
 */
const FACTOR = 5;
const MARGIN_MS = 15;

let http: HttpClient;
let token: string;
beforeAll(async () => {
  http = new HttpClient(await TestService.start());
  await http.service.ready();
  token = await http.token('ada', 'plants:read plants:write plants:audit plants:operate plants:erase');
});
afterAll(async () => {
  await http.finish();
});

const millisecondsOf = async (sent: Sent): Promise<number> => {
  const began = performance.now();
  await http.send(sent);
  return performance.now() - began;
};

/** The requests that cost more than is allowed beside a plain one, with what they cost. */
const dearerThan = async (plain: Sent, all: readonly (readonly [string, Sent])[]): Promise<string[]> => {
  let usual = Infinity;
  for (let attempt = 0; attempt < 5; attempt += 1) usual = Math.min(usual, await millisecondsOf(plain));
  const dear: string[] = [];
  for (const [name, sent] of all) {
    let cost = Infinity;
    for (let attempt = 0; attempt < TRIES && cost > FACTOR * usual + MARGIN_MS; attempt += 1)
      cost = Math.min(cost, await millisecondsOf(sent));
    if (cost > FACTOR * usual + MARGIN_MS)
      dear.push(`${name}: ${cost.toFixed(1)} ms beside ${usual.toFixed(1)} ms`);
  }
  return dear;
};

const shown = (text: string): string => `${text.slice(0, 20)}…${text.slice(-3)}`;

describe('a text that is made to be dear costs what a plain one of its size costs', () => {
  it.each(Object.entries(HEADERS))('in %s', async (name, { headers, ...sent }) => {
    const withText = (text: string): Sent => ({
      token: name === 'authorization' ? undefined : token,
      ...sent,
      headers: { ...headers, [name]: text },
    });
    const texts = WORST_TEXTS.map((text) => [shown(text), withText(text)] as const);
    expect(await dearerThan(withText(times('a')), texts)).toEqual([]);
  });

  it.each(TARGETS)('in %s', async (start) => {
    const withText = (text: string): Sent => ({ token, path: `${start}${text}` });
    const texts = TARGET_TEXTS.map((text) => [shown(text), withText(text)] as const);
    expect(await dearerThan(withText(times('a')), texts)).toEqual([]);
  });

  it('in a body', async () => {
    const withText = (body: string): Sent => ({
      method: 'POST',
      token,
      headers: { 'content-type': 'application/json' },
      body,
    });
    const plain = withText(`{"name":"${times('a')}","tag":"","id":7}`);
    const bodies = Object.entries(BODIES).map(([name, body]) => [name, withText(body)] as const);
    expect(await dearerThan(plain, bodies)).toEqual([]);
  });
});
