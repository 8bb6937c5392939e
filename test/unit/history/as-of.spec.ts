import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PastLists, PastUnavailable, plantsAsOf, type PointInTime } from '../../../src/history/as-of.js';
import { parseInstant } from '../../../src/history/instant.js';
import { NO_SKIPS } from '../../../src/domain/skips.js';
import { EventRefused } from '../../../src/domain/errors.js';
import { plantStream, REBUILDS_STREAM, SKIPS_STREAM } from '../../../src/domain/stream.js';
import { type EventLog, type Position, START } from '../../../src/log/event-log.js';
import { Faults, gate } from '../../support/domain-faults.js';
import { appendRaw, contextOf, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { runCommand } from '../../../src/commands/plant-commands.js';
import { never } from '../../support/waiting.js';

const at = (text: string): PointInTime => {
  const instant = parseInstant(text);
  if (instant === undefined) throw new Error(`${text} is no instant`);
  return { instant };
};
const FIRST_PAGE = { after: undefined, limit: 100 };

let stores: Stores;
let log: EventLog;
beforeEach(async () => {
  stores = new Stores();
  log = await stores.log();
});
afterEach(() => stores.remove());

const list = async (
  point: PointInTime,
  page: { after: number | undefined; limit: number } = FIRST_PAGE,
  maxPlants?: number,
) => plantsAsOf(log, 'anne', point, page, await log.head(), never(), maxPlants);

const idsAt = async (point: PointInTime): Promise<number[]> => (await list(point)).plants.map(({ id }) => id);

/** Runs a command by a clock of its own. */
const runAt = (time: string, command: Parameters<typeof run>[2], owner = 'anne') =>
  runCommand(
    { log, now: () => new Date(time), skips: () => Promise.resolve(NO_SKIPS) },
    owner,
    command,
    contextOf(),
  );

describe('the list as it was', () => {
  it('at each position is the fold up to there', async () => {
    const positions: Position[] = [START];
    const keep = async (running: Promise<{ position: Position }>): Promise<void> => {
      positions.push((await running).position);
    };
    await keep(run(log, 'anne', createPlant(2, 'two', 't')));
    await keep(run(log, 'bob', createPlant(9)));
    await keep(run(log, 'anne', createPlant(-1)));
    await keep(run(log, 'anne', deletePlant(2)));
    await keep(run(log, 'anne', createPlant(2, 'again')));
    const lists = [];
    for (const position of positions) lists.push(await idsAt({ position }));
    expect(lists).toEqual([[], [2], [2], [-1, 2], [-1], [-1, 2]]);
    const third = { position: positions[2] ?? START };
    expect(await list(third)).toEqual({
      plants: [{ id: 2, name: 'two', tag: 't' }],
      more: undefined,
      position: positions[1], // nothing is told about when others did something
    });
  });

  it('at an instant is the fold of what was decided by then, whatever the order of the clocks', async () => {
    await runAt('2026-01-01T10:00:00.000Z', createPlant(1));
    await runAt('2030-01-01T00:00:00.000Z', createPlant(2)); // a clock that is years ahead
    await runAt('2026-01-01T11:00:00.000Z', createPlant(3));
    await runAt('2026-01-01T12:00:00.000Z', deletePlant(1));
    expect(await idsAt(at('2026-01-01T09:59:59.999Z'))).toEqual([]);
    expect(await idsAt(at('2026-01-01T10:00:00Z'))).toEqual([1]);
    expect(await idsAt(at('2026-01-01T11:59:59Z'))).toEqual([1, 3]);
    expect(await idsAt(at('2026-01-01T13:00:00+01:00'))).toEqual([3]);
    expect(await idsAt(at('2030-01-01T00:00:00Z'))).toEqual([2, 3]);
  });

  it('comes in pages, also where it does not fit into memory', async () => {
    for (let id = 0; id < 50; id++) await run(log, 'anne', createPlant((id * 37) % 50));
    for (const id of [0, 1, 2, 3, 4, 5, 6, 20]) await run(log, 'anne', deletePlant(id));
    const point = { position: await log.head() };
    for (const maxPlants of [undefined, 8]) {
      const ids: number[] = [];
      let after: number | undefined;
      do {
        const page = await list(point, { after, limit: 7 }, maxPlants);
        expect(page.plants.length).toBeLessThanOrEqual(7);
        ids.push(...page.plants.map(({ id }) => id));
        after = page.more;
      } while (after !== undefined);
      expect(ids).toEqual(Array.from({ length: 50 }, (_, id) => id).filter((id) => id > 6 && id !== 20));
    }
  });

  it('stops at an event that cannot be read, unless an operator has decided to skip it', async () => {
    await run(log, 'anne', createPlant(1));
    await appendRaw(log, plantStream('bob', 1), 'PlantWatered', {});
    expect(await idsAt({ position: await log.head() })).toEqual([1]); // bob's is none of hers
    const stream = plantStream('anne', 2);
    await appendRaw(log, stream, 'PlantWatered', {});
    await expect(list({ position: await log.head() })).rejects.toThrow(EventRefused);
    await appendRaw(log, SKIPS_STREAM, 'EventSkipped', { stream, revision: 0, reason: 'a test' });
    expect(await idsAt({ position: await log.head() })).toEqual([1]);
  });

  it('leaves out what the lists leave out, also where this version can read it', async () => {
    await run(log, 'anne', createPlant(1));
    await run(log, 'anne', createPlant(2));
    await appendRaw(log, SKIPS_STREAM, 'EventSkipped', {
      stream: plantStream('anne', 2),
      revision: 0,
      reason: 'an older version could not read it',
    });
    expect(await idsAt({ position: await log.head() })).toEqual([1]);
    const rebuild = { rebuild: randomUUID(), rate: null, unskip: true };
    await appendRaw(log, REBUILDS_STREAM, 'RebuildRequested', rebuild);
    expect(await idsAt({ position: await log.head() })).toEqual([1]); // until the rebuild is promoted
    const started = { rebuild: rebuild.rebuild, generation: 2 };
    await appendRaw(log, REBUILDS_STREAM, 'RebuildStarted', started, 0n);
    await appendRaw(log, REBUILDS_STREAM, 'RebuildPromoted', { ...started, replaced: 1 }, 1n);
    expect(await idsAt({ position: await log.head() })).toEqual([1, 2]);
  });
});

describe('lists of the past for many', () => {
  const page = (lists: PastLists, owner: string, signal = never()) =>
    lists.page(owner, { position: '9'.repeat(16) as Position }, FIRST_PAGE, START, signal);

  /** Lists of the past of which each takes a few turns of the event loop, and how many are being made. */
  const counting = () => {
    const made = { now: 0, most: 0 };
    const port = new Faults(log).every('subscribe', async function* (proceed, ...args) {
      made.most = Math.max(made.most, ++made.now);
      for (let turn = 0; turn < 5; turn++) await nextTurn();
      try {
        yield* proceed(...args);
      } finally {
        made.now -= 1;
      }
    }).port;
    return { made, port };
  };

  it('are one at a time for each owner, and two in all; the others wait for their turn', async () => {
    await run(log, 'anne', createPlant(1));
    const { made, port } = counting();
    const lists = new PastLists(port);
    const pages = await Promise.all(
      ['anne', 'anne', 'bob', 'zoe', 'anne'].map((owner) => page(lists, owner)),
    );
    expect(pages.map(({ plants }) => plants.length)).toEqual([1, 1, 0, 0, 1]);
    expect(made).toEqual({ now: 0, most: 2 });
  });

  it('are there for a third owner while two others ask without a pause', async () => {
    const lists = new PastLists(counting().port);
    let asking = true;
    let refused = 0;
    const hammer = async (owner: string): Promise<void> => {
      while (asking)
        await page(lists, owner).catch(async (error: unknown) => {
          expect(error).toBeInstanceOf(PastUnavailable);
          refused += 1;
          await nextTurn();
        });
    };
    const hammering = ['anne', 'bob'].flatMap((owner) => Array.from({ length: 10 }, () => hammer(owner)));
    for (let request = 0; request < 20; request++) expect((await page(lists, 'zoe')).plants).toHaveLength(0);
    asking = false;
    await Promise.all(hammering);
    expect(refused).toBeGreaterThan(0);
  });

  it('wait no longer than a limit, and not at all where too many wait', async () => {
    const { opened, open } = gate();
    const slow = new Faults(log).every('subscribe', async function* (proceed, ...args) {
      await opened;
      yield* proceed(...args);
    });
    const limits = { atOnce: 1, waitingForKey: 2, waiting: 3, waitMs: 60_000 };
    const lists = new PastLists(slow.port, 60_000, limits);
    const waiting = ['anne', 'anne', 'anne', 'bob'].map((owner) => page(lists, owner));
    await expect(page(lists, 'anne')).rejects.toMatchObject({ retryAfterSeconds: 5 });
    await expect(page(lists, 'zoe')).rejects.toMatchObject({ retryAfterSeconds: 5 });
    const hasty = new PastLists(slow.port, 60_000, { ...limits, waitMs: 1 });
    const first = page(hasty, 'anne');
    await expect(page(hasty, 'zoe')).rejects.toMatchObject({ retryAfterSeconds: 5 });
    open();
    expect(await Promise.all([...waiting, first])).toHaveLength(5);
    expect((await page(lists, 'zoe')).plants).toHaveLength(0); // nothing is left of those who waited in vain
    expect((await page(hasty, 'zoe')).plants).toHaveLength(0);
  });

  it('leave their place where their client goes while it waits', async () => {
    const { opened, open } = gate();
    const slow = new Faults(log).every('subscribe', async function* (proceed, ...args) {
      await opened;
      yield* proceed(...args);
    });
    const lists = new PastLists(slow.port, 60_000, {
      atOnce: 1,
      waitingForKey: 1,
      waiting: 1,
      waitMs: 60_000,
    });
    const first = page(lists, 'anne');
    const gone = new AbortController();
    const waiting = page(lists, 'bob', gone.signal);
    gone.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    const next = page(lists, 'zoe');
    open();
    expect(await Promise.all([first, next])).toHaveLength(2);
  });

  it('are given up when they take too long, or when their client has gone', async () => {
    const stuck = new Faults(log).every('subscribe', async function* (_proceed, _after, signal) {
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve);
      });
      yield* [];
    });
    await expect(page(new PastLists(stuck.port, 1), 'anne')).rejects.toMatchObject({ retryAfterSeconds: 60 });
    const gone = new AbortController();
    const lists = new PastLists(stuck.port);
    const asking = page(lists, 'anne', gone.signal);
    gone.abort(new Error('gone'));
    await expect(asking).rejects.toThrow('gone');
  });
});
