import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TestService } from '../support/service.js';

describe('a service whose HOST is localhost', () => {
  it('listens on 127.0.0.1', async () => {
    const service = await TestService.start({ HOST: 'localhost' });
    expect((await fetch(`http://127.0.0.1:${service.port}/health/live`)).status).toBe(200);
    await service.remove();
  });
});

describe('two processes on the same files, one for each role', () => {
  let projector: TestService;
  let api: TestService;

  beforeAll(async () => {
    projector = await TestService.start({ ROLES: 'projector' });
    await projector.ready();
    api = await projector.startBeside({ ROLES: 'api' });
    await api.ready();
  });
  afterAll(async () => {
    await api.stop();
    await projector.remove();
  });

  const plants = async (method: string, path: string, body?: object): Promise<Response> =>
    fetch(`${api.url}/plants${path}`, {
      method,
      headers: {
        authorization: `Bearer ${await api.token('alice')}`,
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });

  it('answers writes in the one, and lists them through what the other has projected', async () => {
    for (let id = 1; id <= 20; id++) {
      expect((await plants('POST', '', { name: `n${id}`, tag: '', id })).status).toBe(201);
      const list = await plants('GET', '?limit=1000');
      expect(list.status).toBe(200);
      expect(await list.json()).toHaveLength(id);
    }
    expect((await plants('DELETE', '/7')).status).toBe(204);
    expect(await (await plants('GET', '?limit=1000')).json()).toHaveLength(19);
  });

  it('has no plants where the api is not', async () => {
    for (const path of ['plants', 'operations/status'])
      expect((await fetch(`${projector.url}/${path}`)).status).toBe(404);
    expect((await fetch(`${projector.url}/health/ready`)).status).toBe(200);
  });

  it('says 503 instead of an old list while nobody projects, and goes on when somebody does again', async () => {
    await projector.kill();
    const written = await plants('POST', '', { name: 'late', tag: '', id: 100 });
    expect(written.status).toBe(201); // durable, though no list has it yet
    const list = await plants('GET', '?limit=1000');
    expect(list.status).toBe(503);
    expect(list.headers.get('retry-after')).not.toBeNull();
    expect(await list.json()).toMatchObject({ code: 'not_fresh_yet' });
    await projector.start();
    await projector.ready();
    const again = await plants('GET', '?limit=1000');
    expect(again.status).toBe(200);
    expect(await again.json()).toHaveLength(20);
  });
});
