import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { runCli } from '../support/http-cli.js';
import { STORES } from '../support/stores-of-this-run.js';
import { TestService } from '../support/service.js';

describe('a service whose HOST is localhost', () => {
  it('listens on 127.0.0.1', async () => {
    const service = await TestService.start({ HOST: 'localhost' });
    expect((await fetch(`http://127.0.0.1:${service.port}/health/live`)).status).toBe(200);
    await service.remove();
  });
});

// On embedded stores one process does everything.
(STORES === 'servers' ? describe : describe.skip)('processes on the same stores, one for each role', () => {
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
    for (const path of ['plants', 'operations/status', 'console'])
      expect((await fetch(`${projector.url}/${path}`)).status).toBe(404);
    expect((await fetch(`${projector.url}/health/ready`)).status).toBe(200);
  });

  it('has no tree where the auditor is not', async () => {
    for (const { url } of [api, projector]) expect((await fetch(`${url}/log/checkpoint`)).status).toBe(404);
  });

  it('has the state of the projector only where that is', async () => {
    const metricsOf = async ({ url }: TestService): Promise<string> => (await fetch(`${url}/metrics`)).text();
    expect(await metricsOf(projector)).toContain('plants_projector_state{state="live"} 1');
    expect(await metricsOf(api)).not.toContain('plants_projector_state');
  });

  it('has a status that takes no slow start of its own for a store that does not answer', async () => {
    const slowly = `export const load = async (url, context, next) => {
      if (url.includes('/db-client/dist/index.js')) await new Promise((done) => setTimeout(done, 1500));
      return next(url, context);
    }`;
    const script = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`;
    const register = `import { register } from 'node:module'; register(${JSON.stringify(script(slowly))});`;
    const slow = { ...projector.env, NODE_OPTIONS: `--import=${script(register)}` };
    const { stdout } = await runCli(['status'], slow);
    expect(stdout).toContain('lists ');
    expect(stdout).not.toContain('said nothing');
  });

  it('has one document of the API, whatever the role', async () => {
    const auditor = await projector.startBeside({ ROLES: 'auditor' });
    try {
      const documents = await Promise.all(
        [api, projector, auditor].map(async ({ url }) => (await fetch(`${url}/openapi.json`)).text()),
      );
      expect(documents[0]).toContain('"openapi":"3.1.0"');
      expect(new Set(documents).size).toBe(1);
    } finally {
      await auditor.leave();
    }
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
