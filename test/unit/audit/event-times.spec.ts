import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { plantsAsOf } from '../../../src/history/as-of.js';
import { Auditor } from '../../../src/audit/auditor.js';
import { parseInstant } from '../../../src/history/instant.js';
import { recheck, RecheckProgress } from '../../../src/audit/recheck.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type EventMetadata } from '../../../src/log/event-log.js';
import { AuditedLog } from '../../support/audited-log.js';
import { noon } from '../../support/domain-stores.js';
import { sampleMetadata } from '../../support/log-events.js';

/** When AuditedLog has its checkpoints signed. */
const SIGNED = '2026-01-31T12:00:00.000Z';

describe('times of events', () => {
  let log: AuditedLog;
  let plants = 1_000;

  beforeEach(async () => {
    log = await AuditedLog.open();
    await log.fill(20);
    await log.sign();
  });
  afterEach(() => log.remove());

  const append = async (...decidedAt: string[]): Promise<void> => {
    for (const at of decidedAt) {
      const id = (plants += 1);
      const metadata: EventMetadata = sampleMetadata({ decidedAt: at });
      const data = { id, name: 'Fern', tag: '' };
      await log.log.append(plantStream('mallory', id), 'none', [
        { id: `e${id}`, type: 'PlantCreated', data, metadata },
      ]);
    }
  };
  const options = () => ({ now: noon, yieldToLoop: () => Promise.resolve(), patienceMs: 0, keys: [log.key] });
  const read = async () => {
    const reread = new RecheckProgress();
    expect(await recheck(log.log, log.tree, options(), new AbortController().signal, reread)).toBeUndefined();
    return reread.read.times.doubtful;
  };

  it('agree with the checkpoints around them, with a minute to spare, or are not judged', async () => {
    await append(SIGNED, '2026-01-31T11:59:01.000Z', '2026-01-31T12:00:59.000Z', 'at noon');
    await log.sign();
    await append('2026-03-01T00:00:00.000Z'); // no checkpoint holds it yet
    expect(await read()).toBeUndefined();
  });

  it('are doubtful where a checkpoint was signed after an event was decided, and does not hold it', async () => {
    await append('2026-01-30T00:00:00.000Z', '2026-01-29T00:00:00.000Z');
    await log.sign();
    expect(await read()).toEqual({
      count: 2,
      position: '0000000000000021',
      message: expect.stringMatching(
        /^the time of event 0 of plant-.* cannot be true: it says that it was decided at 2026-01-30T00:00:00.0+Z, but a checkpoint of 2026-01-31T12:00:00.000Z does not hold it yet$/,
      ) as unknown,
    });
  });

  it('are doubtful where a checkpoint holds an event that was decided later', async () => {
    await append('2026-02-01T00:00:00.000Z');
    await log.sign();
    expect(await read()).toMatchObject({
      count: 1,
      message: expect.stringMatching(
        /but a checkpoint of 2026-01-31T12:00:00.000Z holds it already$/,
      ) as unknown,
    });
  });

  it('are still known where a reading goes on after it has failed', async () => {
    await append('2026-01-30T00:00:00.000Z');
    await log.fill(600);
    await log.sign();
    const reread = new RecheckProgress();
    const stopping = new AbortController();
    let slices = 0;
    const yieldToLoop = (): Promise<void> => {
      if (++slices === 24) stopping.abort();
      return Promise.resolve();
    };
    await recheck(log.log, log.tree, { ...options(), yieldToLoop }, stopping.signal, reread);
    expect(reread.read.tree.size).toBe(512);
    expect(reread.read.times.doubtful).toMatchObject({ count: 1, position: '0000000000000021' });
    await recheck(log.log, log.tree, options(), new AbortController().signal, reread);
    expect(reread.read.times.doubtful).toMatchObject({ count: 1 });
  });

  it('are a warning of the auditor, and no alarm; a list as of a position stays what it was', async () => {
    const head = await log.log.head();
    const asOf = async (point: Parameters<typeof plantsAsOf>[2]): Promise<number> => {
      const now = await log.log.head();
      const page = { after: undefined, limit: 10 };
      return (await plantsAsOf(log.log, 'mallory', point, page, now, new AbortController().signal)).plants
        .length;
    };
    const instant = parseInstant('2026-01-30T12:00:00Z');
    if (!instant) throw new Error('no instant');
    expect([await asOf({ instant }), await asOf({ position: head })]).toEqual([0, 0]);
    await append('2026-01-30T00:00:00.000Z');
    expect([await asOf({ instant }), await asOf({ position: head })]).toEqual([1, 0]);
    const warnings: string[] = [];
    const stopping = new AbortController();
    const auditor = new Auditor(log.log, log.tree, log.key, {
      ...options(),
      yieldToLoop: () => new Promise(setImmediate),
      recheckMs: 20,
      onState: () => undefined,
      onWarning: (warning) => {
        if (warning.includes('cannot be true')) warnings.push(warning);
      },
    });
    const running = auditor.run(stopping.signal);
    while (warnings.length === 0) await new Promise(setImmediate);
    expect(auditor.status).toMatchObject({
      alarm: undefined,
      times: { count: 1, position: '0000000000000021' },
    });
    stopping.abort();
    await running;
    expect(warnings).toHaveLength(1);
  });
});
