import { randomUUID } from 'node:crypto';
import { copyFileSync, cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { DatabaseSync } from '../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { generationsIn, pathOf, readPointer } from '../../src/lists/sqlite/lists-folder.js';
import { plantStream } from '../../src/domain/stream.js';
import { type NewEvent } from '../../src/log/event-log.js';
import { type Answer, codeOf, PlantsClient } from '../support/history-client.js';
import { removeReadModel } from '../support/history-run.js';
import { created } from '../support/given.js';
import { sampleMetadata } from '../support/log-events.js';
import { TestService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** Enough that building the lists from them takes much longer than the service takes to listen. */
const OWNERS = 20;
const PLANTS = 500;
const EVENTS_OF_A_PLANT = 5;
const EVENTS = OWNERS * PLANTS * EVENTS_OF_A_PLANT;

/** The most appends that wait in the log at once. */
const APPENDS_AT_ONCE = 5_000;

const ownerOf = (number: number): string => `owner ${number}`;
const nameOf = (owner: number, id: number): string => `plant ${id} of ${owner} at last`;

/** The list that each owner has in the end. */
const listOf = (owner: number): string =>
  JSON.stringify(Array.from({ length: PLANTS }, (_, at) => ({ name: nameOf(owner, at + 1), tag: '' })));

/** The events of one plant: it is created and deleted twice, and stays at last. */
const historyOf = (owner: number, id: number): NewEvent[] =>
  Array.from({ length: EVENTS_OF_A_PLANT }, (_, revision): NewEvent => {
    const name = revision === EVENTS_OF_A_PLANT - 1 ? nameOf(owner, id) : `earlier ${revision}`;
    const event =
      revision % 2 === 0
        ? { type: 'PlantCreated', data: { id, name, tag: '' } }
        : { type: 'PlantDeleted', data: { id } };
    return { id: randomUUID(), ...event, metadata: sampleMetadata({ actor: { sub: ownerOf(owner) } }) };
  });

/** Appends a long history to the log of a service that does not run. */
const appendHistory = async (dataDir: string): Promise<void> => {
  const log = await openSqliteEventLog(join(dataDir, 'events.db'));
  try {
    let waiting: Promise<unknown>[] = [];
    for (let owner = 1; owner <= OWNERS; owner++)
      for (let id = 1; id <= PLANTS; id++) {
        waiting.push(log.append(plantStream(ownerOf(owner), id), 'none', historyOf(owner, id)));
        if (waiting.length < APPENDS_AT_ONCE) continue;
        await Promise.all(waiting);
        waiting = [];
      }
    await Promise.all(waiting);
  } finally {
    await log.close();
  }
};

/** The generations in the read model's folder, and their positions, read beside the service. */
const inReadModel = (dataDir: string): { generations: string[]; least: string; greatest: string } => {
  const lists = join(dataDir, 'lists');
  const active = readPointer(lists)?.active;
  const found = generationsIn(lists).map((generation) => {
    const database = new DatabaseSync(pathOf(lists, generation), { readOnly: true });
    try {
      return database
        .prepare('SELECT min(position) AS least, max(position) AS greatest FROM anchors')
        .get() as { least: string; greatest: string };
    } finally {
      database.close();
    }
  });
  return {
    generations: generationsIn(lists).map((one) => (one === active ? 'active' : 'inactive')),
    least: found.map(({ least }) => least).sort()[0] ?? '',
    greatest:
      found
        .map(({ greatest }) => greatest)
        .sort()
        .at(-1) ?? '',
  };
};

const countEvents = (dataDir: string): number => {
  const database = new DatabaseSync(join(dataDir, 'events.db'), { readOnly: true });
  try {
    return (database.prepare('SELECT count(*) AS count FROM events').get() as { count: number }).count;
  } finally {
    database.close();
  }
};

/** Inserts an event into the file as it is, without any check. */
const insertEvent = (
  dataDir: string,
  event: Readonly<{ stream: string; revision: number; type: string; data: string; metadata: string }>,
): void => {
  const database = new DatabaseSync(join(dataDir, 'events.db'));
  try {
    database
      .prepare('INSERT INTO events (stream, revision, id, type, data, metadata) VALUES (?, ?, ?, ?, ?, ?)')
      .run(event.stream, event.revision, randomUUID(), event.type, event.data, event.metadata);
  } finally {
    database.close();
  }
};

interface Readiness {
  readonly status: number;
  readonly parts: Record<string, Record<string, string>>;
}

const readiness = async (service: TestService): Promise<Readiness> => {
  const answer = await fetch(`${service.url}/health/ready`);
  const body = (await answer.json()) as { parts?: Readiness['parts']; details?: Readiness['parts'] };
  return { status: answer.status, parts: body.parts ?? body.details ?? {} };
};

/** Asks until the service is so. */
const until = async (service: TestService, so: (state: Readiness) => boolean): Promise<Readiness> => {
  for (;;) {
    const state = await readiness(service);
    if (so(state)) return state;
  }
};

const isIncomplete = (answer: Answer): boolean =>
  answer.status === 503 &&
  codeOf(answer) === 'read_model_incomplete' &&
  Number(answer.headers['retry-after']) >= 1;

describe('lists built from the log', () => {
  const services: TestService[] = [];
  const clients: PlantsClient[] = [];
  const started = async (settings: Record<string, string> = {}): Promise<TestService> => {
    const service = await TestService.start(settings);
    services.push(service);
    await service.ready();
    return service;
  };
  const clientOf = async (service: TestService, owner: string): Promise<PlantsClient> => {
    const client = new PlantsClient(() => service.url, await service.token(owner));
    clients.push(client);
    return client;
  };
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    for (const service of services.splice(0)) await service.remove();
  });

  describe(`a read model that is gone, and a log of ${EVENTS} events`, () => {
    /** Holds that log, which is written once. */
    let written: string;
    beforeAll(async () => {
      written = temporaryFolder();
      await appendHistory(written);
      expect(countEvents(written)).toBe(EVENTS);
    });
    /** Started on that log. */
    const withoutReadModel = async (): Promise<TestService> => {
      const dataDir = temporaryFolder();
      copyFileSync(join(written, 'events.db'), join(dataDir, 'events.db'));
      const service = await TestService.start({ DATA_DIR: dataDir });
      services.push(service);
      return service;
    };

    it('answers 503 with Retry-After until the lists are complete, and then whole', async () => {
      const service = await withoutReadModel();
      const readers = [1, 2, OWNERS];
      let incomplete = 0;
      for (const owner of readers) {
        const client = await clientOf(service, ownerOf(owner));
        for (let complete = false; !complete;) {
          const answer = await client.list();
          complete = !isIncomplete(answer);
          if (complete) expect([answer.status, answer.body]).toEqual([200, listOf(owner)]);
          else incomplete += 1;
        }
      }
      expect(incomplete).toBeGreaterThan(0);
      for (let owner = 1; owner <= OWNERS; owner++)
        expect((await (await clientOf(service, ownerOf(owner))).list()).body).toBe(listOf(owner));
    });

    it('takes writes meanwhile, and has them in the end', async () => {
      const service = await withoutReadModel();
      const client = await clientOf(service, ownerOf(1));
      const created = await client.create({ id: 9_999, name: 'written meanwhile', tag: '' });
      expect(created.status).toBe(201);
      await service.ready();
      const whole = listOf(1).replace(/\]$/, ',{"name":"written meanwhile","tag":""}]');
      expect((await client.list()).body).toBe(whole);
    });

    /** Killed while it builds: on a busy machine the build may end before its progress is seen. */
    const killedInTheMiddle = async (): Promise<TestService> => {
      for (;;) {
        const service = await withoutReadModel();
        await until(service, ({ parts }) => Number(parts.projector?.position ?? 0) > 0);
        await service.kill();
        if (inReadModel(service.dataDir).generations[0] === 'inactive') return service;
      }
    };

    it('goes on where it was when it is killed in the middle of the build', async () => {
      const service = await killedInTheMiddle();
      const before = inReadModel(service.dataDir);
      expect(before.generations).toEqual(['inactive']);
      expect(before.least > '').toBe(true);
      expect(Number(before.greatest)).toBeLessThan(EVENTS);

      await service.start();
      const client = await clientOf(service, ownerOf(OWNERS));
      const first = await client.list();
      expect(isIncomplete(first) || first.body === listOf(OWNERS)).toBe(true);
      await service.ready();
      expect(inReadModel(service.dataDir).generations).toEqual(['active']); // the same one
      for (let owner = 1; owner <= OWNERS; owner++)
        expect((await (await clientOf(service, ownerOf(owner))).list()).body).toBe(listOf(owner));
    });
  });

  it('a read model that is far behind is not shown before it has caught up', async () => {
    const service = await started({ WRITE_WAIT_MS: '20' });
    const client = await clientOf(service, ownerOf(1));
    expect((await client.create({ id: 0, name: 'long ago', tag: '' })).status).toBe(201);
    await service.stop();
    await appendHistory(service.dataDir);

    await service.start();
    for (let current = false; !current;) {
      const answer = await client.list();
      current = codeOf(answer) !== 'not_fresh_yet';
      if (current) expect(answer.body).toBe(listOf(1).replace('[', '[{"name":"long ago","tag":""},'));
    }
  });

  describe('an event that cannot be read', () => {
    const metadata = JSON.stringify(sampleMetadata());
    const data = JSON.stringify({ id: 7, name: 'unreadable', tag: '' });
    const stream = plantStream('mallory', 7);
    const unreadable = [
      ['of an unknown type', { type: 'PlantWatered', data, metadata }, /unknown type "PlantWatered"/],
      [
        'of an unknown version',
        { type: 'PlantCreated', data, metadata: JSON.stringify({ ...sampleMetadata(), schemaVersion: 2 }) },
        /unknown version 2 of PlantCreated/,
      ],
    ] as const;

    /** A service that has met the event, and three of its clients: it is mallory's. */
    const met = async (event: Readonly<{ type: string; data: string; metadata: string }>) => {
      const service = await started();
      const mallory = await clientOf(service, 'mallory');
      const alice = await clientOf(service, 'alice');
      for (const client of [mallory, alice])
        expect((await client.create({ id: 1, name: 'before', tag: '' })).status).toBe(201);
      await service.stop();
      insertEvent(service.dataDir, { stream, revision: 0, ...event });
      await service.start();
      await until(service, () => service.logged.some(({ stream: its }) => its === stream));
      return { service, mallory, alice };
    };
    const before = '[{"name":"before","tag":""}]';
    const after = '[{"name":"before","tag":""},{"name":"after","tag":""}]';

    it.each(unreadable)(
      '%s stops the list of its owner loudly, and nobody else',
      async (_what, event, reason) => {
        const { service, mallory, alice } = await met(event);
        expect(codeOf(await mallory.list())).toBe('owner_blocked');
        expect((await alice.list()).body).toBe(before);
        await service.ready();
        const line = service.logged.find(({ stream: its }) => its === stream);
        expect(line).toMatchObject({ level: 'error', revision: 0 });
        expect(line?.reason).toMatch(reason);
        expect(line?.msg).toContain(reason.source.includes('version') ? 'upgrade' : 'plants skip');
      },
    );

    it('lets no list lie: not after writes, not after a restart, not when lists are built again', async () => {
      const [[, event]] = unreadable;
      const { service, mallory, alice } = await met(event);
      for (const client of [mallory, alice])
        expect((await client.create({ id: 2, name: 'after', tag: '' })).status).toBe(201);
      const asStated = async (): Promise<void> => {
        expect(codeOf(await mallory.list())).toBe('owner_blocked');
        expect((await alice.list()).body).toBe(after);
      };
      await asStated();
      await service.kill();
      await service.start();
      await service.ready();
      await asStated();
      await service.kill();
      removeReadModel(service.dataDir);
      await service.start();
      await service.ready();
      await asStated();
    });

    it('is passed over with a warning where it can be of no owner', async () => {
      const service = await started();
      const alice = await clientOf(service, 'alice');
      expect((await alice.create({ id: 1, name: 'before', tag: '' })).status).toBe(201);
      const [[, event]] = unreadable;
      await service.stop();
      insertEvent(service.dataDir, { stream: 'plant-', revision: 0, ...event });
      await service.start();
      await service.ready();
      expect((await alice.create({ id: 2, name: 'after', tag: '' })).status).toBe(201);
      expect((await alice.list()).body).toBe('[{"name":"before","tag":""},{"name":"after","tag":""}]');
      const line = service.logged.find(({ stream: its }) => its === 'plant-');
      expect(line).toMatchObject({ level: 'warn', revision: '0' });
      expect(line?.msg).toMatch(/ignored/);
    });
  });

  describe('a read model that does not fit its log', () => {
    const copied = ['events.db', 'events.db-wal', 'events.db-shm'];

    it('is made again where the log was restored to an earlier state, also once that has grown', async () => {
      const service = await started();
      const client = await clientOf(service, 'alice');
      const at = (file: string) => join(service.dataDir, file);
      const put = (from: string, to: string): void => {
        for (const file of copied) {
          rmSync(at(`${file}${to}`), { force: true });
          if (existsSync(at(`${file}${from}`))) copyFileSync(at(`${file}${from}`), at(`${file}${to}`));
        }
      };
      const create = async (...names: string[]): Promise<void> => {
        for (const name of names)
          expect((await client.create({ id: name.charCodeAt(0), name, tag: '' })).status).toBe(201);
      };
      const names = async (): Promise<string[]> => {
        await service.ready();
        for (;;) {
          const { status, body } = await client.list();
          if (status === 200) return (JSON.parse(body) as { name: string }[]).map(({ name }) => name);
          expect(status).toBe(503);
        }
      };
      await create('a', 'b');
      await service.stop();
      put('', '.copy');
      await service.start();
      await create('c', 'd');
      await service.stop();
      put('.copy', '');
      cpSync(at('lists'), at('lists.of-four'), { recursive: true });
      await service.start(); // with lists of events that it does not hold
      expect(await names()).toEqual(['a', 'b']);
      expect(service.logged.map(({ msg }) => msg)).toContainEqual(
        expect.stringMatching(/^the lists are of another log/),
      );
      await create('e', 'f', 'g');
      await service.stop();
      removeReadModel(service.dataDir);
      cpSync(at('lists.of-four'), at('lists'), { recursive: true });
      await service.start(); // which holds others in their places, and more
      expect(await names()).toEqual(['a', 'b', 'e', 'f', 'g']);
    });

    it('never shows plants of another log', async () => {
      const service = await started();
      const client = await clientOf(service, 'alice');
      for (const id of [1, 2, 3])
        expect((await client.create({ id, name: `of the old log ${id}`, tag: '' })).status).toBe(201);
      await service.kill();
      for (const file of [...copied, 'tree.db']) rmSync(join(service.dataDir, file), { force: true });
      // A start makes no new log beside the read model of another one, and refuses an empty one that was put there.
      const other = await openSqliteEventLog(join(service.dataDir, 'events.db'));
      const event = { ...created(7), id: randomUUID(), metadata: sampleMetadata({ actor: { sub: 'bob' } }) };
      await other.append(plantStream('bob', 7), 'none', [event]);
      await other.close();

      await service.start();
      for (let complete = false; !complete;) {
        const answer = await client.list();
        complete = !isIncomplete(answer);
        if (complete) expect([answer.status, answer.body]).toEqual([200, '[]']);
      }
      expect((await client.create({ id: 2, name: 'of the new log', tag: '' })).status).toBe(201);
      expect((await client.list()).body).toBe('[{"name":"of the new log","tag":""}]');
    });
  });
});
