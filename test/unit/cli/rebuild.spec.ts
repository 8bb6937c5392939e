import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Interrupted } from '../../../src/cli/interrupted.js';
import { cancel, estimate, rebuild } from '../../../src/cli/commands/rebuild.js';
import { rollback } from '../../../src/cli/commands/rollback.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type Position, type RecordedEvent, START } from '../../../src/log/event-log.js';
import { type Generation } from '../../../src/lists/read-model.js';
import { ReadModelUnavailable } from '../../../src/lists/read-model.js';
import { readRebuilds } from '../../../src/commands/read-rebuilds.js';
import { after, failing, Faults } from '../../support/domain-faults.js';
import { catchUp, NOON, run } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { sampleMetadata } from '../../support/log-events.js';
import { Office, uncounted } from './command-for-tests.js';

const NOBODY = 'no projector runs: the request waits until one is started';
const STANDBY = 'no projector works (oak/7 is standby): the request waits until one does';

let office: Office;
let time: number;
let listsAreLost: boolean;
beforeEach(async () => {
  listsAreLost = false;
  office = await Office.open();
  time = NOON.getTime();
});
afterEach(() => office.close());

/** Runs before a command reads the status. */
type Look = () => Promise<unknown>;

/** A desk where each look of a command finds what has happened before it. */
const scripted = (...looks: Look[]) => ({
  ...office.desk({
    model: new Faults(office.model)
      .next('reports', ...looks.map((look) => after(look)))
      .every('generations', (proceed) => (listsAreLost ? Promise.resolve([]) : proceed())).port,
  }),
  now: () => new Date(time),
});

const id = async (): Promise<string> => {
  const { building, last } = await readRebuilds(office.log);
  return building?.rebuild ?? last?.rebuild ?? '';
};
const nothing: Look = () => Promise.resolve();
const standby: Look = () => office.tell({ state: 'standby', since: NOON });
const working: Look = () =>
  office.tell({ state: 'live', since: NOON, generation: 1 as Generation, position: START });
const passes =
  (ms: number): Look =>
  () =>
    Promise.resolve((time += ms));
const stops: Look = () => {
  office.interrupt(new Interrupted('SIGINT'));
  return Promise.resolve();
};
const cancelled: Look = () => cancel(office.desk());
const promoted: Look = async () =>
  office.recorded({ type: 'RebuildPromoted', data: { rebuild: await id(), generation: 2, replaced: 1 } });
const closed: Look = async () => office.recorded({ type: 'RebuildClosed', data: { rebuild: await id() } });
const wayBack: Look = async () =>
  office.recorded({ type: 'RollbackRequested', data: { rebuild: await id(), reason: 'odd' } });
const lost: Look = () => Promise.resolve((listsAreLost = true));
const inTurn =
  (...looks: Look[]): Look =>
  async () => {
    for (const look of looks) await look();
  };
const switched: Look = async () => {
  const second = await office.model.createGeneration();
  await catchUp(office.log, office.model, second);
  await office.model.promote(second);
};
const rolledBack: Look = async () =>
  office.recorded({ type: 'RolledBack', data: { rebuild: await id(), generation: 1, replaced: 2 } });
/** A projector tells how far the rebuild is. */
const at =
  (phase: 'building' | 'verifying', more: object): Look =>
  async () =>
    office.tell(
      { state: 'standby', since: NOON },
      { rebuild: await id(), phase, position: START, events: 2, elapsedMs: 1, share: 0, ...more },
    );
const switchFails: Look = () =>
  office.tellText(
    'one',
    JSON.stringify({
      ...{ host: 'oak', pid: 7, roles: [], version: '1', address: '', since: '', rebuild: null },
      ...{ projector: { state: 'live', since: '' }, rebuildProblem: 'generation 2 stands behind' },
    }),
  );

