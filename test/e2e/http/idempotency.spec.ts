import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type Answer, HttpClient } from '../../support/http-client.js';
import { eventsOf } from '../../support/http-events.js';
import { TestService } from '../../support/service.js';

let http: HttpClient;
beforeAll(async () => {
  http = new HttpClient(await TestService.start());
  await http.service.ready();
});
afterAll(async () => {
  await http.finish();
});

const plant = (id: number, name = 'n'): { name: string; tag: string; id: number } => ({ name, tag: '', id });

/** What must be the same when an outcome is given again: all but what belongs to one request. */
const outcome = ({ status, headers, text }: Answer): unknown => ({
  status,
  location: headers.location,
  position: headers['plants-position'],
  text: text.replace(/"requestId":"[^"]*"/, ''),
});

/** An owner whom no other test has, and what this owner sends. */
const owner = async () => {
  const name = randomUUID();
  const token = await http.token(name);
  const keyed = (key: string) => ({ token, headers: { 'idempotency-key': key } });
  return {
    token,
    create: (key: string, body: unknown) => http.create(body, keyed(key)),
    delete: (key: string, id: number) => http.delete(id, keyed(key)),
    names: async () =>
      (JSON.parse((await http.list('', { token })).text) as { name: string }[]).map((one) => one.name),
    plantEvents: async () =>
      (await eventsOf(http.service, name)).map(({ type }) => type).filter((type) => type.startsWith('Plant')),
  };
};

describe('the same Idempotency-Key with the same request gives the first outcome again', () => {
  it('201, and one plant', async () => {
    const ada = await owner();
    const first = await ada.create('k', plant(1));
    expect(first.status).toBe(201);
    expect(outcome(await ada.create('k', plant(1)))).toEqual(outcome(first));
    expect(await ada.plantEvents()).toEqual(['PlantCreated']);
  });

  it('201, also where the plant is gone since', async () => {
    const ada = await owner();
    const first = await ada.create('k', plant(1));
    await http.delete(1, ada);
    expect(outcome(await ada.create('k', plant(1)))).toEqual(outcome(first));
    expect(await ada.names()).toEqual([]);
  });

  it('204, also where there is another plant since', async () => {
    const ada = await owner();
    await http.create(plant(1), ada);
    const first = await ada.delete('k', 1);
    expect(first.status).toBe(204);
    await http.create(plant(1, 'again'), ada);
    expect(outcome(await ada.delete('k', 1))).toEqual(outcome(first));
    expect(await ada.names()).toEqual(['again']);
  });

  it('however the request is written', async () => {
    const ada = await owner();
    const first = await ada.create('k', '{"name":"n","tag":"","id":1}');
    const again = await ada.create('"k"', String.raw` { "id" : 1.0, "tag":"", "\u006eame":"\u006e" } `);
    expect(outcome(again)).toEqual(outcome(first));
  });

  it('over a kill and a restart', async () => {
    const ada = await owner();
    await http.create(plant(2, 'there'), ada);
    const send = async (): Promise<unknown[]> => [
      outcome(await ada.create('created', plant(1))),
      outcome(await ada.create('exists', plant(2))),
      outcome(await ada.delete('deleted', 1)),
      outcome(await ada.delete('missing', 1)),
    ];
    const first = await send();
    expect(first).toMatchObject([{ status: 201 }, { status: 409 }, { status: 204 }, { status: 404 }]);
    const count = await http.service.eventCount();
    await http.service.kill();
    await http.service.start();
    await http.service.ready();
    expect(await send()).toEqual(first);
    expect(await http.service.eventCount()).toBe(count);
    expect(await ada.names()).toEqual(['there']);
  });

  it('to twenty at once, with one write', async () => {
    const ada = await owner();
    const created = await Promise.all(Array.from({ length: 20 }, () => ada.create('c', plant(1))));
    expect(new Set(created.map((answer) => JSON.stringify(outcome(answer)))).size).toBe(1);
    expect(created[0]?.status).toBe(201);
    const deleted = await Promise.all(Array.from({ length: 20 }, () => ada.delete('d', 1)));
    expect(new Set(deleted.map((answer) => JSON.stringify(outcome(answer)))).size).toBe(1);
    expect(deleted[0]?.status).toBe(204);
    expect(await ada.plantEvents()).toEqual(['PlantCreated', 'PlantDeleted']);
  });
});

describe('the same key with another request', () => {
  it.each<[what: string, second: (ada: Awaited<ReturnType<typeof owner>>) => Promise<Answer>]>([
    ['another name', (ada) => ada.create('k', plant(1, 'other'))],
    ['another tag', (ada) => ada.create('k', { ...plant(1), tag: 'other' })],
    ['another id', (ada) => ada.create('k', plant(2))],
    ['a deletion', (ada) => ada.delete('k', 1)],
  ])('%s: 422', async (_what, second) => {
    const ada = await owner();
    await ada.create('k', plant(1));
    await http.refused(second(ada), 422, 'idempotency_key_reused');
    expect(await ada.names()).toEqual(['n']);
  });

  it('at the same moment: one is done, the others are refused', async () => {
    const ada = await owner();
    const answers = await Promise.all([1, 2, 3, 4].map((id) => ada.create('k', plant(id))));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 422, 422, 422]);
    expect(await ada.plantEvents()).toEqual(['PlantCreated']);
  });
});

describe('a refused request with an Idempotency-Key', () => {
  it('writes nothing', async () => {
    const ada = await owner();
    await http.create(plant(1), ada);
    const count = await http.service.eventCount();
    for (let key = 0; key < 5; key++) {
      await http.refused(ada.create(`c${key}`, plant(1)), 409, 'plant_exists');
      await http.refused(ada.delete(`d${key}`, 2), 404, 'plant_not_found');
    }
    expect(await http.service.eventCount()).toBe(count);
  });

  it('is decided anew when it comes again, and leaves its key free', async () => {
    const ada = await owner();
    await http.refused(ada.delete('k', 1), 404, 'plant_not_found');
    expect((await ada.create('k', plant(1))).status).toBe(201);
    await http.refused(ada.create('l', plant(1)), 409, 'plant_exists');
    await http.delete(1, ada);
    expect((await ada.create('l', plant(1))).status).toBe(201);
  });
});

describe('keys', () => {
  it('belong to their owner', async () => {
    const [ada, bob] = [await owner(), await owner()];
    expect((await ada.create('k', plant(1, "Ada's"))).status).toBe(201);
    expect((await bob.create('k', plant(1, "Bob's"))).status).toBe(201);
    expect(await bob.names()).toEqual(["Bob's"]);
  });

  it('are told apart by every character', async () => {
    const ada = await owner();
    const keys = ['k', 'K', 'k1', 'k-', "k'", 'a'.repeat(255)];
    for (const [index, key] of keys.entries()) expect((await ada.create(key, plant(index))).status).toBe(201);
  });

  it('may hold spaces within quotes, and are never stored as they are', async () => {
    const ada = await owner();
    const secret = `secret key ${randomUUID()}`;
    expect((await ada.create(`"${secret}"`, plant(1))).status).toBe(201);
    expect(JSON.stringify(http.service.logged)).not.toContain(secret);
  });

  it('are not spent by a request that was never understood', async () => {
    const ada = await owner();
    await http.refused(ada.create('k', { name: '', tag: '', id: 1 }), 400, 'invalid_request', ['/name']);
    expect((await ada.create('k', plant(1))).status).toBe(201);
  });
});

it('without a key the same request is done again', async () => {
  const ada = await owner();
  await http.create(plant(1), ada);
  await http.refused(http.create(plant(1), ada), 409, 'plant_exists');
});
