import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { status } from '@grpc/grpc-js';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { setImmediate } from 'node:timers/promises';
import { type EventStoreOptions, openEventStoreDb } from '../../../src/log/eventstoredb/event-log.js';
import { parseEventStoreUrl } from '../../../src/log/eventstoredb/connection-string.js';
import {
  type AppendHealth,
  type EventLog,
  type LogBatch,
  LogUnavailable,
  OutcomeUnknown,
  type Position,
  START,
  WrongExpectedRevision,
} from '../../../src/log/event-log.js';
import {
  CERTIFICATE_FOR_ANOTHER_NAME,
  TEST_CERTIFICATE,
  TEST_KEY,
} from '../../support/eventstore/certificate.js';
import * as failures from '../../support/eventstore/failure.js';
import { FakeEventStore, FakeCluster, type FakeOptions } from '../../support/eventstore/fake-event-store.js';
import { all, follow, freshStream, idsOf, newEvent, newEvents } from '../../support/log-events.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { until } from '../../support/waiting.js';

/** Behaviour that only EventStoreDB has. The faults need the fake server. */
describe('the event log on EventStoreDB', () => {
  /** Short enough for a test, long enough for a busy machine to answer within. */
  const QUICK: EventStoreOptions = { deadlineMs: 2_000, readDeadlineMs: 2_000, openMs: 5_000 };

  let cleanUp: (() => unknown)[];
  beforeEach(() => {
    cleanUp = [];
  });
  afterEach(async () => {
    for (const clean of cleanUp.reverse()) await clean();
  });

  const start = async (options?: FakeOptions): Promise<FakeEventStore> => {
    const fake = await FakeEventStore.start(options);
    cleanUp.push(() => fake.stop());
    return fake;
  };

  const startCluster = async (options?: FakeOptions): Promise<FakeCluster> => {
    const cluster = await FakeCluster.start(3, options);
    cleanUp.push(() => cluster.stop());
    return cluster;
  };

  const open = async (url: string, options: EventStoreOptions = QUICK): Promise<EventLog> => {
    const log = await openEventStoreDb(parseEventStoreUrl(url), options);
    cleanUp.push(() => log.close());
    return log;
  };

  const both = async (options?: EventStoreOptions): Promise<{ server: FakeEventStore; log: EventLog }> => {
    const server = await start();
    return { server, log: await open(server.url, { ...QUICK, ...options }) };
  };

  /** The line with which something fails. */
  const failing = async (
    attempt: Promise<unknown>,
    kind: typeof LogUnavailable | typeof OutcomeUnknown = LogUnavailable,
  ): Promise<string> => {
    const error: unknown = await attempt.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(kind);
    const { message } = error as Error;
    expect(message).not.toContain('\n');
    return message;
  };

  const take = async (batches: AsyncIterator<LogBatch, unknown>): Promise<LogBatch> => {
    const { done, value } = await batches.next();
    if (done === true) throw new Error('the subscription has ended');
    return value;
  };

  const subscribed = (log: EventLog, after: Position = START): AsyncIterator<LogBatch, unknown> => {
    const controller = new AbortController();
    const batches = log.subscribe(after, controller.signal)[Symbol.asyncIterator]();
    cleanUp.push(() => {
      controller.abort();
    });
    return batches;
  };

  const caughtUp = async (batches: AsyncIterator<LogBatch, unknown>): Promise<LogBatch> => {
    for (;;) {
      const batch = await take(batches);
      if (batch.caughtUp) return batch;
    }
  };

  describe('an append', () => {
    it.each(['silence', 'cut'] as const)(
      'whose acknowledgement is lost (%s) is unknown, and found when it is tried again',
      async (how) => {
        // A cut is noticed at once; the deadline is for silence.
        const { server, log } = await both(how === 'cut' ? { deadlineMs: 60_000 } : {});
        const stream = freshStream();
        const events = newEvents(2);
        server.loseAcknowledgements(1, how);
        await failing(log.append(stream, 'none', events), OutcomeUnknown);
        const { revision, position } = await log.append(stream, 'none', events);
        const recorded = await log.readStream(stream);
        expect(idsOf(recorded)).toEqual(idsOf(events));
        expect(recorded.at(-1)).toMatchObject({ revision, position });
      },
    );

    it('that a slow server writes later is unknown until then', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      const events = newEvents(1);
      const held = server.hold('batchAppend', 'request');
      await failing(log.append(stream, 'none', events), OutcomeUnknown);
      expect(await log.readStream(stream)).toEqual([]);
      held.release();
      const { position } = await log.append(stream, 'none', events);
      expect((await log.readStream(stream)).map((event) => event.position)).toEqual([position]);
    });

    it('whose first try is found after a wrong version succeeds with the first result', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      const events = newEvents(2);
      const first = await log.append(stream, 'none', events);
      await log.append(stream, 1n, newEvents(1));
      server.answerNext('batchAppend', failures.wrongVersionOnDelete(stream, -1n, 2n));
      expect(await log.append(stream, 'none', events)).toEqual(first);
      server.answerNext('batchAppend', failures.wrongVersionOnDelete(stream, 1n, 2n));
      await expect(log.append(stream, 1n, newEvents(1))).rejects.toBeInstanceOf(WrongExpectedRevision);
    });

    it('is unknown where the wrong version cannot be looked into', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(1));
      server.answerNext('read', failures.unavailable);
      await failing(log.append(stream, 'none', newEvents(1)), OutcomeUnknown);
    });

    it('that the server gives up while an earlier try is written is looked for', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      const events = newEvents(1);
      const first = await log.append(stream, 'none', events);
      server.answerNext('batchAppend', failures.writeTimeout, 3);
      expect(await log.append(stream, 'none', events)).toEqual(first);
      await expect(log.append(stream, 'none', newEvents(1))).rejects.toBeInstanceOf(WrongExpectedRevision);
      await failing(log.append(stream, 0n, newEvents(1)), OutcomeUnknown);
    });

    it.each<[string, failures.Failure, typeof LogUnavailable | typeof OutcomeUnknown, string]>([
      ['a server that is not ready', failures.notReady, LogUnavailable, 'try again'],
      ['a user who may not write', failures.accessDenied, LogUnavailable, 'user'],
      ['a deleted stream', failures.streamDeleted('plant-x'), LogUnavailable, 'deleted'],
      ['something unheard of', failures.unknown, OutcomeUnknown, 'check'],
      ['a call that breaks off', failures.shuttingDown, OutcomeUnknown, 'check'],
      [
        'words that only look like those of a connection',
        {
          code: status.UNAVAILABLE,
          details: 'plant-certificate/1: ECONNREFUSED, Server Is Not Ready',
          trailers: {},
        },
        OutcomeUnknown,
        'check',
      ],
      [
        'a member that knows no leader',
        { code: status.UNKNOWN, details: 'No leader info available in response', trailers: {} },
        LogUnavailable,
        'leader',
      ],
    ])('says whether anything can have been written: %s', async (_name, failure, kind, part) => {
      const { server, log } = await both();
      const stream = freshStream();
      server.answerNext('batchAppend', failure);
      expect(await failing(log.append(stream, 'none', newEvents(1)), kind)).toContain(part);
      expect(await log.readStream(stream)).toEqual([]);
      expect(await log.append(stream, 'none', newEvents(1))).toMatchObject({ revision: 0n });
    });

    it('that is too large is refused, and nothing else with it', async () => {
      const { log } = await both();
      const large = log.append(freshStream(), 'none', [newEvent('x'.repeat(1_100_000))]);
      const other = log.append(freshStream(), 'none', newEvents(1));
      expect(await failing(large)).toContain('1048576 bytes');
      expect(await other).toMatchObject({ revision: 0n });
    });

    it('wrote nothing where the server cannot be reached, and goes on when it can', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(1));
      await server.stop();
      await log.head().catch(() => undefined); // the cut connection is noticed
      expect(await failing(log.append(stream, 0n, newEvents(1)))).toContain('refuses connections');
      await server.restart();
      expect(await log.append(stream, 0n, newEvents(1))).toMatchObject({ revision: 1n });
    });

    it('waits its turn behind those under way, and is not written if that takes too long', async () => {
      const { server, log } = await both({ maxQueued: 300 });
      const held = server.hold('batchAppend', 'answer');
      const appends = Array.from({ length: 300 }, () => ({ stream: freshStream(), events: newEvents(1) }));
      const outcomes = appends.map(({ stream, events }) =>
        failing(log.append(stream, 'none', events), Error as never),
      );
      expect(await failing(log.append(freshStream(), 'none', newEvents(1)))).toContain('300 appends');
      expect(await failing(log.ready())).toContain('300 appends');
      await Promise.all(outcomes);
      held.release();
      const last = appends.at(-1);
      if (!last) throw new Error('there is none');
      expect(await log.append(last.stream, 'none', newEvents(1))).toMatchObject({ revision: 0n });
    });

    it.each([
      ['a stream that no reader would see', 'x-1', newEvent()],
      ['an id that is no UUID', freshStream(), newEvent(1, 'x')],
      ['an id that comes back another one', freshStream(), newEvent(1, randomUUID().toUpperCase())],
      ['a type that is no text', freshStream(), { ...newEvent(), type: '\ud800' }],
    ])('refuses %s', async (_name, stream, event) => {
      const { server, log } = await both();
      await expect(log.append(stream, 'none', [event])).rejects.toThrow(TypeError);
      await expect(log.append(freshStream(), -1n, [newEvent()])).rejects.toThrow(TypeError);
      expect(server.events.filter(({ stream: written }) => written.startsWith('plant-'))).toEqual([]);
    });
  });

  describe('lost events', () => {
    it('of a truncated stream are not passed over', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      const events = newEvents(3);
      await log.append(stream, 'none', events);
      server.truncate(stream, 2n);
      expect(await failing(log.readStream(stream))).toContain(stream);
      expect(idsOf(await log.readStream(stream, 1n))).toEqual(idsOf(events.slice(2)));
      await failing(log.append(stream, 'none', events.slice(0, 2)), OutcomeUnknown);
    });

    it('of a deleted stream are not covered by new ones', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(2));
      server.softDelete(stream);
      const events = newEvents(1);
      expect(await failing(log.append(stream, 'none', events), OutcomeUnknown)).toContain('deleted');
      await failing(log.append(stream, 'none', events), OutcomeUnknown);
      await failing(log.readStream(stream));
    });

    it('of a stream that was deleted for ever are missed', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(1));
      server.tombstone(stream);
      expect(await failing(log.readStream(stream))).toContain(stream);
      expect(await failing(log.append(stream, 0n, newEvents(1)))).toContain(stream);
    });

    it('of a log that was restored to an earlier state are missed', async () => {
      const { server, log } = await both();
      const batches = subscribed(log);
      await log.append(freshStream(), 'none', newEvents(1));
      const { position } = await log.append(freshStream(), 'none', newEvents(1));
      while ((await take(batches)).position < position);
      expect(await log.head()).toBe(position);
      await server.stop();
      const other = await start({ port: server.port });
      const again = subscribed(log, position);
      await failing(caughtUp(again));
      expect(await failing(log.head())).toContain('lost');
      other.writeForeign('plant-a/1', 'X', {});
      const head = await log.head();
      expect(head > START && head < position).toBe(true);
      expect(await failing(caughtUp(subscribed(log, position)))).toContain('earlier state');
    });
  });

  describe('a subscription', () => {
    it.each(['end', 'cut'] as const)(
      'that the server drops (%s) throws, and another one goes on where it was',
      async (how) => {
        const { server, log } = await both();
        const stream = freshStream();
        const events = newEvents(2);
        await log.append(stream, 'none', events.slice(0, 1));
        const batches = subscribed(log);
        const { position } = await caughtUp(batches);
        await take(batches); // of the subscription that all share who have caught up
        server.cutSubscriptions(how);
        await failing(caughtUp(batches).then(() => caughtUp(batches)));
        await log.append(stream, 0n, events.slice(1));
        const seen = await follow(log, position, (_, batch) => batch.caughtUp);
        expect(idsOf(seen)).toEqual(idsOf(events.slice(1)));
      },
    );

    it('ends when its connection leads nowhere, and never says meanwhile that it has caught up', async () => {
      const { server, log } = await both({ readDeadlineMs: 2_000 });
      const batches = subscribed(log);
      await caughtUp(batches);
      server.freeze();
      const after: boolean[] = [];
      const end = (async () => {
        for (;;) after.push((await take(batches)).caughtUp);
      })();
      expect(await failing(end)).toContain('network');
      // The first may rest on what was heard just before.
      expect(after.slice(1)).toContain(false);
      expect(after.slice(1)).not.toContain(true);
      server.thaw();
      await caughtUp(subscribed(log));
    });

    it('takes a new connection where the old one leads nowhere', async () => {
      const { server, log } = await both();
      await log.head();
      const before = server.connectionsOpen;
      server.freeze();
      const waiting = subscribed(log);
      await failing(log.head());
      await failing(caughtUp(waiting));
      log.head().catch(() => undefined);
      await until(() => server.connectionsOpen > before);
      server.thaw();
      await log.ready();
    });

    it('ends when the server has forgotten it, though it answers everything else', async () => {
      const { server, log } = await both({ stallMs: 300 });
      const held = server.hold('subscribe', 'request');
      await log.append(freshStream(), 'none', newEvents(1));
      expect(await failing(caughtUp(subscribed(log)))).toContain('stopped');
      held.release();
    });

    it('sees only our streams, in our namespace, however many others there are', async () => {
      const server = await start();
      const [one, other] = await Promise.all(
        ['a', 'b'].map((namespace) => open(`${server.url}&namespace=${namespace}`)),
      );
      const plain = await open(server.url);
      if (!one || !other) throw new Error('there are none');
      const stream = freshStream();
      const [first, second, third] = newEvents(3);
      if (!first || !second || !third) throw new Error('there are none');
      for (let i = 0; i < 1500; i += 1) server.writeForeign('elsewhere-1', 'X', { i });
      await one.append(stream, 'none', [first]);
      for (let i = 0; i < 1500; i += 1) server.writeForeign('plantation', 'X', { i });
      await other.append(stream, 'none', [second]);
      await plain.append(stream, 'none', [third]);
      for (let i = 0; i < 3000; i += 1) server.writeForeign('a.elsewhere-1', 'X', { i });
      for (const [log, event] of [
        [one, first],
        [other, second],
        [plain, third],
      ] as const) {
        const seen = await all(log.readAll(START));
        expect(seen.map(({ id, stream: name }) => [id, name])).toEqual([[event.id, stream]]);
        expect(await log.head()).toBe(seen[0]?.position);
        expect(idsOf(await log.readStream(stream))).toEqual([event.id]);
        expect(await log.readStream('elsewhere-1')).toEqual([]);
      }
      expect(new Set([one, other, plain].map((log) => log.identity())).size).toBe(3);
      expect(server.events.map((event) => event.stream)).toContain(`a.${stream}`);
    });

    it('delivers what is no JSON as the text that it is', async () => {
      const { server, log } = await both();
      server.writeForeign('plant-a/1', 'X', Buffer.from('{"a":'), { metadata: Buffer.from('nothing') });
      server.writeForeign('plant-a/1', 'X', Buffer.from('{"a":1}'), { isJson: false });
      server.writeForeign('plant-a/1', 'X', { a: 1 }, { metadata: { b: 2 } });
      const events = await all(log.readAll(START));
      expect(events.map(({ data, metadata }) => ({ data, metadata }))).toEqual([
        { data: '{"a":', metadata: 'nothing' },
        { data: '{"a":1}', metadata: undefined },
        { data: { a: 1 }, metadata: { b: 2 } },
      ]);
      expect(await log.readStream('plant-a/1')).toEqual(events);
    });

    it('goes on after every position, also where commit and prepare differ and where numbers are large', async () => {
      const { server, log } = await both();
      server.writeForeign('plant-a/1', 'X', 1);
      server.writeForeign('plant-a/1', 'X', 2, { inTransaction: true });
      server.jumpPosition(2n ** 62n);
      server.writeForeign('plant-a/1', 'X', 3, { inTransaction: true });
      server.writeForeign('plant-a/1', 'X', 4);
      const events = await all(log.readAll(START));
      expect(events.map(({ data }) => data)).toEqual([1, 2, 3, 4]);
      const positions = events.map(({ position }) => position);
      expect(positions).toEqual(positions.toSorted());
      expect(new Set(positions.map(({ length }) => length))).toEqual(new Set([40]));
      for (const [i, position] of positions.entries())
        expect((await all(log.readAll(position))).map(({ data }) => data)).toEqual([1, 2, 3, 4].slice(i + 1));
      expect(await log.head()).toBe(positions.at(-1));
    });

    it.each(['1', '0'.repeat(39), 'x'.repeat(40), '9'.repeat(40)])(
      'refuses what is no position: %s',
      async (text) => {
        const { log } = await both();
        await expect(all(log.readAll(text as Position))).rejects.toThrow(TypeError);
      },
    );

    it('catches up on a server that never says so', async () => {
      const server = await start({ caughtUp: false });
      const log = await open(server.url, {}); // so many events may take a busy machine a second
      const events = newEvents(700);
      const stream = freshStream();
      await log.append(stream, 'none', events);
      expect(idsOf(await all(log.readAll(START)))).toEqual(idsOf(events));
      const batches = subscribed(log);
      await caughtUp(batches);
      await log.append(stream, 699n, newEvents(1));
      expect((await caughtUp(batches)).caughtUp).toBe(true);
    });

    it('goes on by itself where the server drops it because it was too slow, unless nothing has come since', async () => {
      const { server, log } = await both();
      const stream = freshStream();
      const events = newEvents(2);
      await log.append(stream, 'none', events.slice(0, 1));
      const batches = subscribed(log);
      await caughtUp(batches);
      server.cutSubscriptions('error');
      await log.append(stream, 0n, events.slice(1));
      let batch = await take(batches);
      while (batch.events.length === 0) batch = await take(batches);
      expect(idsOf(batch.events)).toEqual(idsOf(events.slice(1)));
      const end = async (): Promise<never> => {
        for (;;) {
          server.cutSubscriptions('error');
          await take(batches);
        }
      };
      expect(await failing(end())).toContain('too slow');
    });

    it('loses nothing to a server that drops it again and again', async () => {
      const server = await start({ liveBuffer: 32 });
      const log = await open(server.url, {});
      const stream = freshStream();
      const subscription = subscribed(log);
      await caughtUp(subscription);
      const written: string[] = [];
      for (let round = 0; round < 12; round += 1) {
        const events = newEvents(200);
        await log.append(stream, round === 0 ? 'none' : BigInt(round * 200 - 1), events);
        written.push(...idsOf(events));
      }
      const seen: string[] = [];
      while (seen.length < written.length) seen.push(...idsOf((await take(subscription)).events));
      expect(seen).toEqual(written);
    });
  });

  describe('a cluster', () => {
    it('is followed to its new leader', async () => {
      const cluster = await startCluster();
      const log = await open(cluster.url);
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(1));
      for (const [i, member] of [...cluster.members, ...cluster.members].entries()) {
        cluster.elect(member);
        expect(await log.append(stream, BigInt(i), newEvents(1))).toMatchObject({ revision: BigInt(i) + 1n });
        expect(await log.readStream(stream)).toHaveLength(i + 2);
      }
    });

    it('is left behind when its leader dies', async () => {
      const cluster = await startCluster();
      const log = await open(cluster.url);
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(1));
      const batches = subscribed(log);
      await caughtUp(batches);
      const [old, next] = cluster.members;
      await old?.stop();
      cluster.elect(next);
      await failing(caughtUp(batches).then(() => caughtUp(batches)));
      const events = newEvents(1);
      const attempt = (): Promise<unknown> => log.append(stream, 0n, events).catch(attempt);
      await attempt();
      expect(await log.readStream(stream)).toHaveLength(2);
    });

    it('that refuses appends while reads work is not ready, and is again without an append', async () => {
      const told: string[] = [];
      const onHealth = ({ state }: AppendHealth): void => void told.push(state);
      const { server, log } = await both({ onHealth });
      const stream = freshStream();
      await log.append(stream, 'none', newEvents(1));
      expect(log.health().state).toBe('ok');
      server.answerNext('batchAppend', failures.accessDenied, 3);
      expect(await failing(log.append(stream, 0n, newEvents(1)))).toMatch(/refuse/);
      expect(await log.readStream(stream)).toHaveLength(1);
      expect(await failing(log.ready())).toBe(log.health().reason);
      await until(() => log.health().state === 'ok');
      await log.ready();
      expect(told).toEqual(['failing', 'ok']);
      expect(await log.readStream(stream)).toHaveLength(1); // nothing was appended to find out
    });

    it('may be named by a member that follows another', async () => {
      const cluster = await startCluster();
      const follower = cluster.members[2];
      const log = await open(follower?.url ?? '');
      expect(await log.append(freshStream(), 'none', newEvents(1))).toMatchObject({ revision: 0n });
      await caughtUp(subscribed(log));
    });

    it('without a leader: open says so, and appends write nothing', async () => {
      const cluster = await startCluster();
      const log = await open(cluster.url);
      cluster.elect(undefined);
      expect(await failing(log.append(freshStream(), 'none', newEvents(1)))).toContain('leader');
      expect(log.health()).toMatchObject({ state: 'failing', restartHelps: false });
      expect(await failing(log.ready())).toBe(log.health().reason);
      const one = await failing(open(cluster.members[0]?.url ?? '', { ...QUICK, openMs: 300 }));
      expect(one).toContain('leader');
    });

    it('that cannot be asked who leads: an append has not begun, and is not written later', async () => {
      const cluster = await startCluster();
      const log = await open(cluster.url);
      const stream = freshStream();
      await log.head();
      for (const member of cluster.members) {
        member.cutConnections();
        member.freeze();
      }
      await log.head().catch(() => undefined); // the cut is noticed
      expect(await failing(log.append(stream, 'none', newEvents(1)))).toContain('did not answer');
      for (const member of cluster.members) member.thaw();
      const ready = (): Promise<void> => log.ready().catch(ready);
      await ready();
      const other = freshStream();
      await log.append(other, 'none', newEvents(1)); // after which the first one would be there
      expect(await log.readStream(stream)).toEqual([]);
    });
  });

  describe('opening', () => {
    const tls = { key: TEST_KEY, cert: TEST_CERTIFICATE };
    const credentials = { user: 'plants', password: 'sesame-7' };
    const folder = temporaryFolder();
    const ca = join(folder, 'ca.crt');
    const key = join(folder, 'key.pem');
    writeFileSync(ca, TEST_CERTIFICATE);
    writeFileSync(key, TEST_KEY);
    const otherCa = join(folder, 'other-ca.crt');
    writeFileSync(otherCa, CERTIFICATE_FOR_ANOTHER_NAME);

    const openMs = 60_000;
    const refused = async (url: string): Promise<string> => {
      const began = performance.now();
      const message = await failing(open(url, { openMs }));
      expect(performance.now() - began).toBeLessThan(openMs); // not after having tried all the time
      expect(message).not.toContain('sesame');
      return message;
    };

    it('works over TLS, with the right CA, user and password', async () => {
      const { port } = await start({ tls, credentials });
      const log = await open(`esdb://plants:sesame-7@127.0.0.1:${port}?tlsCAFile=${ca}`);
      await log.append(freshStream(), 'none', newEvents(1));
      await open(
        `esdb://plants:sesame-7@localhost:${port}?tlsCAFile=${ca}&userCertFile=${ca}&userKeyFile=${key}`,
      );
    });

    it('is refused at once where trying again would not help', async () => {
      const server = await start({ tls, credentials });
      const { port } = server;
      const query = `tlsCAFile=${encodeURIComponent(ca)}`;
      expect(await refused(`esdb://plants:sesame-8@127.0.0.1:${port}?${query}`)).toContain('password');
      expect(await refused(`esdb://plants:sesame-7@127.0.0.1:${port}`)).toContain('tlsCAFile');
      const other = await start({ tls: { key: TEST_KEY, cert: CERTIFICATE_FOR_ANOTHER_NAME } });
      for (const host of ['127.0.0.1', 'localhost'])
        expect(await refused(`esdb://${host}:${other.port}?tlsCAFile=${otherCa}`)).toContain('host name');
      expect(await refused(`esdb://plants:sesame-7@127.0.0.1:${port},127.0.0.1:${port}`)).toContain(
        'tlsCAFile',
      );
      expect(await refused(`esdb://127.0.0.1:${port}?tlsCAFile=/nowhere/ca.crt`)).toContain(
        '/nowhere/ca.crt',
      );
      expect(await refused(`esdb://127.0.0.1:${port}?userCertFile=${key}&userKeyFile=${ca}`)).toContain(
        'PEM',
      );
      server.answerNext('read', failures.accessDenied);
      expect(await refused(`esdb://plants:sesame-7@127.0.0.1:${port}?${query}`)).toContain('user');
      const plain = await start();
      expect(await refused(`esdb://127.0.0.1:${plain.port}`)).toContain('tls=false');
    });

    it('is tried for a while where it may help', async () => {
      const server = await start();
      await server.stop();
      expect(await failing(open(server.url, { openMs: 300 }))).toContain('refuses connections');
      expect(await failing(open('esdb://nowhere.invalid?tls=false', { openMs: 300 }))).toContain('DNS');
      expect(
        await failing(
          open(`esdb://127.0.0.1:${server.port},127.0.0.1:${server.port}?tls=false`, { openMs: 300 }),
        ),
      ).toMatch(/leader|did not answer/);
      const opening = open(server.url, { openMs: 30_000 });
      await setImmediate();
      await server.restart();
      expect((await opening).identity()).toMatch(/./);
    });

    it('says when the server wants TLS, or does not speak this protocol at all', async () => {
      const { port } = await start({ tls });
      expect(await failing(open(`esdb://127.0.0.1:${port}?tls=false`, { openMs: 1_000 }))).toContain(
        'tls=false',
      );
      const sockets = new Set<Socket>();
      const mute = createServer((socket) => sockets.add(socket));
      await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
      cleanUp.push(() => {
        for (const socket of sockets) socket.destroy();
        mute.close();
      });
      const address = mute.address();
      const silent = `esdb://127.0.0.1:${typeof address === 'object' ? address?.port : ''}?tls=false`;
      await failing(open(silent, { openMs: 800 }));
    });

    it('gives one identity to all who open at the same time, and keeps it', async () => {
      const server = await start();
      const logs = await Promise.all(Array.from({ length: 8 }, () => open(server.url)));
      expect(new Set(logs.map((log) => log.identity())).size).toBe(1);
      await server.restart();
      expect((await open(server.url)).identity()).toBe(logs[0]?.identity());
    });

    it('makes an identity also where the first try is not answered', async () => {
      const server = await start();
      server.loseAcknowledgements(1, 'cut');
      server.answerNext('read', failures.notReady);
      const log = await open(server.url);
      expect((await open(server.url)).identity()).toBe(log.identity());
    });

    it.each<[string, (server: FakeEventStore) => void]>([
      ['of another type', (server) => server.writeForeign('plants-log', 'X', { id: randomUUID() })],
      ['without an id', (server) => server.writeForeign('plants-log', 'LogCreated', {})],
      ['that is no JSON', (server) => server.writeForeign('plants-log', 'LogCreated', Buffer.from('null'))],
      [
        'after a deleted one',
        (server) => {
          server.writeForeign('plants-log', 'LogCreated', { id: randomUUID() });
          server.softDelete('plants-log');
        },
      ],
    ])('is refused where the identity is something else: %s', async (_name, write) => {
      const server = await start();
      write(server);
      expect(await refused(server.url)).toContain('namespace');
    });

    it('has its own length on a server with a long log of others', async () => {
      const server = await start();
      server.jumpPosition(10n ** 9n);
      const log = await open(server.url);
      await log.append(freshStream(), 'none', newEvents(3));
      expect(log.distance(START, await log.head())).toBeLessThan(10 ** 6);
    });

    it('is refused where the server does not say where events are', async () => {
      const server = await start();
      server.jumpPosition(2n ** 64n - 1n); // so an older server says that it does not know
      server.writeForeign('plants-log', 'LogCreated', { id: randomUUID() });
      expect(await refused(server.url)).toContain('22.6');
    });
  });

  it('leaves no connection when it is closed', async () => {
    const { server, log } = await both();
    const batches = subscribed(log);
    await caughtUp(batches);
    await log.append(freshStream(), 'none', newEvents(1));
    await log.close();
    await until(() => server.connectionsOpen === 0);
    await failing(caughtUp(batches));
  });

  it('lets the process end when it is closed, and prints nothing of what DEBUG asks for', async () => {
    const server = await start();
    const module = (file: string): string =>
      JSON.stringify(new URL(`../../../src/log/eventstoredb/${file}.js`, import.meta.url).href);
    const program = `
      import { openEventStoreDb } from ${module('event-log')};
      import { parseEventStoreUrl } from ${module('connection-string')};
      const log = await openEventStoreDb(parseEventStoreUrl(process.argv[1]));
      for await (const _ of log.readAll('')) ;
      await log.close();
      console.log('closed');
    `;
    const url = server.url.replace('esdb://', 'esdb://plants:sesame-7@');
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ['--no-warnings', '--input-type=module', '--eval', program, url],
      { timeout: 20_000, env: { ...process.env, DEBUG: '*', NODE_OPTIONS: '' } },
    );
    expect(stdout).toBe('closed\n');
    expect(stderr).not.toMatch(/sesame|esdb/);
  });
});
