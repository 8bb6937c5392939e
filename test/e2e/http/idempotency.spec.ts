import { describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type Answer, served } from '../../support/http-client.js';
import { eventsOf } from '../../support/http-events.js';

const http = served();

const plant = (id: number, name = 'n'): { name: string; tag: string; id: number } => ({ name, tag: '', id });

/** The parts of an answer that a repeated key gives again: all but those that belong to one request. */
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

it('the same key with another request: 422, and the first one stands', async () => {
  const ada = await owner();
  await ada.create('k', plant(1));
  await http.refused(ada.create('k', plant(1, 'other')), 422, 'idempotency_key_reused');
  await http.refused(ada.delete('k', 1), 422, 'idempotency_key_reused');
  expect(await ada.names()).toEqual(['n']);
});

it('a key may hold spaces within quotes, and is never stored as it is', async () => {
  const ada = await owner();
  const secret = `secret key ${randomUUID()}`;
  expect((await ada.create(`"${secret}"`, plant(1))).status).toBe(201);
  expect(JSON.stringify(http.service.logged)).not.toContain(secret);
});

it('a key is not spent by a request that was never understood', async () => {
  const ada = await owner();
  await http.refused(ada.create('k', { name: '', tag: '', id: 1 }), 400, 'invalid_request', ['/name']);
  expect((await ada.create('k', plant(1))).status).toBe(201);
});
