import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type EventLog, LogUnavailable, type Position } from '../../../src/log/event-log.js';
import { LogHead } from '../../../src/lists/log-head.js';
import { Faults, gate, logGone } from '../../support/domain-faults.js';
import { run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';
import { until } from '../../support/waiting.js';

/** Long enough for everything here. */
const WINDOW_MS = 60_000;

describe('what is known of the head of the log', () => {
  let stores: Stores;
  let log: Faults<EventLog>;
  let head: LogHead | undefined;

  beforeEach(async () => {
    stores = new Stores();
    log = new Faults(await stores.log());
  });
  afterEach(async () => {
    head?.close();
    await stores.remove();
  });

  const headOf = async (windowMs = WINDOW_MS): Promise<LogHead> => {
    const askedAt = performance.now();
    head = new LogHead(log.port, windowMs, { askedAt, head: await log.port.head() });
    return head;
  };
  /** The log has its next head ready once `begun` is open, and answers it once `released` is. */
  const holdNext = () => {
    const [begun, released] = [gate(), gate()];
    log.next('head', async (proceed) => {
      const answer = await proceed();
      begun.open();
      await released.opened;
      return answer;
    });
    return { begun, released };
  };
  const append = async (id: number): Promise<Position> =>
    (await run(log.port, 'anne', createPlant(id))).position;

  it('is the oldest that was asked for after a moment, and nothing where there is none', async () => {
    const before = performance.now();
    const known = await headOf();
    const [first] = [await log.port.head()];
    const between = performance.now();
    const second = await append(1);
    expect(await known.askedSince(between)).toBe(second);
    const third = await append(2);
    expect(known.knownSince(before)).toBe(first);
    expect(known.knownSince(between)).toBe(second);
    expect(known.knownSince(performance.now())).toBeUndefined();
    expect(await known.askedSince(performance.now())).toBe(third);
  });

  it('is asked for once for all who ask together; who comes later waits for the next answer', async () => {
    const known = await headOf();
    const asked = log.calls('head');
    const { begun, released } = holdNext();
    const early = [performance.now(), performance.now()].map((since) => known.askedSince(since - 1));
    await begun.opened;
    const position = await append(1);
    const late = [1, 2, 3].map(() => known.askedSince(performance.now()));
    released.open();
    expect(new Set(await Promise.all(early)).has(position)).toBe(false);
    expect(await Promise.all(late)).toEqual([position, position, position]);
    expect(log.calls('head')).toBe(asked + 2);
  });

  it('is as old as its question, however late the answer comes', async () => {
    const known = await headOf();
    const { begun, released } = holdNext();
    const asked = known.askedSince(performance.now());
    await begun.opened;
    const between = performance.now();
    const position = await append(1);
    released.open();
    expect((await asked) < position).toBe(true);
    expect(known.knownSince(between)).toBeUndefined();
  });

  it('is asked for in the background while somebody wants to know it, so that later ones find it', async () => {
    const known = await headOf(200);
    known.knownSince(performance.now());
    const position = await append(1);
    await until(() => known.knownSince(performance.now() - 200) === position);
    known.close();
    const asked = log.calls('head');
    expect(known.knownSince(performance.now())).toBeUndefined();
    expect(log.calls('head')).toBe(asked);
  });

  it('is unknown while the log cannot be asked, and known again when it can', async () => {
    const known = await headOf(200);
    log.every('head', logGone);
    await until(() => known.knownSince(performance.now() - 200) === undefined);
    const asked = log.calls('head');
    await until(() => log.calls('head') > asked + 1); // in the background, where nobody hears that it failed
    await expect(known.askedSince(performance.now())).rejects.toThrow(LogUnavailable);
    log.heal('head');
    const position = await append(1);
    await until(() => known.knownSince(performance.now() - 200) === position);
  });
});
