import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { Stage } from '../../../bench/contenders.js';
import { Results } from '../../../bench/results.js';
import { type Target } from '../../../bench/target.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

describe('the contender without events', () => {
  const folder = temporaryFolder();
  let crud: Target;
  let tokens: string[];

  beforeAll(async () => {
    crud = await (await Stage.open(folder, new Results())).start('crud');
    tokens = readFileSync(await crud.tokens.file(['anna', 'ben']), 'utf8')
      .trim()
      .split('\n');
  });

  afterAll(() => crud.server.stop());

  const ask = async (method: string, path: string, owner: 0 | 1 | string, body?: unknown) => {
    const authorization = typeof owner === 'string' ? owner : (tokens[owner] ?? '');
    const answer = await fetch(`${crud.url}${path}`, {
      method,
      headers: { authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, location: answer.headers.get('location'), text };
  };

  it("lists an owner's plants in order of id, and no other's", async () => {
    await ask('POST', '/plants', 0, { name: 'Monstera', tag: 'aroid', id: 7 });
    const created = await ask('POST', '/plants', 0, { name: 'Hoya', tag: '', id: -3 });
    expect(created).toEqual({ status: 201, location: '/plants/-3', text: '{"name":"Hoya","tag":""}' });
    await ask('POST', '/plants', 1, { name: 'Calathea', tag: 'prayer plant', id: 7 });

    const list = await ask('GET', '/plants', 0);
    expect(list).toMatchObject({
      status: 200,
      text: '[{"name":"Hoya","tag":""},{"name":"Monstera","tag":"aroid"}]',
    });
    expect((await ask('GET', '/plants?limit=1', 0)).text).toBe('[{"name":"Hoya","tag":""}]');
  });

  it('deletes a plant of the owner once', async () => {
    await ask('POST', '/plants', 0, { name: 'Ficus', tag: 'fig', id: 20 });

    expect((await ask('DELETE', '/plants/20', 1)).status).toBe(404);
    expect(await ask('DELETE', '/plants/20', 0)).toMatchObject({ status: 204, text: '' });
    expect((await ask('DELETE', '/plants/20', 0)).status).toBe(404);
  });

  it('refuses a plant that is there, and leaves it as it is', async () => {
    await ask('POST', '/plants', 1, { name: 'Aloe', tag: 'succulent', id: 1 });
    expect((await ask('POST', '/plants', 1, { name: 'Agave', tag: 'succulent', id: 1 })).status).toBe(409);
    expect((await ask('GET', '/plants?limit=1', 1)).text).toBe('[{"name":"Aloe","tag":"succulent"}]');
  });

  it.each([
    { name: '', tag: '', id: 1 },
    { name: 5, tag: '', id: 1 },
    { name: 'a\nb', tag: '', id: 1 },
    { name: 'a', tag: '', id: '1' },
    { name: 'a', tag: '', id: 1.5 },
    { name: 'a', id: 1 },
    { name: 'a', tag: '', id: 1, colour: 'green' },
  ])('refuses the plant %j', async (body) => {
    expect((await ask('POST', '/plants', 0, body)).status).toBe(400);
  });

  it.each(['/plants?limit=0', '/plants?limit=many'])('refuses the list %s', async (path) => {
    expect((await ask('GET', path, 0)).status).toBe(400);
  });

  it('refuses a token that it cannot verify, also before it looks at what is asked', async () => {
    const [anna = '', ben = ''] = tokens;
    const altered = `${anna.slice(0, anna.lastIndexOf('.'))}${ben.slice(ben.lastIndexOf('.'))}`;

    for (const authorization of ['', 'Bearer', 'Bearer a.b.c', altered])
      expect((await ask('POST', '/plants', authorization, {})).status).toBe(401);
  });
});
