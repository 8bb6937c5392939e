import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Interrupted } from '../../../src/cli/interrupted.js';
import { cancel, estimate, rebuild } from '../../../src/cli/commands/rebuild.js';
import { rollback } from '../../../src/cli/commands/rollback.js';
import { plantStream } from '../../../src/plants/stream.js';
import { type Position, type RecordedEvent, START } from '../../../src/ports/event-log.js';
import { type Generation } from '../../../src/ports/read-model.js';
import { ReadModelUnavailable } from '../../../src/ports/read-model.js';
import { readRebuilds } from '../../../src/rebuilds/read.js';
import { after, failing, Faults } from '../../support/domain-faults.js';
import { catchUp, NOON, run } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { sampleMetadata } from '../../support/log-events.js';
import { Office, uncounted } from './command-for-tests.js';

const OPTIONS = { rate: null, unskip: false };

describe('an operator', () => {
  let office: Office;

  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  /** A desk where each look of a command finds what has happened before it. */
  const scripted = (...looks: (() => Promise<unknown>)[]) =>
    office.desk({
      model: new Faults(office.model).next('reports', ...looks.map((look) => after(look))).port,
    });

  const id = async (): Promise<string> => {
    const { building, last } = await readRebuilds(office.log);
    return building?.rebuild ?? last?.rebuild ?? '';
  };
  const promoted = async (replaced: number | null = 1): Promise<void> =>
    office.recorded({ type: 'RebuildPromoted', data: { rebuild: await id(), generation: 2, replaced } });
  const nothing = () => Promise.resolve();
  const told =
    (
      phase: 'building' | 'verifying',
      more: { position?: Position; problem?: string; share?: number; secondsLeft?: number } = {},
    ) =>
    async () =>
      office.tell(
        { state: 'standby', since: NOON },
        { rebuild: await id(), phase, position: START, events: 2, elapsedMs: 1, share: 0, ...more },
      );

  describe('who asks for a rebuild', () => {
    it('without waiting is told whether it waits for a projector', async () => {
      expect(await rebuild(office.desk(), { ...OPTIONS, wait: false })).toBe(true);
      expect(office.out).toBe(
        `requested rebuild ${await id()}; no projector runs: the request waits until one is started\n`,
      );
      await cancel(office.desk());
      await office.tell({ state: 'standby', since: NOON });
      await rebuild(office.desk(), { ...OPTIONS, wait: false });
      expect(office.out).toMatch(
        /; no projector works \(oak\/7 is standby\): the request waits until one does\n$/,
      );
      await cancel(office.desk());
      await office.tell({ state: 'live', since: NOON, generation: 1 as Generation, position: START });
      await rebuild(office.desk(), { ...OPTIONS, wait: false });
      expect(office.out).toMatch(/requested rebuild [0-9a-f-]+\n$/);
    });

    it.each([
      ['runs', nothing, 'no projector runs: the request waits until one is started'],
      [
        'works',
        () => office.tell({ state: 'standby', since: NOON }),
        'no projector works (oak/7 is standby): the request waits until one does',
      ],
    ])('does not wait for ever where no projector %s', async (_what, tell, reason) => {
      await tell();
      let time = NOON.getTime();
      const desk = {
        ...scripted(nothing, () => Promise.resolve((time += 16_000))),
        now: () => new Date(time),
      };
      await expect(rebuild(desk, { ...OPTIONS, wait: true })).rejects.toThrow(
        `${reason}. Not waiting any longer: plants status shows how it gets on`,
      );
      expect(office.err).toContain(`${reason}\n`);
      expect((await readRebuilds(office.log)).building).toBeDefined();
    });

    it('does not wait for ever for a switch that fails, and hears why', async () => {
      await office.answer();
      let time = NOON.getTime();
      const problem = 'generation 2 stands before the active one in partition 5';
      const telling = async (): Promise<void> => {
        const report = {
          host: 'oak',
          pid: 7,
          roles: [],
          version: '1',
          address: '',
          since: '',
          rebuild: null,
        };
        const projector = { state: 'live', since: '' };
        await office.tellText('one', JSON.stringify({ ...report, projector, rebuildProblem: problem }));
      };
      const desk = {
        ...scripted(
          async () => promoted(),
          telling,
          () => Promise.resolve((time += 61_000)),
        ),
        now: () => new Date(time),
      };
      await expect(rebuild(desk, { ...OPTIONS, wait: true })).rejects.toThrow(
        `is verified, but lists are not answered from it: ${problem}. It is tried again`,
      );
    });

    it('hears of its promotion when lists are answered from what was built', async () => {
      await run(office.log, 'anne', createPlant(1));
      await office.answer();
      const looks: (string | undefined)[] = [];
      const desk = scripted(
        async () => promoted(),
        async () => {
          looks.push(office.out);
          const second = await office.model.createGeneration();
          await catchUp(office.log, office.model, second);
          await office.model.promote(second);
        },
      );
      expect(await rebuild(desk, { ...OPTIONS, wait: true })).toBe(true);
      expect(looks).toEqual(['']);
      expect(office.out).toMatch(
        /was verified and promoted after \S+ s: lists are answered from generation 2\n$/,
      );
    });

    it('hears of its promotion also when somebody has asked for the way back since', async () => {
      await office.answer();
      const desk = scripted(async () => {
        await promoted();
        await office.recorded({ type: 'RollbackRequested', data: { rebuild: await id(), reason: 'odd' } });
      });
      expect(await rebuild({ ...desk, json: true }, { ...OPTIONS, wait: true })).toBe(true);
      expect(office.json).toMatchObject({ outcome: 'promoted', generation: 1 });
    });

    it('hears of no generation where the lists were lost right after', async () => {
      const desk = scripted(async () => {
        await promoted(null);
        await office.recorded({ type: 'RebuildClosed', data: { rebuild: await id() } });
      });
      expect(await rebuild({ ...desk, json: true }, { ...OPTIONS, wait: true })).toBe(true);
      expect(office.json).toMatchObject({ outcome: 'promoted', generation: null });
      expect(office.err).toBe('');
    });

    it('hears that it was cancelled, or that another one has followed it', async () => {
      const cancelled = async (): Promise<unknown> => cancel(office.desk());
      expect(await rebuild(scripted(cancelled), { ...OPTIONS, wait: true })).toBe(false);
      expect(office.out).toMatch(/^rebuild \S+ was cancelled: by cli:olga$/m);
      const followed = async (): Promise<void> => {
        await cancelled();
        await office.requested();
        await cancelled();
      };
      expect(await rebuild(scripted(followed), { ...OPTIONS, wait: true })).toBe(false);
      expect(office.out).toMatch(/^rebuild \S+ was followed by another one$/m);
    });

    it('sees how far it is, what keeps it from getting on, and what it does next', async () => {
      const desk = scripted(
        told('building', { share: 0.254, secondsLeft: 3 }),
        told('building', { problem: 'the disk is full' }),
        told('verifying', { share: 0.8 }),
        async () => cancel(office.desk()),
      );
      await rebuild(desk, { ...OPTIONS, rate: 10, wait: true });
      expect(office.err.split('\n').slice(1, -1)).toEqual([
        'rebuild: 25% building, 2 events, 2000/s, 3 s left',
        'it is failing, retrying: the disk is full',
        'rebuild: 80% verifying',
      ]);
      expect(await office.log.readStream('operation-rebuilds')).toContainEqual(
        expect.objectContaining({ data: expect.objectContaining({ rate: 10 }) as unknown }),
      );
    });

    it('may stop watching: the rebuild goes on', async () => {
      const desk = scripted(() => {
        office.interrupt(new Interrupted('SIGINT'));
        return Promise.resolve();
      });
      await expect(rebuild(desk, { ...OPTIONS, wait: true })).rejects.toThrow(new Interrupted('SIGINT'));
      expect((await readRebuilds(office.log)).building).toBeDefined();
      expect(office.err).toContain('no projector runs: the request waits until one is started\n');
    });

    it('hears of a store that is away, and comes back to the rebuild', async () => {
      const down = failing(() => new ReadModelUnavailable('it is down'));
      const cancelled = after(async () => cancel(office.desk()));
      const model = new Faults(office.model).next('reports', down, cancelled).port;
      await rebuild(office.desk({ model }), { ...OPTIONS, wait: true });
      expect(office.err).toContain('the read model does not answer: it is down\n');
      expect(office.out).toMatch(/was cancelled/);
    });
  });

  describe('who asks what a rebuild would do', () => {
    it('hears how much it would read, that nothing was asked for, and of no lists to keep', async () => {
      expect(await estimate(office.desk(), {})).toBe(true);
      expect(office.out).toContain('The log holds 0 events. A rebuild would take about 0 s: ');
      expect(office.out).toContain('It would build a new generation, verify it, and answer\n');
      expect(office.out).toMatch(/\nNothing was asked for\.\n$/);
      expect(await office.log.head()).toBe(START);
    });

    it('hears of the generation beside it, of the skipped events, the time by its rate, and who was first', async () => {
      for (const plant of [1, 2, 3]) await run(office.log, 'anne', createPlant(plant));
      await office.answer();
      const underWay = await office.requested();
      await estimate(office.desk(), { rate: 2, unskip: true });
      expect(office.out).toContain('The log holds 4 events. A rebuild would take about 2 s: ');
      expect(office.out).toContain(
        'generation beside generation 1, which takes as much space again, with the events that were skipped, verify',
      );
      expect(office.out).toContain(`Now it would be refused: rebuild ${underWay} is under way.`);
      await estimate(office.desk({ json: true, log: uncounted(office.log) }), { rate: 2 });
      expect(office.json).toMatchObject({ events: 4, estimatedSeconds: 2, active: 1, underWay });
    });

    it('waits for a second of reading at most, where the log can count', async () => {
      const position = (index: number): Position => String(index).padStart(9, '0') as Position;
      let read = 0;
      async function* manyEvents(): AsyncGenerator<RecordedEvent, void, undefined> {
        for (read = 1; read <= 30_000; read++)
          yield await Promise.resolve({
            position: position(read),
            stream: plantStream('anne', read),
            revision: 0n,
            id: '',
            type: 'PlantDeleted',
            data: {},
            metadata: sampleMetadata(),
          });
      }
      const log = new Faults(office.log)
        .every('head', () => Promise.resolve(position(25_000)))
        .every('readAll', manyEvents).port;
      await estimate(office.desk({ log }), {});
      expect(read).toBe(20_001);
      expect(office.out).toContain('The log holds 25000 events.');
      expect(office.out).toContain('from the time to read 20000 of them.');
      expect(office.out).toMatch(/^While requests never cease it gives way to them, and may take \S+ s\.$/m);
      await estimate(office.desk({ log: uncounted(log) }), {});
      expect(read).toBe(25_001); // counting is reading, up to what was the end
    });

    it('may stop it', async () => {
      await run(office.log, 'anne', createPlant(1));
      office.interrupt(new Interrupted('stopped'));
      await expect(estimate(office.desk(), {})).rejects.toThrow('stopped');
      expect(office.out).toBe('');
    });
  });

  it('who gives a rebuild up hears which one it was', async () => {
    const underWay = await office.requested();
    expect(await cancel(office.desk())).toBe(true);
    expect(office.out).toBe(`rebuild ${underWay} is cancelled: what it has built is dropped\n`);
    await office.requested();
    await cancel(office.desk({ json: true }));
    expect(office.json).toEqual({ rebuild: await id(), outcome: 'cancelled: by cli:olga' });
    await expect(cancel(office.desk())).rejects.toThrow('no rebuild is under way');
  });

  describe('who goes back', () => {
    beforeEach(async () => {
      await office.answer();
      await office.requested();
      await promoted();
    });
    const rolledBack = async (): Promise<void> =>
      office.recorded({ type: 'RolledBack', data: { rebuild: await id(), generation: 1, replaced: 2 } });

    it('waits until it is done', async () => {
      expect(await rollback(scripted(nothing, rolledBack), 'odd')).toBe(true);
      expect(office.out).toBe('lists are answered from generation 1 again\n');
    });

    it('hears when the way back is gone', async () => {
      const closed = async (): Promise<void> =>
        office.recorded({ type: 'RebuildClosed', data: { rebuild: await id() } });
      expect(await rollback(scripted(closed), 'odd')).toBe(false);
      expect(office.out).toBe('there is no way back any more: the generation before is gone\n');
    });

    it('hears of no generation where the lists were lost since', async () => {
      const model = new Faults(office.model).every('generations', () => Promise.resolve([]));
      const desk = office.desk({ model: model.next('reports', after(rolledBack)).port, json: true });
      expect(await rollback(desk, 'odd')).toBe(true);
      expect(office.json).toEqual({ rolledBack: true, generation: null });
    });

    it('may stop waiting for it', async () => {
      const desk = scripted(() => {
        office.interrupt(new Interrupted('SIGINT'));
        return Promise.resolve();
      });
      await expect(rollback(desk, 'odd')).rejects.toThrow(new Interrupted('SIGINT'));
    });
  });
});
