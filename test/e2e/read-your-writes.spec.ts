import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { HttpClient } from '../support/http-client.js';
import { TestService } from '../support/service.js';
import { STORES } from '../support/stores-of-this-run.js';

const plant = (id: number) => ({ name: `n${id}`, tag: '', id });

(STORES === 'servers' ? describe : describe.skip)('two processes that answer', () => {
  let projector: TestService;
  let one: HttpClient;
  let other: HttpClient;

  beforeAll(async () => {
    projector = await TestService.start({ ROLES: 'projector' });
    await projector.ready();
    const api = { ROLES: 'api', WRITE_WAIT_MS: '1000' };
    one = new HttpClient(await projector.startBeside(api));
    other = new HttpClient(await projector.startBeside(api));
  });
  afterAll(async () => {
    await one.service.leave();
    await other.service.leave();
    await projector.remove();
  });

  it('list what the other one has answered, and say nothing of it where lists contain it', async () => {
    for (let id = 1; id <= 20; id++) {
      const written = await one.create(plant(id));
      expect([written.status, written.headers['plants-lists']]).toEqual([201, undefined]);
      expect(JSON.parse((await other.list()).text)).toHaveLength(id);
    }
    const deleted = await one.delete(20);
    expect([deleted.status, deleted.headers['plants-lists']]).toEqual([204, undefined]);
    expect(JSON.parse((await other.list()).text)).toHaveLength(19);
  });

  it('while nobody projects: a write says that lists are behind, and no process shows one that lacks it', async () => {
    await projector.kill();
    let answeredAt = Infinity;
    let enough = false;
    const lists: { readonly began: number; readonly status: number; readonly text: string }[] = [];
    const listing = (async () => {
      while (!enough) {
        const began = performance.now();
        const { status, text } = await other.list();
        lists.push({ began, status, text });
        enough = lists.filter((list) => list.began > answeredAt).length >= 3;
      }
    })();
    const written = await one.create(plant(100));
    answeredAt = performance.now();
    await listing;
    const lies = lists.filter(
      ({ began, status, text }) => began > answeredAt && status === 200 && !text.includes('n100'),
    );
    expect({ lies: lies.length, told: written.headers['plants-lists'], status: written.status }).toEqual({
      lies: 0,
      told: 'behind',
      status: 201,
    });
    expect(lists[0]?.status).toBe(200); // it was listing, until then
    await other.refused(other.list(), 503, 'not_fresh_yet');
    await one.refused(one.list(), 503, 'not_fresh_yet');
    const headers = { 'plants-position': String(written.headers['plants-position']) };
    await other.refused(other.list('', { headers }), 503, 'not_fresh_yet');

    const deleted = await one.delete(1);
    expect([deleted.status, deleted.headers['plants-lists']]).toEqual([204, 'behind']);
    await projector.start();
    await projector.ready();
    let shown = await other.list();
    while (shown.status === 503) shown = await other.list();
    expect(shown.text).toContain('n100');
    expect(shown.text).not.toContain('"n1"');
  });

  it('with Prefer: respond-async a write says at once that lists may lack it, and soon none does', async () => {
    const written = await one.create(plant(200), { headers: { prefer: 'respond-async' } });
    expect([written.status, written.headers['plants-lists']]).toEqual([201, 'behind']);
    let shown = await other.list();
    while (!shown.text.includes('n200')) shown = await other.list();
  });
});
