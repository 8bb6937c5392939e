import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { version as uuidVersion } from 'uuid';
import { type PlantCommand } from '../../../src/domain/plant.js';
import { DomainError, type DomainErrorCode, EventRefused } from '../../../src/domain/errors.js';
import { plantStream } from '../../../src/domain/stream.js';
import {
  type EventLog,
  LogUnavailable,
  OutcomeUnknown,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../../../src/log/event-log.js';
import { readSkipsInForce } from '../../../src/commands/read-rebuilds.js';
import {
  eventId,
  metadataOf,
  PresentPlants,
  resumeCommand,
  runCommand,
} from '../../../src/commands/plant-commands.js';
import { after, failing, failingAfterwards, Faults, none } from '../../support/domain-faults.js';
import { anyCommand, obey, type Plants } from '../../support/domain-model.js';
import { appendRaw, contextOf, NOON, noon, outcomeOf, run, Stores } from '../../support/domain-stores.js';
import { created, createPlant, deleted, deletePlant } from '../../support/given.js';

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
  const at = (port: EventLog) => ({ log: port, now: noon, skips: () => readSkipsInForce(port) });
  /** As a process of its own, which knows the plants that it has left present. */
  const processAt = (port: EventLog) => ({ ...at(port), present: new PresentPlants() });
  const runningAt = (port: EventLog, owner: string) => {
    const here = processAt(port);
    return (command: PlantCommand): Promise<string> =>
      outcomeOf(runCommand(here, owner, command, contextOf()));
  };
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

  /** Keeps what appends state of their streams, and that the last event was read. */
  const stating = (): { readonly faults: Faults<EventLog>; readonly stated: unknown[] } => {
    const faults = faulty();
    const stated: unknown[] = [];
    faults.every('append', (proceed, stream, expected, events) => {
      stated.push(expected);
      return proceed(stream, expected, events);
    });
    faults.every('readLast', (proceed, stream) => {
      stated.push('read');
      return proceed(stream);
    });
    return { faults, stated };
  };

  it('states that a new plant has no stream, without reading, and else the revision that it has read', async () => {
    const owner = anOwner();
    const { faults, stated } = stating();
    await run(faults.port, owner, createPlant(7));
    expect(stated).toEqual(['none']);
    await run(faults.port, owner, deletePlant(7));
    await run(faults.port, owner, createPlant(7));
    expect(stated.slice(1)).toEqual(['read', 0n, 'none', 'read', 1n]);
  });

  it('deletes without reading what the same process has left present, and never refuses by what it remembers', async () => {
    const owner = anOwner();
    const { faults, stated } = stating();
    const runHere = runningAt(faults.port, owner);
    expect(await runHere(createPlant(7))).toBe('done');
    expect(await runHere(deletePlant(7))).toBe('done');
    expect(stated).toEqual(['none', 0n]);
    expect(await runHere(createPlant(7))).toBe('done');
    await run(log, owner, deletePlant(7)); // by another process, as what follows
    expect(await runHere(deletePlant(7))).toBe('plant_not_found');
    await run(log, owner, createPlant(7));
    expect(await runHere(deletePlant(7))).toBe('done');
    await run(log, owner, createPlant(7));
    expect(await runHere(createPlant(7))).toBe('plant_exists');
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

  it('stops where the last event cannot be read, and is not about plants', async () => {
    for (const [type, data] of [
      ['PlantWatered', { id: 7 }],
      ['RequestAccepted', { fingerprint: 'ab', commandId: randomUUID(), firstRevision: 0 }],
    ] as const) {
      const owner = anOwner();
      await appendRaw(log, plantStream(owner, 7), type, data);
      await expect(run(log, owner, createPlant(7))).rejects.toThrow(EventRefused);
      expect(await typesOf(owner)).toEqual([type]);
    }
  });

  it('decides on the last event where an earlier one cannot be read', async () => {
    const owner = anOwner();
    await appendRaw(log, plantStream(owner, 7), 'PlantWatered', { id: 7 });
    await appendRaw(log, plantStream(owner, 7), 'PlantDeleted', { id: 7 }, 0n);
    expect(await outcomeOf(run(log, owner, deletePlant(7)))).toBe('plant_not_found');
    expect(await outcomeOf(run(log, owner, createPlant(7)))).toBe('done');
  });

  it('reads as little of a plant with a long history as of a new one', async () => {
    const owner = anOwner();
    const stream = plantStream(owner, 7);
    const events = Array.from({ length: 1_000 }, (_, index) => ({
      ...(index % 2 ? deleted(7) : created(7)),
      id: randomUUID(),
      metadata: metadataOf('PlantCreated', contextOf(), NOON),
    }));
    await log.append(stream, 'none', events);
    let read = 0;
    const faults = faulty()
      .every('readStream', async (proceed, ...asked) => {
        const found = await proceed(...asked);
        read += found.length;
        return found;
      })
      .every('readLast', (proceed, ...asked) => {
        read += 1;
        return proceed(...asked);
      });
    const context = contextOf();
    await run(faults.port, owner, createPlant(7));
    await run(faults.port, owner, deletePlant(7));
    await resumeCommand(at(faults.port), owner, createPlant(7), context, 1_002);
    expect(await outcomeOf(resumeCommand(at(faults.port), owner, createPlant(7), contextOf(), 3))).toBe(
      'plant_exists',
    );
    expect(await typesOf(owner)).toHaveLength(1_003);
    expect(read).toBeLessThan(20);
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
      expect(faults.calls('readLast')).toBe(1);
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

    it('loses no races within a process', async () => {
      const owner = anOwner();
      const faults = faulty();
      const runHere = runningAt(faults.port, owner);
      await runHere(createPlant(7));
      const outcomes = await Promise.all([1, 2, 3].map(() => runHere(deletePlant(7))));
      expect(outcomes).toEqual(['done', 'plant_not_found', 'plant_not_found']);
      expect(faults.calls('append')).toBe(2);
    });

    it('goes on beside a command of the same process that never ends', async () => {
      const owner = anOwner();
      const runHere = runningAt(faulty().next('append', () => new Promise(() => undefined)).port, owner);
      void runHere(createPlant(7, 'lost'));
      expect(await runHere(createPlant(7, 'mine'))).toBe('done');
      expect(await eventsOf(owner)).toMatchObject([{ data: { name: 'mine' } }]);
    });

    it('all get what the five-line model says, in the order of the log', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyCommand, { minLength: 2, maxLength: 20 }), async (commands) => {
          const owner = anOwner();
          const processes = [processAt(log), processAt(other)] as const;
          const outcomes = await Promise.all(
            commands.map(async (command, i) => {
              const context = contextOf();
              const outcome = await outcomeOf(runCommand(processes[i % 2 ? 0 : 1], owner, command, context));
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

    it('says so too where the three tries were written, and tells the result when it is resumed', async () => {
      const owner = anOwner();
      const context = contextOf();
      const faults = faulty().every('append', failingAfterwards(unknown));
      await expect(runCommand(at(faults.port), owner, createPlant(7), context)).rejects.toThrow(
        OutcomeUnknown,
      );
      expect(await typesOf(owner)).toEqual(['PlantCreated']);
      const { revision } = await resumeCommand(at(log), owner, createPlant(7), context, 0);
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

    it('decides again where it had not been written and another was faster', async () => {
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
    it.each([
      ['readLast', deletePlant(7)],
      ['append', createPlant(7)],
    ] as const)('says so at once, from %s', async (method, command) => {
      const owner = anOwner();
      const faults = faulty().every(method, failing(unavailable));
      await expect(run(faults.port, owner, command)).rejects.toThrow(LogUnavailable);
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

  describe('that may have been run before', () => {
    const resume = (owner: string, from: number, context = contextOf(), command = createPlant(7)) =>
      resumeCommand(at(log), owner, command, context, from);

    it('gives its first result, and writes nothing', async () => {
      const owner = anOwner();
      const context = contextOf();
      const first = await resume(owner, 0, context);
      expect(await resume(owner, 0, context)).toMatchObject(first);
      await run(log, owner, deletePlant(7));
      await run(log, owner, createPlant(7));
      expect(await resumeCommand(at(other), owner, createPlant(7), context, 0)).toMatchObject(first);
      expect(await typesOf(owner)).toEqual(['PlantCreated', 'PlantDeleted', 'PlantCreated']);
    });

    it('is refused by any state since its first revision, though not by the last one', async () => {
      const owner = anOwner();
      await run(log, owner, createPlant(7));
      await run(log, owner, deletePlant(7));
      expect(await outcomeOf(resume(owner, 0))).toBe('plant_exists');
      expect(await outcomeOf(resume(owner, 1))).toBe('plant_exists');
      expect(await typesOf(owner)).toHaveLength(2);
      expect(await outcomeOf(resume(owner, 2))).toBe('done');
    });

    it('throws the refusal itself', async () => {
      const running = resumeCommand(at(log), anOwner(), deletePlant(7), contextOf(), 0);
      await expect(running).rejects.toThrow(DomainError);
    });

    it('stops at an event that cannot be read only where its outcome depends on it', async () => {
      const owner = anOwner();
      const context = contextOf();
      await appendRaw(log, plantStream(owner, 7), 'PlantWatered', { id: 7 });
      await expect(resume(owner, 0)).rejects.toThrow(EventRefused);
      await expect(resume(owner, 1)).rejects.toThrow(EventRefused);
      await appendRaw(log, plantStream(owner, 7), 'PlantDeleted', { id: 7 }, 0n);
      const first = await resume(owner, 2, context);
      await appendRaw(log, plantStream(owner, 7), 'PlantWatered', { id: 7 }, 2n);
      expect(await resume(owner, 2, context)).toMatchObject(first);
    });

    it('comes to what reading the whole history comes to, for any history and from any revision', async () => {
      // Events of the plant in their order; `own` runs the command itself at that place.
      const histories = fc.array(fc.constantFrom('created', 'deleted', 'own'), { maxLength: 30 });
      await fc.assert(
        fc.asyncProperty(
          histories,
          fc.nat({ max: 31 }),
          fc.constantFrom(createPlant(7), deletePlant(7)),
          fc.array(fc.nat({ max: 9 }), { maxLength: 3 }),
          async (history, from, command, meanwhile) => {
            const owner = anOwner();
            const stream = plantStream(owner, 7);
            const context = contextOf();
            const first = Math.min(from, history.length);
            /** Appends an event, also against the rules: a history that others wrote may be any. */
            const append = async (what: 'created' | 'deleted', commandId: string = randomUUID()) => {
              const last = await log.readLast(stream);
              const event = {
                ...(what === 'created' ? created(7) : deleted(7)),
                id: eventId(commandId, 0),
                metadata: metadataOf('PlantCreated', contextOf({ commandId }), NOON),
              };
              await log.append(stream, last?.revision ?? 'none', [event]);
            };
            let ran = false;
            for (const [index, what] of history.entries())
              if (what !== 'own') await append(what);
              else if (ran || index < first) await append('deleted');
              else {
                ran = true;
                await append(command.type === 'CreatePlant' ? 'created' : 'deleted', context.commandId);
              }
            const expected = wholeRead(await log.readStream(stream), command, context.commandId, first);
            const outcome = await outcomeOf(resumeCommand(at(log), owner, command, context, first));
            expect(outcome).toBe(expected);
            // And so it stays, in any process, whatever happens to the plant after that.
            for (const times of meanwhile) {
              for (let time = 0; time < times; time++) await append(time % 2 ? 'created' : 'deleted');
              expect(await outcomeOf(resumeCommand(at(other), owner, command, context, first))).toBe(outcome);
            }
            const own = (await log.readStream(stream)).filter(
              ({ id }) => id === eventId(context.commandId, 0),
            );
            expect(own).toHaveLength(outcome === 'done' ? 1 : 0);
          },
        ),
        { numRuns: 100 },
      );
    });
  });
});

/** The outcome of a resumed command, computed from all of the plant's events. */
const wholeRead = (
  recorded: readonly RecordedEvent[],
  command: PlantCommand,
  commandId: string,
  firstRevision: number,
): 'done' | DomainErrorCode => {
  if (recorded.some(({ id }) => id === eventId(commandId, 0))) return 'done';
  const presentBefore = (revision: number): boolean => recorded[revision - 1]?.type === 'PlantCreated';
  for (let revision = firstRevision; revision <= recorded.length; revision++) {
    if (command.type === 'CreatePlant' && presentBefore(revision)) return 'plant_exists';
    if (command.type === 'DeletePlant' && !presentBefore(revision)) return 'plant_not_found';
  }
  return 'done';
};
