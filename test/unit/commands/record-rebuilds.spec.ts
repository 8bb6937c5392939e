import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { plantStream, SKIPS_STREAM } from '../../../src/domain/stream.js';
import {
  type EventLog,
  LogUnavailable,
  OutcomeUnknown,
  START,
  WrongExpectedRevision,
} from '../../../src/log/event-log.js';
import { type RebuildEvent } from '../../../src/domain/operation.js';
import {
  cancelRebuild,
  type Operator,
  record,
  requestRebuild,
  requestRollback,
  skipEvent,
} from '../../../src/commands/record-rebuilds.js';
import { OperationRefused, RebuildNotUnderWay } from '../../../src/commands/rebuilds.js';
import { readRebuilds, readSkipDecisions, readSkips } from '../../../src/commands/read-rebuilds.js';
import { after, failing, failingAfterwards, Faults } from '../../support/domain-faults.js';
import { appendRaw, NOON, noon, outcomeOf, Stores } from '../../support/domain-stores.js';

const olga: Operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };
const otto: Operator = { actor: { sub: 'otto' }, correlationId: 'shift 8' };
/** An operator's request, and its retry: another HTTP request of the same command. */
const first: Operator = { actor: { sub: 'olga' }, correlationId: 'request 1', commandId: 'r1' };
const retry: Operator = { ...first, correlationId: 'request 2' };
const other: Operator = { ...first, correlationId: 'request 3', commandId: 'r2' };
/** The projector: what it records was asked for by no command. */
const nobody: Operator = { actor: { sub: 'projector' }, correlationId: 'rebuild' };

const ASKED = { rebuild: 'r1', rate: null, unskip: false };

let stores: Stores;
let log: EventLog;
let faults: Faults<EventLog>;
beforeEach(async () => {
  stores = new Stores();
  log = await stores.log();
  faults = new Faults(log);
});
afterEach(() => stores.remove());

const down = () => new LogUnavailable('it is down');
const unknown = () => new OutcomeUnknown('the connection broke');
const types = async (): Promise<string[]> =>
  (await log.readStream('operation-rebuilds')).map(({ type }) => type);
const happened = async (...events: RebuildEvent[]): Promise<void> => {
  for (const event of events) await record(log, await readRebuilds(log), event, nobody, NOON);
};
const rebuild = (by: Operator, asked = ASKED): Promise<void> => requestRebuild(faults.port, asked, by, noon);
const cancel = (by: Operator, only?: string): Promise<string> =>
  cancelRebuild(faults.port, 'by olga', by, noon, only);

