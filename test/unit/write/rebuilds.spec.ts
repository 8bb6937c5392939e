import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { plantStream, SKIPS_STREAM } from '../../../src/plants/stream.js';
import {
  type EventLog,
  LogUnavailable,
  OutcomeUnknown,
  START,
  WrongExpectedRevision,
} from '../../../src/ports/event-log.js';
import { type RebuildEvent } from '../../../src/plants/operation.js';
import {
  cancelRebuild,
  type Operator,
  record,
  requestRebuild,
  requestRollback,
  skipEvent,
} from '../../../src/write/rebuilds.js';
import { OperationRefused } from '../../../src/rebuilds/rebuilds.js';
import { readRebuilds, readSkipDecisions, readSkips } from '../../../src/rebuilds/read.js';
import { after, failing, failingAfterwards, Faults } from '../../support/domain-faults.js';
import { appendRaw, NOON, noon, Stores } from '../../support/domain-stores.js';

const olga: Operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };
const otto: Operator = { actor: { sub: 'otto' }, correlationId: 'shift 8' };
const ASKED = { rebuild: 'r', rate: null, unskip: false };

describe('the history of rebuilds', () => {
  let stores: Stores;
  let log: EventLog;
  let faults: Faults<EventLog>;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    faults = new Faults(log);
  });
  afterEach(() => stores.remove());

  const happened = async (...events: RebuildEvent[]): Promise<void> => {
    for (const event of events) await record(log, await readRebuilds(log), event, otto, NOON);
  };
  const types = async (): Promise<string[]> =>
    (await log.readStream('operation-rebuilds')).map(({ type }) => type);
  const request = (by: Operator = olga) => requestRebuild(faults.port, ASKED, by, noon);
  const skip = (revision: bigint, by: Operator = olga) =>
    skipEvent(faults.port, { stream: plantStream('anne', 1), revision }, 'odd', by, noon);
  const skips = async () => [...(await readSkips(log, START))];
  const down = () => new LogUnavailable('it is down');
  const unknown = () => new OutcomeUnknown('the connection broke');
  const lost = () => failing(() => new WrongExpectedRevision('operation-rebuilds', 'none'));

  it('tells of a first generation that a rebuild makes in place of what was lost: no way back', async () => {
    await request();
    await happened({ type: 'RebuildPromoted', data: { rebuild: 'r', generation: 2, replaced: null } });
    expect((await readRebuilds(log)).promoted).toMatchObject({ generation: 2, replaced: undefined });
    await expect(requestRollback(log, 'odd', olga, noon)).rejects.toThrow('there is nothing to go back to');
  });

  it('is read also where its beginning is missing: what follows from nothing changes nothing', async () => {
    await happened(
      { type: 'RebuildStarted', data: { rebuild: 'r', generation: 2 } },
      { type: 'RollbackRequested', data: { rebuild: 'r', reason: 'odd' } },
      { type: 'RolledBack', data: { rebuild: 'r', generation: 1, replaced: 2 } },
    );
    expect(await readRebuilds(log)).toEqual({
      revision: 2n,
      building: undefined,
      skipsAfter: START,
      promoted: undefined,
      unread: [],
      heldBy: undefined,
      last: { rebuild: 'r', outcome: 'rolled back', at: NOON },
    });
    await happened({ type: 'RebuildPromoted', data: { rebuild: 'r', generation: 2, replaced: 1 } });
    expect(await readRebuilds(log)).toMatchObject({ skipsAfter: START, promoted: { generation: 2 } });
  });

  it('has a request once, though its writer never heard that it was written', async () => {
    faults.next('append', failingAfterwards(unknown), failing(unknown));
    await request();
    expect(await types()).toEqual(['RebuildRequested']);
    expect(faults.calls('append')).toBe(3);
  });

  it('waits before each further try, longer each time', async () => {
    faults.every('append', failing(unknown));
    const pauses: number[] = [];
    const wait = (ms: number): Promise<void> => {
      expect(faults.calls('append')).toBe(pauses.push(ms));
      return Promise.resolve();
    };
    const event: RebuildEvent = { type: 'RebuildRequested', data: ASKED };
    const recorded = record(faults.port, await readRebuilds(log), event, otto, NOON, wait);
    await expect(recorded).rejects.toThrow(OutcomeUnknown);
    const [first = 0, second = 0, ...more] = pauses;
    expect([first >= 25, first <= 50, second >= 50, second <= 100]).toEqual([true, true, true, true]);
    expect(more).toEqual([]);
  });

  it('is not written for ever: after three tries the writer hears that it may be there', async () => {
    faults.next('append', failing(unknown)).every('append', failing(down));
    await expect(request()).rejects.toThrow(OutcomeUnknown);
    expect(faults.calls('append')).toBe(3);
  });

  it('hides no failure of the log', async () => {
    faults.every('append', failing(down));
    await expect(request()).rejects.toThrow('it is down');
    expect(faults.calls('append')).toBe(1);
  });

  it('has one of two requests at the same time: the other one is decided on what it says then', async () => {
    faults.next(
      'append',
      after(() => requestRebuild(log, { ...ASKED, rebuild: 'first' }, otto, noon)),
    );
    await expect(request()).rejects.toThrow('rebuild first is under way');
    expect(await cancelRebuild(log, 'odd', olga, noon)).toBe('first');
  });

  it('refuses whoever is too slow five times', async () => {
    faults.every('append', lost());
    await expect(request()).rejects.toThrow(
      new OperationRefused('others operate at the same time: look at the status, and try again'),
    );
    await expect(skip(0n)).rejects.toThrow(
      new OperationRefused('others skip events at the same time: try again'),
    );
    expect(faults.calls('append')).toBe(10);
  });

  it('has both of two events that are skipped at the same time, from where one asks', async () => {
    faults.next(
      'append',
      after(() => skipEvent(log, { stream: plantStream('anne', 1), revision: 7n }, 'odd', otto, noon)),
    );
    await skip(3n);
    expect(await skips()).toEqual([`${plantStream('anne', 1)}@7`, `${plantStream('anne', 1)}@3`]);
    const [first] = await log.readStream(SKIPS_STREAM);
    expect([...(await readSkips(log, first?.position ?? START))]).toEqual([`${plantStream('anne', 1)}@3`]);
  });

  it('has no way back twice, and none while something is built', async () => {
    await request();
    await expect(requestRollback(log, 'odd', olga, noon)).rejects.toThrow('is under way: cancel it first');
    await happened({ type: 'RebuildPromoted', data: { rebuild: 'r', generation: 2, replaced: 1 } });
    expect(await requestRollback(log, 'odd', olga, noon)).toBe('r');
    await expect(requestRollback(log, 'odd', olga, noon)).rejects.toThrow('that was asked for already');
  });

  it('passes over what does not belong there, and says so', async () => {
    await appendRaw(log, 'operation-rebuilds', 'EventSkipped', { stream: 's', revision: 0, reason: 'odd' });
    await requestRebuild(log, ASKED, olga, noon);
    const state = await readRebuilds(log);
    expect(state).toMatchObject({ revision: 1n, building: { rebuild: 'r' }, heldBy: undefined });
    expect(state.unread).toMatchObject([
      {
        stream: 'operation-rebuilds',
        revision: 0,
        kind: 'invalid',
        reason: expect.stringMatching('belongs'),
      },
    ]);
    await skipEvent(log, { stream: 'operation-rebuilds', revision: 0n }, 'odd', olga, noon);
    expect((await readRebuilds(log)).unread).toEqual([]);
  });

  it('has the decisions to skip that can be read, between others', async () => {
    const { position } = await appendRaw(log, 'operation-skips', 'EventSkipped', { stream: 7 });
    await skip(3n);
    expect(await skips()).toEqual([`${plantStream('anne', 1)}@3`]);
    expect((await readSkipDecisions(log)).unread).toMatchObject([{ position, kind: 'invalid' }]);
    await skipEvent(log, { stream: 'operation-skips', revision: 0n }, 'odd', olga, noon);
    expect((await readSkipDecisions(log)).unread).toEqual([]);
  });
});
