import { expect, it } from '@jest/globals';
import { PROBLEMS } from '../../../src/http/problem.js';
import { problemIn, served } from '../../support/http-client.js';

const http = served({ DOCS: 'off' });

it('the type of a problem leads to its explanation, without a token and without the description of the API', async () => {
  const answer = await http.send({});
  problemIn(answer, 401, 'token_missing');
  const { pathname, hash } = new URL((JSON.parse(answer.text) as { type: string }).type, http.service.url);
  const page = await http.send({ path: pathname });
  expect(page.status).toBe(200);
  expect(page.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'cache-control': 'public, max-age=3600',
    'content-security-policy': expect.stringContaining("default-src 'none'"),
  });
  const explained = [
    ...page.text.matchAll(/<section id="(\w+)"><h2>\1<\/h2><p>(\d{3}): (.+?)\.<\/p><p>(.+?)<\/p>/g),
  ];
  expect(explained.map(([, code, status]) => `${code} ${status}`)).toEqual(
    Object.entries(PROBLEMS).map(([code, { status }]) => `${code} ${status}`),
  );
  expect(explained.map(([, code]) => `#${code}`)).toContain(hash);
  expect(page.text).not.toMatch(/<script|<style|style=|src=|href=|`/);
});