describe('the history of rebuilds', () => {
  const skip = (revision: bigint, by: Operator = olga) =>
    skipEvent(
      faults.port,
      { id: `id-${revision}`, stream: plantStream('anne', 1), revision },
      'odd',
      by,
      noon,
    );
  const skips = async () => [...(await readSkips(log, START))];
  const lost = () => failing(() => new WrongExpectedRevision('operation-rebuilds', 'none'));

  it('tells of a first generation that a rebuild makes in place of what was lost: no way back', async () => {
    await rebuild(olga);
    await happened({ type: 'RebuildPromoted', data: { rebuild: 'r1', generation: 2, replaced: null } });
    expect((await readRebuilds(log)).promoted).toMatchObject({ generation: 2, replaced: undefined });
    await expect(requestRollback(log, 'odd', olga, noon)).rejects.toThrow('there is nothing to roll back to');
  });

  it('is read also where its beginning is missing: what follows from nothing changes nothing', async () => {
    await happened(
      { type: 'RebuildStarted', data: { rebuild: 'r1', generation: 2 } },
      { type: 'RollbackRequested', data: { rebuild: 'r1', reason: 'odd' } },
      { type: 'RolledBack', data: { rebuild: 'r1', generation: 1, replaced: 2 } },
    );
    expect(await readRebuilds(log)).toEqual({
      revision: 2n,
      building: undefined,
      skipsAfter: START,
      promoted: undefined,
      unread: [],
      blockedByUnknownEvent: undefined,
      last: { rebuild: 'r1', outcome: 'rolled back', at: NOON },
    });
    await happened({ type: 'RebuildPromoted', data: { rebuild: 'r1', generation: 2, replaced: 1 } });
    expect(await readRebuilds(log)).toMatchObject({ skipsAfter: START, promoted: { generation: 2 } });
  });

  it('has a request once, though its writer never heard that it was written', async () => {
    faults.next('append', failingAfterwards(unknown), failing(unknown));
    await rebuild(olga);
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
    await expect(rebuild(olga)).rejects.toThrow(OutcomeUnknown);
    expect(faults.calls('append')).toBe(3);
  });

  it('hides no failure of the log', async () => {
    faults.every('append', failing(down));
    await expect(rebuild(olga)).rejects.toThrow('it is down');
    expect(faults.calls('append')).toBe(1);
  });

  it('has one of two requests at the same time: the other one is decided on what it says then', async () => {
    faults.next(
      'append',
      after(() => requestRebuild(log, { ...ASKED, rebuild: 'first' }, otto, noon)),
    );
    await expect(rebuild(olga)).rejects.toThrow('rebuild first has been running');
    expect(await cancelRebuild(log, 'odd', olga, noon)).toBe('first');
  });

  it('refuses whoever is too slow five times', async () => {
    faults.every('append', lost());
    await expect(rebuild(olga)).rejects.toThrow(
      new OperationRefused('another operation was recorded in between: look at the status, and try again'),
    );
    await expect(skip(0n)).rejects.toThrow(
      new OperationRefused('other commands skip events at the same time: try again'),
    );
    expect(faults.calls('append')).toBe(10);
  });

  it('has both of two events that are skipped at the same time, from where one asks', async () => {
    faults.next(
      'append',
      after(() =>
        skipEvent(log, { id: 'id-7', stream: plantStream('anne', 1), revision: 7n }, 'odd', otto, noon),
      ),
    );
    await skip(3n);
    expect(await skips()).toEqual(['id-7@7', 'id-3@3']);
    const [first] = await log.readStream(SKIPS_STREAM);
    expect([...(await readSkips(log, first?.position ?? START))]).toEqual(['id-3@3']);
  });

  it('passes over what does not belong there, and says so', async () => {
    await appendRaw(log, 'operation-rebuilds', 'EventSkipped', { stream: 's', revision: 0, reason: 'odd' });
    await requestRebuild(log, ASKED, olga, noon);
    const state = await readRebuilds(log);
    expect(state).toMatchObject({
      revision: 1n,
      building: { rebuild: 'r1' },
      blockedByUnknownEvent: undefined,
    });
    expect(state.unread).toMatchObject([
      {
        stream: 'operation-rebuilds',
        revision: 0,
        kind: 'invalid',
        reason: expect.stringMatching('belongs'),
      },
    ]);
    await skipEvent(log, { id: 'id', stream: 'operation-rebuilds', revision: 0n }, 'odd', olga, noon);
    expect((await readRebuilds(log)).unread).toEqual([]);
  });

  it('has the decisions to skip that can be read, between others', async () => {
    const { position } = await appendRaw(log, 'operation-skips', 'EventSkipped', { stream: 7 });
    await skip(3n);
    expect(await skips()).toEqual(['id-3@3']);
    expect((await readSkipDecisions(log)).unread).toMatchObject([{ position, kind: 'invalid' }]);
    await skipEvent(log, { id: 'id', stream: 'operation-skips', revision: 0n }, 'odd', olga, noon);
    expect((await readSkipDecisions(log)).unread).toEqual([]);
  });
});

