import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { openEventStoreDb } from '../../../src/log/eventstoredb/event-log.js';
import { parseEventStoreUrl } from '../../../src/log/eventstoredb/connection-string.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { readErasures } from '../../../src/erasure/erasures.js';
import { erasedStream, plantStream } from '../../../src/domain/stream.js';
import {
  type Erasing,
  type EventLog,
  LogUnavailable,
  START,
  StreamErased,
} from '../../../src/log/event-log.js';
import { type TreeStore } from '../../../src/audit/tree-store.js';
import { ErasingStores, MARKER } from '../../support/erasing-stores.js';
import * as failures from '../../support/eventstore/failure.js';
import { FakeEventStore, FakeCluster, type FakeOptions } from '../../support/eventstore/fake-event-store.js';
import { all, follow } from '../../support/log-events.js';
import { LONG_MS, quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';
import { eraserContract } from '../../contract/eraser.contract.js';

quickTime();

const times = { deadlineMs: LONG_MS, readDeadlineMs: LONG_MS, stallMs: LONG_MS, openMs: LONG_MS };

describe('the erasure of an owner on EventStoreDB', () => {
  let server: FakeEventStore;
  let stores: ErasingStores;
  let cleanUp: (() => Promise<unknown>)[];
  beforeEach(async () => {
    cleanUp = [];
    await open();
  });
  afterEach(async () => {
    for (const clean of cleanUp.reverse()) await clean();
  });

  const openLog = (url: string): Promise<EventLog> => openEventStoreDb(parseEventStoreUrl(url), times);

  const open = async (options: FakeOptions = {}): Promise<void> => {
    const started = await FakeEventStore.start(options);
    const { url } = started;
    server = started; // a test may open another one
    cleanUp.push(() => started.stop());
    const opened = await ErasingStores.open(() => openLog(url));
    stores = opened;
    cleanUp.push(() => opened.remove());
  };

  /** The types of the events of the owner that the server still holds. */
  const left = (): string[] =>
    server.events.filter((event) => JSON.stringify(textsOf(event)).includes(MARKER)).map(({ type }) => type);

  const textsOf = ({ stream, data, metadata }: FakeEventStore['events'][number]): string[] => [
    stream,
    Buffer.from(data).toString(),
    Buffer.from(metadata).toString(),
  ];

  eraserContract(() => stores, left);

  /**
   * The next attempt to erase deletes the streams, and its record does not reach the server. Then somebody scavenges: before
   * that, readers of everything find the events as they were.
   */
  const loseTheRecord = (then: (erasing: Erasing) => void | Promise<void>): void => {
    const erase = stores.log.erase.bind(stores.log);
    stores.log.erase = async (erasing, signal) => {
      stores.log.erase = erase;
      const append = stores.log.append.bind(stores.log);
      stores.log.append = () => Promise.reject(new LogUnavailable('gone'));
      await expect(erase(erasing, signal)).rejects.toThrow('gone');
      stores.log.append = append;
      server.store.scavenge(true);
      await then(erasing);
      throw new LogUnavailable('gone');
    };
  };

  it('goes on where the streams were deleted, and somebody has scavenged, before it was recorded', async () => {
    for (let id = 1; id <= 3; id++) {
      await stores.create('bob', id);
      await stores.create(MARKER, id);
    }
    const bob = await stores.listOf('bob');
    const before = (await all(stores.log.readAll(START))).map(({ position }) => position);
    loseTheRecord(async (erasing) => {
      // Readers still find every event, or what stands in for it, from any position.
      const reader = await openLog(server.url);
      expect((await reader.head()) >= (erasing.redacted.at(-1)?.position ?? START)).toBe(true);
      for (const [index, position] of [START, ...before].entries()) {
        const seen = await follow(reader, position, (_, batch) => batch.caughtUp);
        const positions = seen.map((event) => event.position);
        expect(positions.slice(0, before.length - index)).toEqual(before.slice(index));
      }
      expect((await all(reader.readAll(START))).at(-1)?.position).toBe(erasing.redacted.at(-1)?.position);
      await reader.close();
    });
    const { problems } = stores.startEraser();
    const erasure = await stores.order(MARKER);
    await stores.finished(erasure);
    expect(problems[0]).toContain('gone');
    expect(left()).toEqual([]);
    expect(await stores.listOf('bob')).toBe(bob);
    expect(await stores.recheck()).toBeUndefined();
  });

  describe('beside an eraser that has erased the events, and is lost before that is recorded', () => {
    let other: TreeStore;
    beforeEach(async () => {
      for (let id = 1; id <= 3; id++) await stores.create(MARKER, id);
      await stores.listOf(MARKER);
      other = await openSqliteTreeStore(stores.file('other-tree.db'), stores.log.identity());
    });
    afterEach(() => other.close());

    const eraseAndGetLost = async (): Promise<void> => {
      let isErased = false;
      loseTheRecord(() => {
        isErased = true;
      });
      const { end } = stores.startEraser(() => {
        if (isErased) throw new Error('the process is lost');
      });
      await until(() => isErased);
      await end();
      stores.startAuditor(stores.log, other);
    };

    it('another one does not wait for its tree, which cannot read past it', async () => {
      const erasure = await stores.order(MARKER);
      await eraseAndGetLost();
      stores.startEraser(undefined, other);
      await stores.finished(erasure);
      expect(left()).toEqual([]);
    });

    it('another one, which waited for its tree meanwhile, looks again after half a minute', async () => {
      const erasure = await stores.order(MARKER);
      let waits = false;
      stores.startEraser((step) => {
        waits ||= step === 'plants deleted';
      }, other);
      await until(() => waits);
      await eraseAndGetLost();
      const milliseconds = performance.now.bind(performance);
      const clock = jest.spyOn(performance, 'now').mockImplementation(() => milliseconds() + 30_000);
      cleanUp.push(() => {
        clock.mockRestore();
        return Promise.resolve();
      });
      await stores.finished(erasure);
      expect(left()).toEqual([]);
    });
  });

  it('begins again where the owner writes in the middle, to a stream that there is and to a new one', async () => {
    await stores.create(MARKER, 1);
    let wrote = false;
    const settled = stores.log.erase.bind(stores.log);
    stores.log.erase = async (erasing, signal) => {
      if (!wrote) {
        const writing = settled(erasing, signal);
        wrote = true;
        await stores.create(MARKER, 1);
        await stores.create(MARKER, 2);
        expect(await writing).toBeUndefined();
        return undefined;
      }
      return settled(erasing, signal);
    };
    stores.startEraser();
    await stores.finished(await stores.order(MARKER));
    expect(left()).toEqual([]);
    expect(await stores.listOf(MARKER)).toBe('[]');
    expect(await stores.recheck()).toBeUndefined();
  });

  it('lets the same owner begin again: new plants at once, those of before once the server was restarted', async () => {
    await stores.create(MARKER, 1, 'key');
    stores.startEraser();
    await stores.finished(await stores.order(MARKER));
    await expect(stores.create(MARKER, 1)).rejects.toThrow(StreamErased);
    await stores.create(MARKER, 2);
    await server.restart();
    await until(() =>
      stores.log.ready().then(
        () => true,
        () => false,
      ),
    );
    await stores.create(MARKER, 1, 'key');
    expect((await stores.log.readStream(plantStream(MARKER, 1))).map(({ revision }) => revision)).toEqual([
      0n,
    ]);
    expect(JSON.parse(await stores.listOf(MARKER))).toHaveLength(2);
    await stores.finished(await stores.order(MARKER));
    expect(left()).toEqual([]);
    expect(await stores.recheck()).toBeUndefined();
  });

  it('says what remains to be done where it may not start a scavenge, and finishes once somebody has', async () => {
    await open({ isOperator: false });
    await stores.create(MARKER, 1);
    const { problems } = stores.startEraser();
    const erasure = await stores.order(MARKER);
    await until(() => problems.some((problem) => problem.includes('start a scavenge on it')));
    expect(problems.join()).not.toContain(MARKER);
    expect(await stores.log.pendingManualScrub(erasedStream(erasure))).toContain(
      'UnsafeIgnoreHardDelete set to true',
    );
    expect((await readErasures(stores.log)).all).toMatchObject([{ state: 'erased' }]);
    expect(left()).not.toEqual([]);
    server.store.scavenge(true);
    await stores.finished(erasure);
    expect(await stores.log.pendingManualScrub(erasedStream(erasure))).toBeUndefined();
  });

  it('has no problem while it waits for a scavenge', async () => {
    await stores.create(MARKER, 1);
    const { problems } = stores.startEraser();
    await stores.finished(await stores.order(MARKER));
    expect(problems).toEqual([]);
  });

  it('waits for a scavenge that cannot be started now', async () => {
    await stores.create(MARKER, 1);
    server.answerNext('scavenge', failures.unknown);
    const { problems } = stores.startEraser();
    const erasure = await stores.order(MARKER);
    await until(() => problems.some((problem) => problem.includes('starting one failed')));
    server.store.scavenge(true);
    await stores.finished(erasure);
    await stores.create(MARKER, 2);
    server.answerNext('scavenge', failures.accessDenied);
    const another = await stores.order(MARKER);
    await until(() => problems.some((problem) => problem.includes('since this account may not')));
    server.store.scavenge(true);
    await stores.finished(another);
  });

  it('refuses, and writes nothing, where names would stay, it may not delete, or there is a cluster', async () => {
    await stores.create(MARKER, 1);
    const head = await stores.log.head();
    server.answerNext('delete', failures.accessDenied);
    await expect(stores.order(MARKER)).rejects.toThrow(
      'does not let the account of this service delete streams',
    );
    server.answerNext('delete', failures.unknown);
    await expect(stores.order(MARKER)).rejects.toThrow(LogUnavailable);
    expect(await stores.log.head()).toBe(head);
    await open({ ignoresHardDeletes: false });
    await stores.create(MARKER, 1);
    await expect(stores.order(MARKER)).rejects.toThrow('set its option UnsafeIgnoreHardDelete to true');
    const cluster = await FakeCluster.start(3);
    cleanUp.push(() => cluster.stop());
    const log = await openLog(cluster.url);
    cleanUp.push(() => log.close());
    expect(await log.whyNotErase()).toContain('has 3 members');
  });

  it('ends between two steps where it is to end', async () => {
    await stores.create(MARKER, 1);
    const erase = stores.log.erase.bind(stores.log);
    const over = jest.fn<() => void>();
    stores.log.erase = (erasing, signal) => {
      const ended = AbortSignal.any([signal, AbortSignal.abort(new Error('over'))]);
      over();
      return erase(erasing, ended);
    };
    const { problems } = stores.startEraser();
    await stores.order(MARKER);
    await until(() => problems.some((problem) => problem.includes('over')));
    expect(left().filter((type) => type === '$streamDeleted')).toEqual([]);
    expect(over).toHaveBeenCalled();
  });
});
