import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createHash, randomUUID } from 'node:crypto';
import { type PlantCommand } from '../../../src/domain/plant.js';
import { NO_SKIPS } from '../../../src/domain/skips.js';
import { plantStream, requestStream } from '../../../src/domain/stream.js';
import {
  type Appended,
  type EventLog,
  type EventMetadata,
  LogUnavailable,
  OutcomeUnknown,
} from '../../../src/log/event-log.js';
import { ChangePlant, ChangePlantHandler } from '../../../src/commands/plants.js';
import { IdempotentCommands } from '../../../src/commands/idempotency.js';
import { PresentPlants } from '../../../src/commands/plant-commands.js';
import { after, failing, failingAfterwards, Faults, none } from '../../support/domain-faults.js';
import { anyCommand, known } from '../../support/domain-model.js';
import { contextOf, noon, outcomeOf, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';

const KEY = '8e03978e-40d5-43dd-bc93-6894a57f9324';
const unavailable = (): Error => new LogUnavailable('no leader');
const unknown = (): Error => new OutcomeUnknown('the connection was cut');

describe('a request that its client has named', () => {
  const stores = new Stores();
  let log: EventLog;
  let other: EventLog;

  beforeAll(async () => {
    log = await stores.log();
    other = await stores.log();
  });
  afterAll(() => stores.remove());

  const anOwner = (): string => randomUUID();
  /** One process, as far as requests know: another one each time. */
  const process = (port = log): IdempotentCommands =>
    new IdempotentCommands({ log: port, now: noon, skips, present: new PresentPlants() });
  const skips = () => Promise.resolve(NO_SKIPS);
  const send = (at: IdempotentCommands, owner: string, command: PlantCommand, key = KEY): Promise<Appended> =>
    at.run(owner, command, contextOf(), key);
  const typesOf = async (owner: string): Promise<string[]> =>
    (await log.readStream(plantStream(owner, 7))).map(({ type }) => type);
  const recordOf = (owner: string, key = KEY) =>
    log.readStream(requestStream(owner, createHash('sha256').update(key).digest('hex')));
  const recordedTypes = async (owner: string): Promise<string[]> =>
    (await recordOf(owner)).map(({ type }) => type);

  describe('again', () => {
    it('gives its first success, and writes nothing', async () => {
      const owner = anOwner();
      const first = await send(process(), owner, createPlant(7));
      expect(await send(process(), owner, createPlant(7))).toMatchObject(first);
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
      expect(await recordedTypes(owner)).toEqual(['RequestAccepted']);
    });

    it('gives its first success also after the plant has changed', async () => {
      const owner = anOwner();
      const first = await send(process(), owner, createPlant(7));
      await run(log, owner, deletePlant(7));
      expect(await send(process(other), owner, createPlant(7))).toMatchObject(first);
      await run(log, owner, createPlant(7));
      expect(await send(process(), owner, createPlant(7))).toMatchObject(first);
      expect(await typesOf(owner)).toEqual(['PlantCreated', 'PlantDeleted', 'PlantCreated']);
    });

    it('is decided again where it was refused, and had written nothing', async () => {
      const owner = anOwner();
      await run(log, owner, createPlant(7));
      expect(await outcomeOf(send(process(), owner, createPlant(7)))).toBe('plant_exists');
      expect(await recordedTypes(owner)).toEqual([]);
      await run(log, owner, deletePlant(7));
      const { revision } = await send(process(other), owner, createPlant(7));
      expect(revision).toBe(2n);
      expect((await send(process(), owner, createPlant(7))).revision).toBe(2n);
      expect(await typesOf(owner)).toEqual(['PlantCreated', 'PlantDeleted', 'PlantCreated']);
    });

    it('has a key that is free for another request where it was refused', async () => {
      const owner = anOwner();
      expect(await outcomeOf(send(process(), owner, deletePlant(7)))).toBe('plant_not_found');
      expect(await outcomeOf(send(process(other), owner, createPlant(7)))).toBe('done');
      expect(await outcomeOf(send(process(), owner, deletePlant(7)))).toBe('idempotency_key_reused');
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });

    it('stays refused where the plant changed after it was recorded', async () => {
      const owner = anOwner();
      const faults = new Faults(log).next(
        'append',
        none,
        after(() => run(log, owner, createPlant(7, 'theirs'))),
      );
      expect(await outcomeOf(send(process(faults.port), owner, createPlant(7)))).toBe('plant_exists');
      expect(await recordedTypes(owner)).toEqual(['RequestAccepted']);
      await run(log, owner, deletePlant(7));
      expect(await outcomeOf(send(process(other), owner, createPlant(7)))).toBe('plant_exists');
      expect(await typesOf(owner)).toEqual(['PlantCreated', 'PlantDeleted']);
    });

    it('succeeds where another process ran it while this one was looking', async () => {
      const owner = anOwner();
      // The plant is read when the other has just created it: that must not look like a conflict.
      for (const method of ['readLast', 'readStream'] as const) {
        const faults = new Faults(log).next(
          method,
          after(() => send(process(other), owner, createPlant(7))),
        );
        const { revision } = await send(process(faults.port), owner, createPlant(7));
        expect(revision).toBe(0n);
      }
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });
  });

  it.each<[PlantCommand, unknown[]]>([
    [createPlant(7, 'Monstera', 'aroid'), ['CreatePlant', 7, 'Monstera', 'aroid']],
    [deletePlant(7), ['DeletePlant', 7]],
  ])('is told from others by what older versions wrote: %j', async (command, fields) => {
    const owner = anOwner();
    if (command.type === 'DeletePlant') await run(log, owner, createPlant(7));
    await send(process(), owner, command);
    const fingerprint = createHash('sha256').update(JSON.stringify(fields)).digest('hex');
    expect(await recordOf(owner)).toMatchObject([{ data: { fingerprint } }]);
  });

  it.each<[string, PlantCommand]>([
    ['another id', createPlant(8, 'Monstera', 'aroid')],
    ['another name', createPlant(7, 'monstera', 'aroid')],
    ['another tag', createPlant(7, 'Monstera', '')],
    ['its fields cut elsewhere', createPlant(7, 'Monsteraa', 'roid')],
    ['a name like two fields', createPlant(7, 'Monstera","aroid', '')],
    ['another command', deletePlant(7)],
  ])('is refused with %s, and the first one stands', async (_name, another) => {
    const owner = anOwner();
    const command = createPlant(7, 'Monstera', 'aroid');
    const first = await send(process(), owner, command);
    expect(await outcomeOf(send(process(), owner, another))).toBe('idempotency_key_reused');
    expect(await outcomeOf(send(process(other), owner, another))).toBe('idempotency_key_reused');
    expect(await send(process(), owner, command)).toMatchObject(first);
    expect(await recordedTypes(owner)).toEqual(['RequestAccepted']);
    expect(await typesOf(owner)).toEqual(['PlantCreated']);
  });

  it("has a key of its owner's own: another owner's request of that name is another one", async () => {
    const [anne, bert] = [anOwner(), anOwner()];
    await send(process(), anne, createPlant(7));
    await send(process(), bert, createPlant(7, 'another'));
    expect([await typesOf(anne), await typesOf(bert)]).toEqual([['PlantCreated'], ['PlantCreated']]);
  });

  it('is another one under another name', async () => {
    const owner = anOwner();
    const at = process();
    await send(at, owner, createPlant(7), 'one');
    expect(await outcomeOf(send(at, owner, createPlant(7), 'two'))).toBe('plant_exists');
  });

  it('leaves neither its key nor its text in its record', async () => {
    const owner = anOwner();
    await send(process(), owner, createPlant(7, 'Monstera', 'aroid'));
    const record = await recordOf(owner);
    expect(record).toHaveLength(1);
    expect(JSON.stringify({ ...record[0], revision: 0 })).not.toMatch(/8e03978e|Monstera|aroid/);
  });

  it('says in its record who asked, and by which command', async () => {
    const owner = anOwner();
    const context = contextOf({ traceparent: '00-1-2-01' });
    await run(log, owner, createPlant(7));
    await process().run(owner, deletePlant(7), context, KEY);
    const metadata = {
      schemaVersion: 1,
      decidedAt: '2026-01-31T12:00:00.000Z',
      actor: context.actor,
      correlationId: context.correlationId,
      causationId: context.commandId,
      traceparent: '00-1-2-01',
    };
    expect(await recordOf(owner)).toMatchObject([
      { data: { commandId: context.commandId, firstRevision: 1 }, metadata },
    ]);
  });

  describe('many times at once', () => {
    it.each([
      ['in one process', 1],
      ['in two processes', 2],
    ])('has one outcome %s', async (_name, processes) => {
      for (let round = 0; round < 10; round++) {
        const owner = anOwner();
        const at = [process(log), process(other)].slice(0, processes);
        const outcomes = await Promise.all(
          Array.from({ length: 6 }, (_, i) => send(known(at[i % processes]), owner, createPlant(7))),
        );
        for (const { revision, position } of outcomes)
          expect({ revision, position }).toEqual({ revision: 0n, position: outcomes[0]?.position });
        expect(await typesOf(owner)).toEqual(['PlantCreated']);
        expect(await recordedTypes(owner)).toEqual(['RequestAccepted']);
      }
    });

    it('runs once in one process, and again once that is over', async () => {
      const owner = anOwner();
      const faults = new Faults(log);
      const at = process(faults.port);
      await Promise.all([1, 2, 3].map(() => send(at, owner, createPlant(7))));
      expect(faults.calls('append')).toBe(2);
      await send(at, owner, createPlant(7));
      expect(faults.calls('append')).toBe(2);
    });

    it('writes nothing where it is refused', async () => {
      const owner = anOwner();
      const head = await log.head();
      const outcomes = await Promise.all(
        [1, 2, 3].map((key) => outcomeOf(send(process(), owner, deletePlant(7), `key ${key % 2}`))),
      );
      expect(outcomes).toEqual(['plant_not_found', 'plant_not_found', 'plant_not_found']);
      expect(await log.head()).toBe(head);
    });

    it('is taken on once where its name stands for two commands', async () => {
      const owner = anOwner();
      const outcomes = await Promise.all([
        outcomeOf(send(process(log), owner, createPlant(7, 'one'))),
        outcomeOf(send(process(other), owner, createPlant(7, 'two'))),
      ]);
      expect(outcomes.sort()).toEqual(['done', 'idempotency_key_reused']);
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });

    it('succeeds once, whatever happens to the plant between its steps in two processes', async () => {
      await fc.assert(
        fc.asyncProperty(
          anyCommand,
          fc.array(fc.nat({ max: 3 }), { maxLength: 4 }),
          fc.array(fc.nat({ max: 3 }), { maxLength: 4 }),
          async ({ type }, ...schedules) => {
            const owner = anOwner();
            const command = type === 'CreatePlant' ? createPlant(7) : deletePlant(7);
            /** Others create and delete the plant in turn. */
            const others = async (times: number): Promise<void> => {
              for (let time = 0; time < times; time++) {
                const there = (await typesOf(owner)).at(-1) === 'PlantCreated';
                await outcomeOf(run(log, owner, there ? deletePlant(7) : createPlant(7)));
              }
            };
            const outcomes = await Promise.all(
              schedules.map((schedule) => {
                const faults = new Faults(log).next(
                  'append',
                  ...schedule.map((times) => after(() => others(times))),
                );
                return outcomeOf(send(process(faults.port), owner, command));
              }),
            );
            const [record] = await recordOf(owner);
            const own = async () =>
              (await log.readStream(plantStream(owner, 7))).filter(
                ({ metadata }) =>
                  (metadata as EventMetadata).causationId ===
                  (record?.data as { commandId?: string } | undefined)?.commandId,
              );
            // A refusal from before the command was recorded may be followed by another outcome; a success is final.
            const written = await own();
            expect(written.length).toBe(outcomes.includes('done') ? 1 : 0);
            if (record) {
              const again = outcomeOf(send(process(), owner, command));
              expect(await again).toBe(outcomes.includes('done') ? 'done' : refusalOf(command));
              await others(3);
              expect(await outcomeOf(send(process(other), owner, command))).toBe(await again);
              expect(await own()).toEqual(written);
            } else expect(outcomes).toEqual([refusalOf(command), refusalOf(command)]);
          },
        ),
        { numRuns: 40 },
      );
    });
  });

  describe('after a crash', () => {
    it('goes on with its first command where it had only been taken on', async () => {
      const owner = anOwner();
      const crashing = new Faults(log).next('append', none, failing(unavailable));
      const context = contextOf();
      const first = process(crashing.port).run(owner, createPlant(7), context, KEY);
      await expect(first).rejects.toThrow(LogUnavailable);
      expect(await recordedTypes(owner)).toEqual(['RequestAccepted']);
      expect(await typesOf(owner)).toEqual([]);
      await send(process(), owner, createPlant(7));
      const [event] = await log.readStream(plantStream(owner, 7));
      expect(event?.metadata).toMatchObject({ causationId: context.commandId });
      expect(await recordedTypes(owner)).toEqual(['RequestAccepted']);
    });

    it('goes on where it is not known whether it was taken on', async () => {
      const owner = anOwner();
      const crashing = new Faults(log).every('append', failingAfterwards(unknown));
      await expect(send(process(crashing.port), owner, createPlant(7))).rejects.toThrow(OutcomeUnknown);
      expect(await recordedTypes(owner)).toEqual(['RequestAccepted']);
      await send(process(), owner, createPlant(7));
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });

    it('gives its success where the plant had been written and nobody was told', async () => {
      const owner = anOwner();
      const crashing = new Faults(log).next('append', none).every('append', failingAfterwards(unknown));
      await expect(send(process(crashing.port), owner, createPlant(7))).rejects.toThrow(OutcomeUnknown);
      expect((await send(process(), owner, createPlant(7))).revision).toBe(0n);
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });
  });

  describe('the handler', () => {
    it('runs it by its name where it has one', async () => {
      const owner = anOwner();
      const requests = process();
      const plant = { id: 7, name: 'Monstera', tag: 'aroid' };
      const named = () => ({ owner, context: contextOf(), key: KEY });
      const run = (command: PlantCommand) =>
        new ChangePlantHandler(requests).execute(new ChangePlant(named(), command));
      const first = await run({ type: 'CreatePlant', ...plant });
      expect(first).toMatchObject({ plant });
      expect(await run({ type: 'CreatePlant', ...plant })).toMatchObject(first);
      const other = run(deletePlant(7));
      expect(await outcomeOf(other)).toBe('idempotency_key_reused');
      expect(await log.readStream(plantStream(owner, 7))).toMatchObject([{ data: plant }]);
    });

    it('runs it as it is where it has none', async () => {
      const owner = anOwner();
      const requests = process();
      const unnamed = () => ({ owner, context: contextOf(), key: undefined });
      const run = (command: PlantCommand) =>
        new ChangePlantHandler(requests).execute(new ChangePlant(unnamed(), command));
      const create = () => run(createPlant(7));
      const remove = () => run(deletePlant(7));
      expect(await outcomeOf(create())).toBe('done');
      expect(await outcomeOf(create())).toBe('plant_exists');
      expect(await outcomeOf(remove())).toBe('done');
      expect(await outcomeOf(remove())).toBe('plant_not_found');
      expect(await typesOf(owner)).toEqual(['PlantCreated', 'PlantDeleted']);
    });
  });
});

const refusalOf = ({ type }: PlantCommand) => (type === 'CreatePlant' ? 'plant_exists' : 'plant_not_found');
