import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type RebuildEvent } from '../../../src/plants/operation.js';
import { type EventLog, LogUnavailable, OutcomeUnknown } from '../../../src/ports/event-log.js';
import {
  cancelRebuild,
  type Operator,
  record,
  requestRebuild,
  requestRollback,
} from '../../../src/write/rebuilds.js';
import { OperationRefused, RebuildNotUnderWay } from '../../../src/rebuilds/rebuilds.js';
import { readRebuilds } from '../../../src/rebuilds/read.js';
import { failing, failingAfterwards, Faults } from '../../support/domain-faults.js';
import { NOON, noon, outcomeOf, Stores } from '../../support/domain-stores.js';

/** An operator's request, and its retry: another HTTP request of the same command. */
const first: Operator = { actor: { sub: 'olga' }, correlationId: 'request 1', commandId: 'r1' };
const retry: Operator = { ...first, correlationId: 'request 2' };
const other: Operator = { ...first, correlationId: 'request 3', commandId: 'r2' };
/** The projector: what it records was asked for by no command. */
const nobody: Operator = { actor: { sub: 'projector' }, correlationId: 'rebuild' };

const ASKED = { rebuild: 'r1', rate: null, unskip: false };

describe('an operation that its client named', () => {
  let stores: Stores;
  let log: EventLog;
  let faults: Faults<EventLog>;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    faults = new Faults(log);
  });
  afterEach(() => stores.remove());

  const types = async (): Promise<string[]> =>
    (await log.readStream('operation-rebuilds')).map(({ type }) => type);
  const happened = async (...events: RebuildEvent[]): Promise<void> => {
    for (const event of events) await record(log, await readRebuilds(log), event, nobody, NOON);
  };
  const promoted = (rebuild: string): RebuildEvent[] => [
    { type: 'RebuildStarted', data: { rebuild, generation: 2 } },
    { type: 'RebuildPromoted', data: { rebuild, generation: 2, replaced: 1 } },
  ];
  const rebuild = (by: Operator, asked = ASKED): Promise<void> =>
    requestRebuild(faults.port, asked, by, noon);
  const cancel = (by: Operator, only?: string): Promise<string> =>
    cancelRebuild(faults.port, 'by olga', by, noon, only);

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

  it('is decided anew where it was refused: nothing was taken on', async () => {
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

  it('goes back once', async () => {
    await rebuild(first);
    await happened(...promoted('r1'));
    const back = (by: Operator, reason = 'odd') => requestRollback(log, reason, by, noon);
    expect(await back({ ...first, commandId: 'b' })).toBe('r1');
    expect(await back({ ...retry, commandId: 'b' })).toBe('r1');
    expect(await outcomeOf(back({ ...retry, commandId: 'b' }, 'odder'))).toBe('idempotency_key_reused');
    await expect(back({ ...retry, commandId: 'b2' })).rejects.toThrow('that was asked for already');
  });

  it('is there for its retry where its first answer was that nobody knows', async () => {
    const unknown = (): Error => new OutcomeUnknown('cut');
    faults.next('append', failingAfterwards(unknown), failing(unknown), failing(unknown));
    await expect(rebuild(first)).rejects.toThrow(OutcomeUnknown);
    await rebuild(retry);
    expect(await types()).toEqual(['RebuildRequested']);
  });

  it('stays unknown where the log cannot be reached any more: it may have been written', async () => {
    const gone = failing(() => new LogUnavailable('gone'));
    faults.next(
      'append',
      failingAfterwards(() => new OutcomeUnknown('cut')),
      gone,
      gone,
    );
    await expect(rebuild(first)).rejects.toThrow(OutcomeUnknown);
    faults.next('append', gone);
    await expect(rebuild(other, { ...ASKED, rebuild: 'r2' })).rejects.toThrow(OperationRefused);
  });
});

describe('cancelling a rebuild by its id', () => {
  let stores: Stores;
  let log: EventLog;
  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
  });
  afterEach(() => stores.remove());

  const cancel = (only: string): Promise<string> => cancelRebuild(log, 'by olga', other, noon, only);

  it('is refused while none is under way', async () => {
    await expect(cancel('r1')).rejects.toThrow(RebuildNotUnderWay);
  });

  it('is refused while another one is under way, which goes on', async () => {
    await requestRebuild(log, ASKED, first, noon);
    await expect(cancel('r')).rejects.toThrow('another rebuild is under way: r1');
    expect((await readRebuilds(log)).building?.rebuild).toBe('r1');
  });

  it('is decided anew where somebody was faster: it never hits the next one', async () => {
    await requestRebuild(log, ASKED, first, noon);
    const faults = new Faults(log);
    faults.next('append', async (proceed, ...args) => {
      await cancelRebuild(log, 'by otto', { ...other, commandId: 'c' }, noon);
      await requestRebuild(log, { ...ASKED, rebuild: 'r3' }, { ...other, commandId: 'r3' }, noon);
      return proceed(...args);
    });
    await expect(cancelRebuild(faults.port, 'by olga', other, noon, 'r1')).rejects.toThrow(
      RebuildNotUnderWay,
    );
    expect((await readRebuilds(log)).building?.rebuild).toBe('r3');
  });
});
