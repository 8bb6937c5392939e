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
});
