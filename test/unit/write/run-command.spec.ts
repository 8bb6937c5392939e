import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { version as uuidVersion } from 'uuid';
import { DomainError, EventRefused } from '../../../src/plants/errors.js';
import { plantStream } from '../../../src/plants/stream.js';
import {
  type EventLog,
  LogUnavailable,
  OutcomeUnknown,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../../../src/ports/event-log.js';
import { eventId, runCommand } from '../../../src/write/run-command.js';
import { after, failing, failingAfterwards, Faults, none } from '../../support/domain-faults.js';
import { anyCommand, obey, type Plants } from '../../support/domain-model.js';
import { appendRaw, contextOf, NOON, noon, outcomeOf, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';

const unknown = (): Error => new OutcomeUnknown('the connection was cut');
const unavailable = (): Error => new LogUnavailable('no leader');

describe('running a command', () => {
  const stores = new Stores();
  let log: EventLog;
  let other: EventLog;

  beforeAll(async () => {
    log = await stores.log();
    other = await stores.log();
  });
  afterAll(() => stores.remove());

  const anOwner = (): string => randomUUID();
  const faulty = (): Faults<EventLog> => new Faults(log);
  const at = (port: EventLog) => ({ log: port, now: noon });
  const eventsOf = (owner: string, id = 7): Promise<RecordedEvent[]> =>
    log.readStream(plantStream(owner, id));
  const typesOf = async (owner: string): Promise<string[]> => (await eventsOf(owner)).map(({ type }) => type);

  it('appends what was decided after the last event, and tells where that stands', async () => {
    const owner = anOwner();
    const first = await run(log, owner, createPlant(7, 'Monstera', 'aroid'));
    const second = await run(log, owner, deletePlant(7));
    expect([first.revision, second.revision]).toEqual([0n, 1n]);
    expect(second.position > first.position).toBe(true);
    const recorded = await eventsOf(owner);
    expect(recorded.map(({ type, data, position }) => ({ type, data, position }))).toEqual([
      { type: 'PlantCreated', data: { id: 7, name: 'Monstera', tag: 'aroid' }, position: first.position },
      { type: 'PlantDeleted', data: { id: 7 }, position: second.position },
    ]);
  });

  it('writes nothing where the rules refuse', async () => {
    const owner = anOwner();
    expect(await outcomeOf(run(log, owner, deletePlant(7)))).toBe('plant_not_found');
    expect(await eventsOf(owner)).toEqual([]);
    await run(log, owner, createPlant(7));
    expect(await outcomeOf(run(log, owner, createPlant(7)))).toBe('plant_exists');
    expect(await typesOf(owner)).toEqual(['PlantCreated']);
  });

  it('keeps owners apart who use the same ids', async () => {
    const [anne, bert] = [anOwner(), anOwner()];
    await run(log, anne, createPlant(7));
    expect(await outcomeOf(run(log, bert, deletePlant(7)))).toBe('plant_not_found');
    await run(log, bert, createPlant(7));
    await run(log, bert, deletePlant(7));
    expect(await typesOf(anne)).toEqual(['PlantCreated']);
  });

  it('states the revision that it has read, and none of a stream without events', async () => {
    const owner = anOwner();
    const faults = faulty();
    const stated: unknown[] = [];
    faults.every('append', (proceed, stream, expected, events) => {
      stated.push(expected);
      return proceed(stream, expected, events);
    });
    await run(faults.port, owner, createPlant(7));
    await run(faults.port, owner, deletePlant(7));
    await run(faults.port, owner, createPlant(7));
    expect(stated).toEqual(['none', 0n, 1n]);
  });

  it('writes down who asked, when and why', async () => {
    const owner = anOwner();
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const traced = contextOf({ traceparent });
    const plain = contextOf({ actor: { sub: 'bert' }, correlationId: 'correlation-2' });
    await runCommand(at(log), owner, createPlant(7), traced);
    await runCommand(at(log), owner, deletePlant(7), plain);
    const decidedAt = NOON.toISOString();
    expect((await eventsOf(owner)).map(({ metadata }) => metadata)).toEqual([
      {
        schemaVersion: 1,
        decidedAt,
        actor: { sub: 'anne', clientId: 'app' },
        correlationId: 'correlation-1',
        causationId: traced.commandId,
        traceparent,
      },
      {
        schemaVersion: 1,
        decidedAt,
        actor: { sub: 'bert' },
        correlationId: 'correlation-2',
        causationId: plain.commandId,
      },
    ]);
  });

  it('gives events ids that derive from the command', async () => {
    const owner = anOwner();
    const context = contextOf({ commandId: '6ba7b810-9dad-41d1-80b4-00c04fd430c8' });
    await runCommand(at(log), owner, createPlant(7), context);
    const [event] = await eventsOf(owner);
    // Computed apart from this code, by Python's uuid.uuid5: another value would make every retry a new event.
    expect(event?.id).toBe('f7889a1f-fea3-5a6a-bc95-53815c000746');
    expect(uuidVersion(event?.id ?? '')).toBe(5);
    expect(eventId(context.commandId, 1)).not.toBe(event?.id);
    expect(eventId(randomUUID(), 0)).not.toBe(event?.id);
  });

  it('gives the first result when it is run again, and writes nothing', async () => {
    const owner = anOwner();
    const context = contextOf();
    const first = await runCommand(at(log), owner, createPlant(7), context);
    expect(await runCommand(at(log), owner, createPlant(7), context)).toMatchObject(first);
    await run(log, owner, deletePlant(7));
    await run(log, owner, createPlant(7));
    expect(await runCommand(at(other), owner, createPlant(7), context)).toMatchObject(first);
    expect(await typesOf(owner)).toEqual(['PlantCreated', 'PlantDeleted', 'PlantCreated']);
  });

  it('stops at an event that the codec refuses', async () => {
    const owner = anOwner();
    await appendRaw(log, plantStream(owner, 7), 'PlantWatered', { id: 7 });
    await expect(run(log, owner, createPlant(7))).rejects.toThrow(EventRefused);
    expect(await typesOf(owner)).toEqual(['PlantWatered']);
  });

  describe('while others write the same plant', () => {
    it('decides on the truth as it is read again: it may be refused then', async () => {
      const owner = anOwner();
      const faults = faulty().next(
        'append',
        after(() => run(other, owner, createPlant(7, 'theirs'))),
      );
      const running = run(faults.port, owner, createPlant(7, 'mine'));
      expect(await outcomeOf(running)).toBe('plant_exists');
      expect(await eventsOf(owner)).toMatchObject([{ data: { name: 'theirs' } }]);
      expect(faults.calls('readStream')).toBe(2);
    });

    it('decides on the truth as it is read again: it may be right still', async () => {
      const owner = anOwner();
      const faults = faulty().next(
        'append',
        after(async () => {
          await run(other, owner, createPlant(7, 'theirs'));
          await run(other, owner, deletePlant(7));
        }),
      );
      const { revision } = await run(faults.port, owner, createPlant(7, 'mine'));
      expect(revision).toBe(2n);
      expect((await eventsOf(owner))[2]).toMatchObject({ data: { name: 'mine' } });
    });

    it('gives up after twenty lost races, having written nothing', async () => {
      const owner = anOwner();
      const faults = faulty().every(
        'append',
        after(async () => {
          await run(other, owner, createPlant(7, 'theirs'));
          await run(other, owner, deletePlant(7));
        }),
      );
      await expect(run(faults.port, owner, createPlant(7, 'mine'))).rejects.toThrow(LogUnavailable);
      expect(faults.calls('append')).toBe(20);
      const names = (await eventsOf(owner)).map(({ data }) => (data as { name?: string }).name);
      expect(names).not.toContain('mine');
      expect(names).toHaveLength(40);
    });

    it('of two at once, one wins', async () => {
      for (let round = 0; round < 10; round++) {
        const owner = anOwner();
        const outcomes = await Promise.all(
          [log, other, log, other].map((each, i) =>
            outcomeOf(run(each, owner, createPlant(7, `plant ${i}`))),
          ),
        );
        expect(outcomes.sort()).toEqual(['done', 'plant_exists', 'plant_exists', 'plant_exists']);
        expect(await typesOf(owner)).toEqual(['PlantCreated']);
      }
    });

    it('all get what the five-line model says, in the order of the log', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyCommand, { minLength: 2, maxLength: 20 }), async (commands) => {
          const owner = anOwner();
          const outcomes = await Promise.all(
            commands.map(async (command, i) => {
              const context = contextOf();
              const outcome = await outcomeOf(runCommand(at(i % 2 ? log : other), owner, command, context));
              return { command, outcome, cause: context.commandId };
            }),
          );
          const recorded = await Promise.all(
            [...new Set(commands.map(({ id }) => id))].map((id) => eventsOf(owner, id)),
          );
          const model: Plants = new Map();
          const done = outcomes.filter(({ outcome }) => outcome === 'done');
          expect(recorded.flat()).toHaveLength(done.length);
          for (const event of recorded.flat()) {
            const { causationId } = event.metadata as { causationId: string };
            const cause = done.find(({ cause }) => cause === causationId);
            expect(cause && obey(model, cause.command)).toBe('done');
          }
        }),
        { numRuns: 20 },
      );
    });
  });

  describe('when the log does not say what became of an append', () => {
    it('succeeds, once, where it had been written', async () => {
      const owner = anOwner();
      const faults = faulty().next('append', failingAfterwards(unknown));
      const { revision } = await run(faults.port, owner, createPlant(7));
      expect(revision).toBe(0n);
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });

    it('tries again where it had not been written, with the same event at the same place', async () => {
      const owner = anOwner();
      const appends: unknown[] = [];
      const faults = faulty()
        .next('append', (_proceed, ...append) => {
          appends.push(append);
          return Promise.reject(unknown());
        })
        .every('append', (proceed, ...append) => {
          appends.push(append);
          return proceed(...append);
        });
      await run(faults.port, owner, createPlant(7));
      expect(appends).toHaveLength(2);
      expect(appends[1]).toEqual(appends[0]);
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });

    it('says so after three tries', async () => {
      const owner = anOwner();
      const faults = faulty().every('append', failing(unknown));
      await expect(run(faults.port, owner, createPlant(7))).rejects.toThrow(OutcomeUnknown);
      expect(faults.calls('append')).toBe(3);
      expect(await eventsOf(owner)).toEqual([]);
    });

    it('says so too where the three tries were written, and tells the result when it is run again', async () => {
      const owner = anOwner();
      const context = contextOf();
      const faults = faulty().every('append', failingAfterwards(unknown));
      await expect(runCommand(at(faults.port), owner, createPlant(7), context)).rejects.toThrow(
        OutcomeUnknown,
      );
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
      const { revision } = await runCommand(at(log), owner, createPlant(7), context);
      expect(revision).toBe(0n);
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });

    it.each(['written', 'not written'])(
      'does not claim that nothing was, once the log is gone: %s',
      async (first) => {
        const faults = faulty()
          .next('append', first === 'written' ? failingAfterwards(unknown) : failing(unknown))
          .every('append', failing(unavailable));
        await expect(run(faults.port, anOwner(), createPlant(7))).rejects.toThrow(OutcomeUnknown);
        expect(faults.calls('append')).toBe(3);
      },
    );

    it('succeeds where the log comes back in time', async () => {
      const owner = anOwner();
      const faults = faulty().next('append', failingAfterwards(unknown), failing(unavailable));
      await run(faults.port, owner, createPlant(7));
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
    });

    it('finds its event by its id where the stream has moved on', async () => {
      const owner = anOwner();
      const context = contextOf();
      const faults = faulty().next(
        'append',
        failingAfterwards(unknown),
        // A log that has forgotten the ids of events which are not the last ones.
        async (_proceed, stream, expected) => {
          await run(other, owner, deletePlant(7));
          throw new WrongExpectedRevision(stream, expected);
        },
      );
      const { revision } = await runCommand(at(faults.port), owner, createPlant(7), context);
      expect(revision).toBe(0n);
      expect(await typesOf(owner)).toEqual(['PlantCreated', 'PlantDeleted']);
    });

    it('decides anew where it had not been written and another was faster', async () => {
      const owner = anOwner();
      const faults = faulty().next(
        'append',
        failing(unknown),
        after(() => run(other, owner, createPlant(7, 'theirs'))),
      );
      expect(await outcomeOf(run(faults.port, owner, createPlant(7, 'mine')))).toBe('plant_exists');
      expect(await eventsOf(owner)).toMatchObject([{ data: { name: 'theirs' } }]);
    });
  });

  describe('when the log is not available', () => {
    it.each(['readStream', 'append'] as const)('says so at once, from %s', async (method) => {
      const owner = anOwner();
      const faults = faulty().every(method, failing(unavailable));
      await expect(run(faults.port, owner, createPlant(7))).rejects.toThrow(LogUnavailable);
      expect(faults.calls(method)).toBe(1);
      expect(await eventsOf(owner)).toEqual([]);
    });

    it('does not hide a defect', async () => {
      const faults = faulty().next(
        'append',
        none,
        failing(() => new TypeError('a defect')),
      );
      const owner = anOwner();
      await run(faults.port, owner, createPlant(7));
      await expect(run(faults.port, owner, deletePlant(7))).rejects.toThrow(TypeError);
    });
  });

  describe('from a revision on', () => {
    const rerun = (owner: string, from: number) =>
      outcomeOf(runCommand(at(log), owner, createPlant(7), contextOf(), from));

    it('is refused by any state since then, though not by the last one', async () => {
      const owner = anOwner();
      await run(log, owner, createPlant(7));
      await run(log, owner, deletePlant(7));
      expect(await rerun(owner, 0)).toBe('plant_exists');
      expect(await rerun(owner, 1)).toBe('plant_exists');
      expect(await typesOf(owner)).toHaveLength(2);
      expect(await rerun(owner, 2)).toBe('done');
    });

    it('throws the refusal itself', async () => {
      const owner = anOwner();
      const running = runCommand(at(log), owner, deletePlant(7), contextOf(), 0);
      await expect(running).rejects.toThrow(DomainError);
    });
  });
});