describe('an operation that its client named', () => {
  const promoted = (rebuild: string): RebuildEvent[] => [
    { type: 'RebuildStarted', data: { rebuild, generation: 2 } },
    { type: 'RebuildPromoted', data: { rebuild, generation: 2, replaced: 1 } },
  ];

  it('is taken on once: while it is under way, when it is over, and after another one', async () => {
    await rebuild(first);
    await rebuild(retry);
    await happened(...promoted('r1'));
    await rebuild(retry);
    await rebuild(other, { ...ASKED, rebuild: 'r2' });
    await rebuild(retry);
    expect((await readRebuilds(log)).building?.rebuild).toBe('r2');
    expect(await types()).toEqual([
      'RebuildRequested',
      'RebuildStarted',
      'RebuildPromoted',
      'RebuildRequested',
    ]);
  });

  it('is taken on once where its retry comes at the same time', async () => {
    await Promise.all([rebuild(first), rebuild(retry), rebuild(first), rebuild(retry)]);
    expect(await types()).toEqual(['RebuildRequested']);
  });

  it('says who asked, for which command and in which trace', async () => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    await rebuild({ ...first, actor: { sub: 'olga', clientId: 'console' }, traceparent });
    const [event] = await log.readStream('operation-rebuilds');
    expect(event?.metadata).toEqual({
      schemaVersion: 1,
      decidedAt: NOON.toISOString(),
      actor: { sub: 'olga', clientId: 'console' },
      correlationId: 'request 1',
      causationId: 'r1',
      traceparent,
    });
  });

  it.each<[what: string, ask: (log: EventLog) => Promise<unknown>]>([
    ['at another rate', (to) => requestRebuild(to, { ...ASKED, rate: 5 }, retry, noon)],
    ['with the skipped events', (to) => requestRebuild(to, { ...ASKED, unskip: true }, retry, noon)],
    ['to cancel', (to) => cancelRebuild(to, 'by olga', retry, noon, 'r1')],
    ['to go back', (to) => requestRollback(to, 'odd', retry, noon)],
  ])('is refused where the same name asks for something else: %s', async (_what, ask) => {
    await rebuild(first);
    expect(await outcomeOf(ask(log))).toBe('idempotency_key_reused');
    expect(await types()).toEqual(['RebuildRequested']);
  });

  it('is decided again where it was refused: nothing was taken on', async () => {
    await rebuild(other, { ...ASKED, rebuild: 'r2' });
    await expect(rebuild(first)).rejects.toThrow(OperationRefused);
    await cancel({ ...other, commandId: 'c' });
    await rebuild(retry);
    expect((await readRebuilds(log)).building?.rebuild).toBe('r1');
  });

  it('cancels once: what its retry finds under way is another one', async () => {
    await rebuild(first);
    const cancelling = { ...first, commandId: 'c' };
    expect(await cancel(cancelling, 'r1')).toBe('r1');
    await rebuild(other, { ...ASKED, rebuild: 'r2' });
    expect(await cancel(cancelling, 'r1')).toBe('r1');
    expect(await cancel(cancelling)).toBe('r1');
    expect((await readRebuilds(log)).building?.rebuild).toBe('r2');
  });

  it('goes back once, and not while something is built', async () => {
    await rebuild(first);
    await expect(requestRollback(log, 'odd', olga, noon)).rejects.toThrow('is running: cancel it first');
    await happened(...promoted('r1'));
    const back = (by: Operator, reason = 'odd') => requestRollback(log, reason, by, noon);
    expect(await back({ ...first, commandId: 'b' })).toBe('r1');
    expect(await back({ ...retry, commandId: 'b' })).toBe('r1');
    expect(await outcomeOf(back({ ...retry, commandId: 'b' }, 'odder'))).toBe('idempotency_key_reused');
    await expect(back({ ...retry, commandId: 'b2' })).rejects.toThrow('it was requested already');
  });

  it('is there for its retry where its first answer was that nobody knows', async () => {
    faults.next('append', failingAfterwards(unknown), failing(unknown), failing(unknown));
    await expect(rebuild(first)).rejects.toThrow(OutcomeUnknown);
    await rebuild(retry);
    expect(await types()).toEqual(['RebuildRequested']);
  });
});

describe('cancelling a rebuild by its id', () => {
  it('is refused while none is under way', async () => {
    await expect(cancel(other, 'r1')).rejects.toThrow(RebuildNotUnderWay);
  });

  it('is refused while another one is under way, which goes on', async () => {
    await rebuild(first);
    await expect(cancel(other, 'r')).rejects.toThrow('another rebuild is running: r1');
    expect((await readRebuilds(log)).building?.rebuild).toBe('r1');
  });

  it('is decided again where somebody was faster: it never hits the next one', async () => {
    await rebuild(first);
    faults.next('append', async (proceed, ...args) => {
      await cancelRebuild(log, 'by otto', { ...other, commandId: 'c' }, noon);
      await requestRebuild(log, { ...ASKED, rebuild: 'r3' }, { ...other, commandId: 'r3' }, noon);
      return proceed(...args);
    });
    await expect(cancel(other, 'r1')).rejects.toThrow(RebuildNotUnderWay);
    expect((await readRebuilds(log)).building?.rebuild).toBe('r3');
  });
});
