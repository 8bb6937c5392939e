import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { plantStream } from '../../src/domain/stream.js';
import { type Answer, codeOf, PlantsClient } from '../support/history-client.js';
import { served } from '../support/http-client.js';
import { TestService } from '../support/service.js';
import { STORES } from '../support/stores-of-this-run.js';

const OWNER = 'alice';
/** Each takes several round trips where the stores are servers. */
const TRIES = STORES === 'embedded' ? 1_000 : 50;
const TRIES_OF_TWO_PROCESSES = 200;

/** 201, or the status and code of a problem. */
const shown = (answer: Answer): string =>
  answer.status < 300 ? String(answer.status) : `${answer.status} ${codeOf(answer)}`;
const both = async (one: Promise<Answer>, other: Promise<Answer>): Promise<string> =>
  (await Promise.all([one, other])).map(shown).join(', ');

/** Counts each pair of answers, in any order. */
const pairsOf = (pairs: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const pair of pairs) {
    const sorted = pair.split(', ').sort().join(', ');
    counts[sorted] = (counts[sorted] ?? 0) + 1;
  }
  return counts;
};

const eventsOf = async (service: TestService): Promise<Map<string, string>> => {
  const types = new Map<string, string>();
  for (const { stream, type } of await service.events())
    types.set(stream, [types.get(stream), type].filter(Boolean).join(' '));
  return types;
};

describe('two requests for one plant at once', () => {
  const { service } = served();
  let left: PlantsClient;
  let right: PlantsClient;

  beforeAll(async () => {
    const token = await service.token(OWNER);
    const url = () => service.url;
    left = new PlantsClient(url, token);
    right = new PlantsClient(url, token);
  });
  afterAll(() => {
    left.close();
    right.close();
  });

  it(`two creates: one 201 and one 409, ${TRIES} times; then two deletes: one 204 and one 404`, async () => {
    const creates: string[] = [];
    for (let id = 1; id <= TRIES; id++)
      creates.push(
        await both(
          left.create({ id, name: `left ${id}`, tag: '' }),
          right.create({ id, name: `right ${id}`, tag: '' }),
        ),
      );
    expect(pairsOf(creates)).toEqual({ '201, 409 plant_exists': TRIES });

    // The answers told the truth about whose plant it became.
    const rows = JSON.parse((await left.list()).body) as { name: string }[];
    const winners = creates.map((pair, index) => `${pair.startsWith('201') ? 'left' : 'right'} ${index + 1}`);
    expect(rows.map(({ name }) => name)).toEqual(winners);

    const deletes: string[] = [];
    for (let id = 1; id <= TRIES; id++) deletes.push(await both(left.delete(id), right.delete(id)));
    expect(pairsOf(deletes)).toEqual({ '204, 404 plant_not_found': TRIES });
    expect((await left.list()).body).toBe('[]');

    const streams = await eventsOf(service);
    for (let id = 1; id <= TRIES; id++)
      expect(streams.get(plantStream(OWNER, id))).toBe('PlantCreated PlantDeleted');
  });

  it.each([
    [
      'there',
      10_001,
      { 'PlantCreated PlantDeleted': '204, 409', 'PlantCreated PlantDeleted PlantCreated': '201, 204' },
    ],
    ['not there', 20_001, { PlantCreated: '201, 404', 'PlantCreated PlantDeleted': '201, 204' }],
  ])(
    'a create and a delete of a plant that is %s: as if one had come after the other',
    async (where, first, outcomes) => {
      const answers = new Map<number, string>();
      for (let id = first; id < first + 200; id++) {
        if (where === 'there') expect((await left.create({ id, name: 'there', tag: '' })).status).toBe(201);
        const pair = await Promise.all([left.delete(id), right.create({ id, name: 'again', tag: '' })]);
        const statuses = pair.map(({ status }) => status).sort();
        answers.set(id, statuses.join(', '));
      }
      const streams = await eventsOf(service);
      for (const [id, pair] of answers) {
        const happened = streams.get(plantStream(OWNER, id)) as keyof typeof outcomes;
        expect([id, pair]).toEqual([id, outcomes[happened]]);
      }
    },
  );
});

(STORES === 'servers' ? describe : describe.skip)('two processes on the same data', () => {
  let one: TestService;
  let other: TestService;
  let left: PlantsClient;
  let right: PlantsClient;

  beforeAll(async () => {
    one = await TestService.start({ WRITE_WAIT_MS: '500' });
    other = await one.startBeside({ WRITE_WAIT_MS: '500' });
    await Promise.all([one.ready(), other.ready()]);
    const token = await one.token(OWNER);
    left = new PlantsClient(() => one.url, token);
    right = new PlantsClient(() => other.url, token);
  });
  afterAll(async () => {
    left.close();
    right.close();
    await other.kill();
    await one.remove();
  });

  it(`two creates: one 201 and one 409, ${TRIES_OF_TWO_PROCESSES} times; then two deletes`, async () => {
    const creates: string[] = [];
    for (let id = 1; id <= TRIES_OF_TWO_PROCESSES; id++)
      creates.push(
        await both(left.create({ id, name: 'left', tag: '' }), right.create({ id, name: 'right', tag: '' })),
      );
    expect(pairsOf(creates)).toEqual({ '201, 409 plant_exists': TRIES_OF_TWO_PROCESSES });

    const winners = creates.map((pair) => ({ name: pair.startsWith('201') ? 'left' : 'right', tag: '' }));
    expect(new Set(winners.map(({ name }) => name))).toEqual(new Set(['left', 'right'])); // it was a race
    const position = (await left.list()).headers['plants-position'];
    const fresh = new PlantsClient(() => other.url, await one.token(OWNER));
    for (const client of [left, right]) expect((await client.list()).body).toBe(JSON.stringify(winners));
    expect((await fresh.list()).headers['plants-position']).toBe(position);
    fresh.close();

    const deletes: string[] = [];
    for (let id = 1; id <= TRIES_OF_TWO_PROCESSES; id++)
      deletes.push(await both(left.delete(id), right.delete(id)));
    expect(pairsOf(deletes)).toEqual({ '204, 404 plant_not_found': TRIES_OF_TWO_PROCESSES });
    const streams = await eventsOf(one);
    for (let id = 1; id <= TRIES_OF_TWO_PROCESSES; id++)
      expect(streams.get(plantStream(OWNER, id))).toBe('PlantCreated PlantDeleted');
  });
});
