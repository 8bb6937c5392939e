import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { nextPage, PlantsClient } from '../support/history-client.js';
import { randomBy } from '../support/history-run.js';
import {
  type Houseplant,
  HOUSEPLANT_LINES as lines,
  HOUSEPLANTS as houseplants,
} from '../support/houseplants.js';
import { CLI } from '../support/http-cli.js';
import { TestService } from '../support/service.js';

/** The body of a list of these plants, byte for byte. */
const listOf = (plants: readonly Houseplant[]): string =>
  `[${plants.map(({ name, tag }) => `{"name":${JSON.stringify(name)},"tag":${JSON.stringify(tag)}}`).join(',')}]`;

const namesIn = (body: string): string[] => (JSON.parse(body) as { name: string }[]).map(({ name }) => name);

/** A token as a person gets one. */
const tokenOf = async (service: TestService, owner: string): Promise<string> => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--no-warnings', CLI, 'token', '--owner', owner],
    { env: service.env },
  );
  return stdout.trim();
};

/** Goes through all pages; `between` runs after each, with what is on it. */
const pages = async (
  client: PlantsClient,
  limit: number,
  between: (names: readonly string[]) => Promise<void> = () => Promise.resolve(),
): Promise<string[][]> => {
  const found: string[][] = [];
  let path: string | undefined = `/plants?limit=${limit}`;
  while (path !== undefined) {
    const page = await client.list(path);
    expect(page.status).toBe(200);
    found.push(namesIn(page.body));
    path = nextPage(page, path);
    await between(found.at(-1) ?? []);
  }
  return found;
};

describe('the main job: 149 houseplants', () => {
  let service: TestService;
  const clients: PlantsClient[] = [];
  const clientOf = async (owner: string): Promise<PlantsClient> => {
    const client = new PlantsClient(() => service.url, await tokenOf(service, owner));
    clients.push(client);
    return client;
  };
  /** A new owner who has posted all of them, in no order. */
  const gardener = async (owner: string): Promise<PlantsClient> => {
    const client = await clientOf(owner);
    const random = randomBy(149);
    const shuffled = lines
      .map((line) => ({ line, at: random() }))
      .sort((a, b) => a.at - b.at)
      .map(({ line }) => line);
    for (const line of shuffled) expect((await client.post(line)).status).toBe(201);
    return client;
  };

  beforeAll(async () => {
    service = await TestService.start();
    await service.ready();
  });
  afterAll(async () => {
    for (const client of clients) client.close();
    await service.remove();
  });

  it('has 149 plants to do it with', () => {
    expect(new Set(houseplants.map(({ id }) => id)).size).toBe(149);
  });

  it('posts them, lists them back byte for byte, deletes some, survives kill -9, and starts again', async () => {
    const client = await clientOf('alice');
    for (const line of lines) {
      const { id, name, tag } = JSON.parse(line) as Houseplant;
      const answer = await client.post(line);
      expect([answer.status, answer.headers.location, answer.body]).toEqual([
        201,
        `plants/${id}`,
        JSON.stringify({ name, tag }),
      ]);
    }
    const whole = await client.list();
    expect(whole.body).toBe(listOf(houseplants));
    expect(nextPage(whole, '/plants')).toBeUndefined();

    const gone = houseplants.filter((_, index) => index % 7 === 3);
    for (const { id } of gone) expect((await client.delete(id)).status).toBe(204);
    const kept = listOf(houseplants.filter((plant) => !gone.includes(plant)));
    expect((await client.list()).body).toBe(kept);

    await service.kill();
    await service.start();
    await service.ready();
    expect((await client.list()).body).toBe(kept);
    for (const { id } of gone) expect((await client.delete(id)).status).toBe(404);
    expect((await client.list()).body).toBe(kept);
  });

  describe('page by page', () => {
    let owner = '';
    let number = 0;
    let client: PlantsClient;
    const names = houseplants.map(({ name }) => name);

    beforeEach(async () => {
      owner = `gardener ${++number}`;
      client = await gardener(owner);
    });

    it('limit=10 gives the first ten by id, and Link leads through all without gap or repeat', async () => {
      const first = await client.list('/plants?limit=10');
      expect(first.body).toBe(listOf(houseplants.slice(0, 10)));
      const found = await pages(client, 10);
      expect(found.map((page) => page.length)).toEqual([...Array<number>(14).fill(10), 9]);
      expect(found.flat()).toEqual(names);
    });

    it('a last page that is full has no Link', async () => {
      expect((await pages(client, 149)).length).toBe(1);
      expect((await pages(client, 148)).map((page) => page.length)).toEqual([148, 1]);
    });

    it('what other owners do in the same ids changes nothing', async () => {
      const neighbour = await clientOf(`${owner}'s neighbour`);
      let id = 0;
      const found = await pages(client, 10, async () => {
        for (let next = 0; next < 10; next++)
          expect((await neighbour.create({ id: ++id, name: `not yours ${id}`, tag: '' })).status).toBe(201);
        expect((await neighbour.delete(id - 5)).status).toBe(204);
      });
      expect(found.flat()).toEqual(names);
    });

    it('what appears or goes behind the reader is not seen, what does so before him is', async () => {
      const extra = (id: number) => client.create({ id, name: `extra ${id}`, tag: '' });
      let page = 0;
      const found = await pages(client, 10, async () => {
        if (++page !== 5) return; // the reader has seen the ids up to 50
        for (const id of [-1, 0, 150, 10_000]) expect((await extra(id)).status).toBe(201);
        for (const id of [50, 51, 149]) expect((await client.delete(id)).status).toBe(204);
        expect((await extra(51)).status).toBe(201); // another plant of the same id
      });
      const expected = names.with(50, 'extra 51').with(148, 'extra 150').concat('extra 10000');
      expect(found.flat()).toEqual(expected);
      expect(found.map((names) => names.length)).toEqual([...Array<number>(15).fill(10)]);
    });

    it('what stays for the whole time is seen once and in order, whatever else comes and goes', async () => {
      const busy = new PlantsClient(() => service.url, await tokenOf(service, owner));
      clients.push(busy);
      const random = randomBy(10);
      const staying = houseplants.filter(({ id }) => id % 3 !== 0);
      const reading = new AbortController();
      let changes = 0;
      const changing = (async () => {
        while (!reading.signal.aborted) {
          const id = 3 * Math.ceil(random() * 60); // every third of the 149, and some after them
          const { status } =
            random() < 0.5 ? await busy.delete(id) : await busy.create({ id, name: `guest ${id}`, tag: '' });
          expect([201, 204, 404, 409]).toContain(status);
          if (status < 300) changes += 1;
        }
      })();
      for (let round = 0; round < 20 || changes <= 20; round++) {
        const seen = (await pages(client, 10)).flat();
        expect(seen.filter((name) => staying.some((plant) => plant.name === name))).toEqual(
          staying.map(({ name }) => name),
        );
        expect(new Set(seen).size).toBe(seen.length);
      }
      reading.abort();
      await changing;
      expect(changes).toBeGreaterThan(20);
    });
  });
});