describe('who asks for a rebuild', () => {
  it.each<readonly [string, Look, string]>([
    ['none runs', nothing, `; ${NOBODY}`],
    ['none works', standby, `; ${STANDBY}`],
    ['one works', working, ''],
  ])('without waiting is told whether it waits for a projector: %s', async (_what, look, told) => {
    await look();
    expect(await rebuild(office.desk(), { wait: false })).toBe(true);
    expect(office.out).toBe(`requested rebuild ${await id()}${told}\n`);
  });

  it.each<readonly [what: string, looks: Look[], reason: string]>([
    [
      'no projector runs',
      [nothing, passes(16_000)],
      `${NOBODY}. Not waiting any longer: plants status shows its progress`,
    ],
    [
      'no projector works',
      [standby, passes(16_000)],
      `${STANDBY}. Not waiting any longer: plants status shows its progress`,
    ],
    [
      'lists are not switched over',
      [promoted, switchFails, passes(61_000)],
      'is verified, but lists are not answered from it: generation 2 stands behind. It is tried again',
    ],
    ['somebody stops watching', [stops], 'SIGINT'],
  ])('does not wait for ever where %s; the rebuild goes on', async (_what, looks, reason) => {
    await office.answer();
    await expect(rebuild(scripted(...looks), { wait: true })).rejects.toThrow(reason);
    if (reason.startsWith('no projector')) expect(office.err).toContain(`${reason.split('.')[0] ?? ''}\n`);
    const { building, last } = await readRebuilds(office.log);
    expect(building ?? last).toBeDefined();
  });

  it.each<readonly [what: string, looks: Look[], printed: RegExp | object]>([
    [
      'it is promoted, once lists are answered from it',
      [promoted, switched],
      /was verified and promoted after [\d. mins]+: lists are answered from generation 2\n$/,
    ],
    [
      'it is promoted, also when somebody has asked for the way back since',
      [inTurn(promoted, wayBack)],
      { outcome: 'promoted', generation: 1 },
    ],
    [
      'it is promoted, where the lists were lost right after',
      [inTurn(promoted, lost, closed)],
      { outcome: 'promoted', generation: null },
    ],
    [
      'it is cancelled, while projectors come and go',
      [standby, working, standby, cancelled],
      /^rebuild \S+ was cancelled: by cli:olga$/m,
    ],
    [
      'another one has followed it',
      [inTurn(cancelled, () => office.requested(), cancelled)],
      /^rebuild \S+ was followed by another one$/m,
    ],
  ])('hears that %s', async (_what, looks, printed) => {
    await office.answer();
    const isText = printed instanceof RegExp;
    const isPromoted = !isText || printed.source.includes('promoted');
    expect(await rebuild({ ...scripted(...looks), json: !isText }, { wait: true })).toBe(isPromoted);
    if (isText) expect(office.out).toMatch(printed);
    else expect([office.json, office.err]).toEqual([expect.objectContaining(printed), '']);
  });

  it('sees how far it is, what keeps it from getting on, and a store that is away', async () => {
    const looks = [
      at('building', { share: 0.254, secondsLeft: 3 }),
      at('building', { problem: 'the disk is full' }),
      at('verifying', { share: 0.8 }),
    ].map((look) => after(look));
    const down = failing(() => new ReadModelUnavailable('it is down'));
    const model = new Faults(office.model).next('reports', ...looks, down, after(cancelled)).port;
    await rebuild(office.desk({ model }), { rate: 10, wait: true });
    expect(office.err.split('\n').slice(1, -1)).toEqual([
      'rebuild: 25% building, 2 events, 2000/s, 3 s left',
      'it is failing, retrying: the disk is full',
      'rebuild: 80% verifying',
      'the read model does not answer: it is down',
      'rebuild: 80% verifying',
    ]);
    expect(await office.log.readStream('operation-rebuilds')).toContainEqual(
      expect.objectContaining({ data: expect.objectContaining({ rate: 10 }) as unknown }),
    );
  });

  it('and gives it up hears which one it was', async () => {
    const underWay = await office.requested();
    expect(await cancel(office.desk())).toBe(true);
    expect(office.out).toBe(`rebuild ${underWay} is cancelled: what it has built is dropped\n`);
    await office.requested();
    await cancel(office.desk({ json: true }));
    expect(office.json).toEqual({ rebuild: await id(), outcome: 'cancelled: by cli:olga' });
    await expect(cancel(office.desk())).rejects.toThrow('no rebuild is running');
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
    expect(office.out).toContain(`Now it would be refused: rebuild ${underWay} is running.`);
    await estimate(office.desk({ json: true, log: uncounted(office.log) }), { rate: 2 });
    expect(office.json).toMatchObject({ events: 4, estimatedSeconds: 2, active: 1, underWay });
  });

  it('waits for a second of reading at most, where the log can count', async () => {
    const position = (index: number): Position => String(index).padStart(9, '0') as Position;
    const event = { revision: 0n, id: '', type: 'PlantDeleted', data: {}, metadata: sampleMetadata() };
    let read = 0;
    async function* manyEvents(): AsyncGenerator<RecordedEvent, void, undefined> {
      for (read = 1; read <= 30_000; read++)
        yield await Promise.resolve({
          ...event,
          position: position(read),
          stream: plantStream('anne', read),
        });
    }
    const log = new Faults(office.log)
      .every('head', () => Promise.resolve(position(25_000)))
      .every('readAll', manyEvents).port;
    await estimate(office.desk({ log }), {});
    expect(read).toBe(20_001);
    expect(office.out).toContain('The log holds 25000 events.');
    expect(office.out).toContain('from the time to read 20000 of them.');
    expect(office.out).toMatch(
      /^While requests never cease it gives way to them, and may take [\d. mins]+\.$/m,
    );
    await estimate(office.desk({ log: uncounted(log) }), {});
    expect(read).toBe(25_001); // counting is reading, up to what was the end
  });

  it('may stop it', async () => {
    await run(office.log, 'anne', createPlant(1));
    await stops();
    await expect(estimate(office.desk(), {})).rejects.toThrow('SIGINT');
    expect(office.out).toBe('');
  });
});

describe('who goes back', () => {
  it.each<readonly [what: string, looks: Look[], well: boolean, text: string]>([
    ['is done', [nothing, rolledBack], true, 'lists are answered from generation 1 again\n'],
    [
      'cannot be done any more',
      [closed],
      false,
      'there is no way back any more: the generation before is gone\n',
    ],
    [
      'is done, and the lists were lost since',
      [inTurn(lost, rolledBack)],
      true,
      '{"rolledBack":true,"generation":null}\n',
    ],
    ['is awaited no longer', [stops], false, ''],
  ])('waits until it %s', async (_what, looks, well, text) => {
    await office.answer();
    await office.requested();
    await promoted();
    const rolling = rollback({ ...scripted(...looks), json: text.startsWith('{') }, 'odd');
    if (looks.includes(stops)) await expect(rolling).rejects.toThrow(new Interrupted('SIGINT'));
    else expect(await rolling).toBe(well);
    expect(office.out).toBe(text);
  });
});
