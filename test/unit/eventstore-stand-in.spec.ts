import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  type AppendResult,
  binaryEvent,
  type ErrorType,
  EventStoreDBClient,
  jsonEvent,
  type Position,
  type ResolvedEvent,
  streamNameFilter,
} from '@eventstore/db-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { TEST_CERTIFICATE, TEST_KEY } from '../support/eventstore/certificate.js';
import * as failures from '../support/eventstore/failure.js';
import { StandIn, StandInCluster, type StandInOptions } from '../support/eventstore/stand-in.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/waiting.js';

const event = (type = 'Noted', data: Record<string, unknown> = { text: 'green' }) =>
  jsonEvent({ type, data });
const bytesEvent = (size: number) => binaryEvent({ type: 'Bytes', data: new Uint8Array(size) });
const fresh = (): string => `stand-in-${randomUUID()}`;

/** A plain append instead of a batch append: this client chooses so by credentials, and sends them over TLS only. */
const ALONE = { credentials: { username: 'nobody', password: 'none' } };

/** What an error says that the adapter can look at. */
async function refusal(promise: Promise<unknown>): Promise<Record<string, unknown>> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error as Record<string, unknown>;
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const typesOf = (events: ResolvedEvent[]) => events.map((each) => each.event?.type);
const revisionsOf = (events: ResolvedEvent[]) => events.map((each) => each.event?.revision);

function placeOf({ position }: AppendResult): Position {
  if (!position) throw new Error('the append has no position');
  return position;
}

/** A subscription and all that it has told so far: the types of events, and its own messages. */
class Told {
  readonly news: string[] = [];
  readonly checkpoints: Position[] = [];
  error: unknown;
  readonly subscription: AllStreamSubscription;

  constructor(client: EventStoreDBClient, prefix: string, from: Position | 'start' | 'end', window = 32) {
    const filter = streamNameFilter({
      prefixes: [prefix],
      maxSearchWindow: window,
      checkpointInterval: 1,
      checkpointReached: (_, position) => {
        this.checkpoints.push(position);
        this.news.push('checkpoint');
      },
    });
    this.subscription = client
      .subscribeToAll({ fromPosition: from, filter })
      .on('confirmation', () => this.news.push('confirmed'))
      .on('caughtUp', () => this.news.push('caught up'))
      .on('fellBehind', () => this.news.push('fell behind'))
      .on('error', (error) => {
        this.error = error;
        this.news.push('error');
      })
      .on('end', () => this.news.push('end'))
      .on('data', ({ event }: AllStreamResolvedEvent) => this.news.push(event?.type ?? 'nothing'));
  }

  /** All of it but the checkpoints, and the end that its own client makes. */
  get heard(): string[] {
    return this.news.filter((news) => news !== 'checkpoint' && news !== 'end');
  }

  async hears(news: string): Promise<void> {
    await until(
      () => this.news.includes(news),
      () => ({ news, heard: this.news.slice(0, 20), error: String(this.error) }),
    );
  }
}

const clients: EventStoreDBClient[] = [];
const standIns: { stop(): Promise<void> }[] = [];

function connect(url: string): EventStoreDBClient {
  const client = EventStoreDBClient.connectionString(url);
  clients.push(client);
  return client;
}

async function start(options?: StandInOptions): Promise<StandIn> {
  const standIn = await StandIn.start(options);
  standIns.push(standIn);
  return standIn;
}

afterEach(async () => {
  for (const client of clients.splice(0)) await client.dispose();
  for (const standIn of standIns.splice(0)) await standIn.stop();
});

// Holds of the stand-in and of a real server alike: TEST_EVENTSTORE_URL names one, which need not be empty.
describe('the server', () => {
  let own: StandIn | undefined;
  let url: string;
  let client: EventStoreDBClient;

  beforeAll(async () => {
    const given = process.env.TEST_EVENTSTORE_URL;
    own = given === undefined ? await StandIn.start() : undefined;
    url = given ?? own?.url ?? '';
    client = EventStoreDBClient.connectionString(url);
  });

  afterAll(async () => {
    await client.dispose();
    await own?.stop();
  });

  describe.each([
    ['by batch append', {}],
    ['by an append of its own', ALONE],
  ])('%s', (_, how) => {
    it('writes a stream that is as expected, and refuses one that is not', async () => {
      const stream = fresh();
      const append = (expectedRevision: 'no_stream' | 'stream_exists' | 'any' | bigint) =>
        client.appendToStream(stream, event(), { expectedRevision, ...how });

      expect(await refusal(append(0n))).toMatchObject({
        type: 'wrong-expected-version',
        streamName: stream,
        expectedVersion: 0n,
        actualVersion: 'no_stream',
      });
      expect(await refusal(append('stream_exists'))).toMatchObject({ expectedVersion: 'stream_exists' });
      expect((await append('no_stream')).nextExpectedRevision).toBe(0n);
      expect((await append(0n)).nextExpectedRevision).toBe(1n);
      expect((await append('any')).nextExpectedRevision).toBe(2n);
      expect((await append('stream_exists')).nextExpectedRevision).toBe(3n);
      expect(await refusal(append('no_stream'))).toMatchObject({
        expectedVersion: 'no_stream',
        actualVersion: 3n,
      });
      expect(await refusal(append(2n))).toMatchObject({ expectedVersion: 2n, actualVersion: 3n });
      expect(await refusal(append(4n))).toMatchObject({ expectedVersion: 4n, actualVersion: 3n });
      expect(revisionsOf(await all(client.readStream(stream)))).toEqual([0n, 1n, 2n, 3n]);
    });

    it('answers the same append with its first outcome, also later', async () => {
      const stream = fresh();
      const events = [event('First'), event('Second')];
      const first = await client.appendToStream(stream, events, { expectedRevision: 'no_stream', ...how });
      await client.appendToStream(stream, event('Third'), { expectedRevision: 1n, ...how });

      const again = await client.appendToStream(stream, events, { expectedRevision: 'no_stream', ...how });

      expect(again).toEqual(first);
      const read = await all(client.readStream(stream));
      expect(typesOf(read)).toEqual(['First', 'Second', 'Third']);
      expect(placeOf(first)).toEqual(read[1]?.event?.position);
    });

    it('knows the same append where any revision was expected, and not where only a part is the same', async () => {
      const stream = fresh();
      const known = event();
      const first = await client.appendToStream(stream, known, how);

      expect(await client.appendToStream(stream, known, how)).toEqual(first);
      expect(await refusal(client.appendToStream(stream, [known, event()], how))).toMatchObject({
        type: 'wrong-expected-version',
        expectedVersion: 'any',
      });
      expect(
        await refusal(
          client.appendToStream(stream, [known, event()], { expectedRevision: 'no_stream', ...how }),
        ),
      ).toMatchObject({ type: 'wrong-expected-version', actualVersion: 0n });
      expect((await all(client.readStream(stream))).length).toBe(1);
      const third = event();
      await client.appendToStream(stream, third, how);
      expect(await refusal(client.appendToStream(stream, [known, event(), third], how))).toMatchObject({
        type: 'wrong-expected-version',
      });
    });

    it('takes an id that it knows for a new event at the current revision, and for a wrong one at an older', async () => {
      const stream = fresh();
      const twice = event();
      await client.appendToStream(stream, event(), { expectedRevision: 'no_stream', ...how });
      await client.appendToStream(stream, twice, { expectedRevision: 0n, ...how });

      expect(
        await refusal(client.appendToStream(stream, twice, { expectedRevision: 'no_stream', ...how })),
      ).toMatchObject({ type: 'wrong-expected-version', actualVersion: 1n });
      const result = await client.appendToStream(stream, twice, { expectedRevision: 1n, ...how });
      expect(result.nextExpectedRevision).toBe(2n);
    });

    it('has no position for the same append when its events have been truncated', async () => {
      const stream = fresh();
      const events = [event(), event()];
      await client.appendToStream(stream, events, { expectedRevision: 'no_stream', ...how });
      await client.setStreamMetadata(stream, { truncateBefore: 2 });

      const again = await client.appendToStream(stream, events, { expectedRevision: 'no_stream', ...how });

      expect(again).toEqual({ success: true, nextExpectedRevision: 1n, position: undefined });
    });

    it('takes one MiB of data, whatever the metadata, and nothing of what is more', async () => {
      const stream = fresh();
      const half = 512 * 1024;
      const heavy = { ...bytesEvent(half), metadata: new Uint8Array(1024 * 1024) };

      const error = await refusal(
        client.appendToStream(stream, [bytesEvent(half), bytesEvent(half + 1)], how),
      );
      expect(error).toMatchObject({ type: 'maximum-append-size-exceeded', maxAppendSize: 1024 * 1024 });
      const parts = { batchAppendSize: half, ...how };
      expect(
        await refusal(client.appendToStream(stream, [bytesEvent(half), bytesEvent(half), event()], parts)),
      ).toMatchObject({ type: 'maximum-append-size-exceeded' });
      await client.appendToStream(stream, [heavy, bytesEvent(half)], {
        expectedRevision: 'no_stream',
        ...how,
      });
      expect((await all(client.readStream(stream))).length).toBe(2);
    });

    it('gives up what comes after its deadline, and has not written it', async () => {
      const stream = fresh();
      await client.appendToStream(stream, event(), how);
      expect(
        await refusal(client.appendToStream(stream, event(), { deadline: -1_000, ...how })),
      ).toMatchObject({
        type: 'deadline-exceeded',
      });
      expect((await all(client.readStream(stream))).length).toBe(1);
    });

    it('writes nothing as a success too', async () => {
      const stream = fresh();
      await client.appendToStream(stream, event(), how);
      const nothing = await client.appendToStream(stream, [], { expectedRevision: 0n, ...how });
      expect(nothing.nextExpectedRevision).toBe(0n);
      expect(placeOf(nothing).commit).toBeGreaterThan(0n);
      expect((await all(client.readStream(stream))).length).toBe(1);
    });

    it('refuses what has a tombstone, and continues what was deleted softly', async () => {
      const gone = fresh();
      await client.appendToStream(gone, event(), how);
      await client.tombstoneStream(gone);
      expect(await refusal(client.appendToStream(gone, event(), how))).toMatchObject({
        type: 'stream-deleted',
        streamName: gone,
      });

      const back = fresh();
      await client.appendToStream(back, [event('Before'), event('Before')], how);
      await client.deleteStream(back);
      expect(
        await refusal(client.appendToStream(back, event(), { expectedRevision: 'stream_exists', ...how })),
      ).toMatchObject({ type: 'stream-deleted' });
      const result = await client.appendToStream(back, event('After'), {
        expectedRevision: 'no_stream',
        ...how,
      });
      expect(result.nextExpectedRevision).toBe(2n);
      // A real server undeletes the stream a moment after it has answered.
      let found: ResolvedEvent[] = [];
      await until(async () => {
        found = await all(client.readStream(back)).catch(() => []);
        return found.length > 0;
      });
      expect(typesOf(found)).toEqual(['After']);
    });

    it('refuses an append for a stream without a name', async () => {
      expect(await refusal(client.appendToStream('', event(), how))).toMatchObject({ type: 'unknown' });
    });
  });

  it('lets one of many racing appends win', async () => {
    const stream = fresh();
    const appends = Array.from({ length: 50 }, () =>
      client.appendToStream(stream, event(), { expectedRevision: 'no_stream' }),
    );
    const outcomes = await Promise.allSettled(appends);
    expect(outcomes.filter(({ status }) => status === 'fulfilled').length).toBe(1);
    expect((await all(client.readStream(stream))).length).toBe(1);
  });

  it('keeps every kind of content as it is', async () => {
    const stream = `${fresh()}-ü€😀`;
    await client.appendToStream(stream, [
      jsonEvent({ type: 'Json😀', data: { text: 'Übermut' }, metadata: { who: 'ü' } }),
      binaryEvent({ type: 'Bytes', data: new Uint8Array([1, 2, 255]), metadata: Buffer.from('{"no') }),
    ]);
    const read = await all(client.readStream(stream));
    expect(read.map(({ event }) => event)).toMatchObject([
      { streamId: stream, type: 'Json😀', data: { text: 'Übermut' }, metadata: { who: 'ü' }, isJson: true },
      { type: 'Bytes', isJson: false },
    ]);
    expect(Buffer.from(read[1]?.event?.data as Uint8Array)).toEqual(Buffer.from([1, 2, 255]));
    expect(Math.abs((read[0]?.event?.created.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  it('reads a stream from anywhere in both directions', async () => {
    const stream = fresh();
    await client.appendToStream(
      stream,
      ['A', 'B', 'C', 'D'].map((type) => event(type)),
    );
    const read = async (options: Parameters<typeof client.readStream>[1]) =>
      typesOf(await all(client.readStream(stream, options)));

    expect(await read({})).toEqual(['A', 'B', 'C', 'D']);
    expect(await read({ fromRevision: 1n, maxCount: 2 })).toEqual(['B', 'C']);
    expect(await read({ fromRevision: 9n })).toEqual([]);
    expect(await read({ direction: 'backwards', fromRevision: 'end', maxCount: 2 })).toEqual(['D', 'C']);
    expect(await read({ direction: 'backwards', fromRevision: 1n })).toEqual(['B', 'A']);
    expect(await read({ direction: 'backwards', fromRevision: 9n, maxCount: 1 })).toEqual(['D']);
    expect(await read({ direction: 'backwards', fromRevision: 'start' })).toEqual(['A']);
    expect(await refusal(read({ fromRevision: 'end' }))).toMatchObject({ type: 'unknown', code: 2 });
    expect(await refusal(read({ maxCount: 0 }))).toMatchObject({ type: 'unknown', code: 2 });
    expect(await refusal(all(client.readStream('')))).toMatchObject({ type: 'unknown', code: 2 });
  });

  it('says what is not there, what is deleted and what is left', async () => {
    const none = fresh();
    expect(await refusal(all(client.readStream(none)))).toMatchObject({
      type: 'stream-not-found',
      streamName: none,
    });

    const deleted = fresh();
    await client.appendToStream(deleted, event());
    await client.deleteStream(deleted);
    expect(await refusal(all(client.readStream(deleted)))).toMatchObject({ type: 'stream-not-found' });

    await client.tombstoneStream(deleted);
    expect(await refusal(all(client.readStream(deleted)))).toMatchObject({ type: 'stream-deleted' });
    expect(await refusal(client.tombstoneStream(deleted))).toMatchObject({ type: 'stream-deleted' });

    const truncated = fresh();
    await client.appendToStream(
      truncated,
      ['A', 'B', 'C'].map((type) => event(type)),
    );
    await client.setStreamMetadata(truncated, { truncateBefore: 1 });
    expect(typesOf(await all(client.readStream(truncated)))).toEqual(['B', 'C']);
    await client.setStreamMetadata(truncated, { maxCount: 1 });
    expect(revisionsOf(await all(client.readStream(truncated)))).toEqual([2n]);
    expect(revisionsOf(await all(client.readStream(`$$${truncated}`)))).toEqual([1n]);
    await client.appendToStream(
      `$$${truncated}`,
      binaryEvent({ type: '$metadata', data: Buffer.from('nonsense') }),
    );
    expect((await all(client.readStream(truncated))).length).toBe(3);
  });

  it('deletes what is as expected', async () => {
    const stream = fresh();
    await client.appendToStream(stream, event());
    expect(await refusal(client.deleteStream(stream, { expectedRevision: 4n }))).toMatchObject({
      type: 'wrong-expected-version',
      expectedVersion: 4n,
      actualVersion: 0n,
    });
    expect(await refusal(client.deleteStream(fresh()))).toMatchObject({ type: 'wrong-expected-version' });
    await client.deleteStream(stream, { expectedRevision: 0n });
    expect(await refusal(all(client.readStream(stream)))).toMatchObject({ type: 'stream-not-found' });
  });

  it('has one order of all events, that of their positions', async () => {
    const stream = fresh();
    const first = await client.appendToStream(stream, event('First'));
    const second = await client.appendToStream(fresh(), [event('Second'), event('Third')]);
    expect(placeOf(second).commit).toBeGreaterThan(placeOf(first).commit);
    expect(placeOf(second).prepare).toBe(placeOf(second).commit);

    const forwards = { fromPosition: placeOf(first), maxCount: 3 };
    expect(typesOf(await all(client.readAll(forwards)))).toEqual(['First', 'Second', 'Third']);
    const backwards = { direction: 'backwards', fromPosition: placeOf(second), maxCount: 2 } as const;
    expect(typesOf(await all(client.readAll(backwards)))).toEqual(['Second', 'First']);
    const last = await all(client.readAll({ direction: 'backwards', fromPosition: 'end', maxCount: 1 }));
    expect(last.length).toBe(1);
    expect(await all(client.readAll({ fromPosition: 'end' }))).toEqual([]);
    expect(await all(client.readAll({ direction: 'backwards', fromPosition: 'start' }))).toEqual([]);
    expect((await all(client.readAll({ maxCount: 1 }))).length).toBe(1);
  });

  it('refuses a position within a record, and takes one after the end for the end', async () => {
    const { commit } = placeOf(await client.appendToStream(fresh(), event()));
    await client.appendToStream(fresh(), event());
    const within = { commit: commit + 1n, prepare: commit + 1n };
    const impossible = { commit, prepare: commit + 1n };
    const after = { commit: 2n ** 62n, prepare: 2n ** 62n };
    const read = (fromPosition: Position, direction: 'forwards' | 'backwards' = 'forwards') =>
      all(client.readAll({ fromPosition, direction, maxCount: 1 }));

    expect(await refusal(read(within))).toMatchObject({
      message: '2 UNKNOWN: Unexpected ReadAllResult: Error',
    });
    expect(await refusal(read(after, 'backwards'))).toMatchObject({ code: 2 });
    expect(await refusal(read(impossible))).toMatchObject({
      message: '2 UNKNOWN: Exception was thrown by handler.',
    });
    expect(await read(after)).toEqual([]);

    for (const position of [within, impossible, { commit: 2n ** 63n, prepare: 2n ** 63n }]) {
      const told = new Told(client, 'nobody', position);
      await told.hears('error');
      expect(told.error).toMatchObject({
        type: 'unknown',
        message: '2 UNKNOWN: Exception was thrown by handler.',
      });
    }
    const told = new Told(client, 'nobody', after);
    await told.hears('caught up');
    await told.subscription.unsubscribe();
  });

  it('gives a subscription what is after its position and matches, then what comes', async () => {
    const prefix = fresh();
    const places: Position[] = [];
    for (const type of ['A', 'B', 'C'])
      places.push(placeOf(await client.appendToStream(`${prefix}-${type}`, event(type))));
    await client.appendToStream(fresh(), event('Foreign'));

    const told = new Told(client, prefix, places[0] ?? 'start');
    await told.hears('caught up');
    await client.appendToStream(fresh(), event('Foreign'));
    await client.appendToStream(`${prefix}-D`, event('D'));
    await told.hears('D');
    await told.subscription.unsubscribe();

    expect(told.heard).toEqual(['confirmed', 'B', 'C', 'caught up', 'D']);
    expect(told.subscription.id).toMatch(/^[\da-f-]{36}$/u);
  });

  it('gives a subscription from the start the whole log, and one from the end only what comes', async () => {
    const prefix = fresh();
    await client.appendToStream(prefix, event('Old'));
    const fromStart = new Told(client, prefix, 'start', 10_000);
    const fromZero = new Told(client, prefix, { commit: 0n, prepare: 0n }, 10_000);
    const fromEnd = new Told(client, prefix, 'end');
    for (const told of [fromStart, fromZero, fromEnd]) await told.hears('caught up');
    await client.appendToStream(prefix, event('New'));
    for (const told of [fromStart, fromZero, fromEnd]) {
      await told.hears('New');
      await told.subscription.unsubscribe();
    }
    expect(fromStart.heard).toEqual(['confirmed', 'Old', 'caught up', 'New']);
    expect(fromZero.heard).toEqual(['confirmed', 'Old', 'caught up', 'New']);
    expect(fromEnd.heard).toEqual(['confirmed', 'caught up', 'New']);
  });

  it('subscribes by a pattern and by the type of events too', async () => {
    const prefix = fresh();
    const from = placeOf(await client.appendToStream(prefix, event('Zero')));
    await client.appendToStream(`${prefix}-1`, event(`One-${prefix}`));
    await client.appendToStream(`${prefix}-2`, event('Two'));
    const first = async (filter: Parameters<typeof client.subscribeToAll>[0]) => {
      for await (const { event } of client.subscribeToAll({ fromPosition: from, ...filter }))
        return event?.type;
      return undefined;
    };
    expect(await first({ filter: streamNameFilter({ regex: `^${prefix}-[2-9]$` }) })).toBe('Two');
    expect(
      await first({ filter: { filterOn: 'eventType', prefixes: [`One-${prefix}`], checkpointInterval: 1 } }),
    ).toBe(`One-${prefix}`);
    expect(await first({})).toBe(`One-${prefix}`);
  });

  it('tells a subscription how far it has looked, once for so many events, while it catches up', async () => {
    const prefix = fresh();
    const results = await Promise.all(
      Array.from({ length: 5 }, () => client.appendToStream(prefix, event())),
    );
    const places = results.map(placeOf).sort((a, b) => (a.commit < b.commit ? -1 : 1));

    const told = new Told(client, 'nobody', places[0] ?? 'start', 2);
    await told.hears('caught up');
    await told.subscription.unsubscribe();

    // A page without a match is told by where it began, which is after the event before, so never too far.
    expect(told.news.slice(0, 4)).toEqual(['confirmed', 'checkpoint', 'checkpoint', 'caught up']);
    expect(told.checkpoints[0]?.commit).toBe(places[1]?.commit);
    expect(told.checkpoints[1]?.commit).toBe(places[3]?.commit);
    const resumed = new Told(client, prefix, told.checkpoints[1] ?? 'start');
    await resumed.hears('caught up');
    await resumed.subscription.unsubscribe();
    expect(resumed.news.filter((news) => news === 'Noted').length).toBe(1);
  });

  it('tells a live subscription how far it has looked', async () => {
    const told = new Told(client, 'nobody', 'end', 2);
    await told.hears('caught up');
    const first = placeOf(await client.appendToStream(fresh(), event()));
    await client.appendToStream(fresh(), event());
    await told.hears('checkpoint');
    await told.subscription.unsubscribe();
    expect(told.checkpoints[0]?.commit).toBeGreaterThanOrEqual(first.commit);
    expect(told.news).not.toContain('Noted');
  });

  it('says to those who look for a cluster where it is', async () => {
    const { host } = new URL(url.replace(/^esdb/u, 'http'));
    const clustered = connect(url.replace(host, `${host},${host}`));
    expect((await clustered.appendToStream(fresh(), event())).nextExpectedRevision).toBe(0n);
  });
});

describe('the stand-in', () => {
  it('keeps its events and its port over a restart, and is unavailable between', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    const stream = fresh();
    const first = await client.appendToStream(stream, event());
    const told = new Told(client, stream, 'start');
    await told.hears('caught up');
    expect([standIn.connectionsOpen, standIn.subscriptionsOpen]).toEqual([1, 1]);

    await standIn.stop();

    await told.hears('error');
    expect(told.error).toMatchObject({ type: 'unavailable' });
    expect([standIn.connectionsOpen, standIn.subscriptionsOpen]).toEqual([0, 0]);
    expect(await refusal(client.appendToStream(stream, event()))).toMatchObject({ code: 14 });

    await standIn.restart();

    const after = connect(standIn.url);
    const second = await after.appendToStream(stream, event(), { expectedRevision: 0n });
    expect(placeOf(second).commit).toBeGreaterThan(placeOf(first).commit);
  });

  it.each([
    ['batchAppend', {}],
    ['append', ALONE],
  ] as const)('fails the next calls of %s as it is told, and has written nothing', async (method, how) => {
    const standIn = await start();
    const stream = fresh();
    const refuses = async (failure: failures.Failure, type: `${ErrorType}`) => {
      standIn.answerNext(method, failure, 2);
      const client = connect(standIn.url);
      expect(await refusal(client.appendToStream(stream, event(), how))).toMatchObject({ type });
      const next = connect(standIn.url);
      expect(await refusal(next.appendToStream(stream, event(), how))).toMatchObject({ type });
    };
    await refuses(failures.unavailable, 'unavailable');
    await refuses(failures.notReady, method === 'append' ? 'unavailable' : 'unknown');
    await refuses(failures.notLeader('127.0.0.1', 1), 'not-leader');
    await refuses(failures.accessDenied, 'access-denied');
    await refuses(failures.unauthenticated, 'access-denied');
    await refuses(failures.writeTimeout, method === 'append' ? 'timeout' : 'deadline-exceeded');
    await refuses(failures.deadline, 'deadline-exceeded');
    await refuses(failures.cancelled, 'cancelled');
    await refuses(failures.unknown, 'unknown');
    await refuses(failures.invalidArgument('no'), 'unknown');
    await refuses(failures.streamDeleted(stream), 'stream-deleted');

    const last = await connect(standIn.url).appendToStream(stream, event(), {
      expectedRevision: 'no_stream',
      ...how,
    });
    expect(last.nextExpectedRevision).toBe(0n);
  });

  it('fails reads, subscriptions, deletions, discovery and the question for features as it is told', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    standIn.answerNext('features', failures.unavailable);
    expect(await refusal(client.appendToStream('s', event()))).toMatchObject({ code: 14 });
    standIn.answerNext('read', failures.accessDenied);
    expect(await refusal(all(client.readStream('s')))).toMatchObject({ type: 'access-denied', code: 7 });
    standIn.answerNext('delete', failures.accessDenied);
    expect(await refusal(client.deleteStream('s'))).toMatchObject({ type: 'access-denied' });
    standIn.answerNext('subscribe', failures.accessDenied);
    const told = new Told(client, 's', 'start');
    await told.hears('error');
    expect(told.error).toMatchObject({ type: 'access-denied' });
    standIn.answerNext('gossip', failures.unavailable, 2);
    const discover = () =>
      connect(`esdb+discover://127.0.0.1:${standIn.port}?tls=false&maxDiscoverAttempts=2`);
    expect(await refusal(discover().appendToStream('s', event()))).toMatchObject({
      message: 'Failed to discover after 2 attempts.',
    });
    await discover().appendToStream('s', event());
  });

  it.each([
    ['batchAppend', {}],
    ['append', ALONE],
  ] as const)('loses acknowledgements of %s, with or without the connection', async (_, how) => {
    const standIn = await start();
    const client = connect(standIn.url);
    await client.appendToStream('first', event(), how);

    standIn.loseAcknowledgements();
    let answered = false;
    const lost = client.appendToStream('s', event('Silence'), { deadline: 60_000, ...how });
    const settled = lost.then(
      () => (answered = true),
      () => undefined,
    );
    await until(() => standIn.events.at(-1)?.type === 'Silence');
    await client.appendToStream('second', event(), how);
    expect(answered).toBe(false);

    standIn.loseAcknowledgements(1, 'cut');
    expect(await refusal(client.appendToStream('s', event('Cut'), how))).toMatchObject({
      type: 'unavailable',
    });
    expect(standIn.events.at(-1)?.type).toBe('Cut');
    expect((await connect(standIn.url).appendToStream('s', event(), how)).nextExpectedRevision).toBe(2n);
    await client.dispose();
    await settled;
  });

  it.each([
    ['batchAppend', {}],
    ['append', ALONE],
  ] as const)('holds %s until it is released, before or after it has written', async (method, how) => {
    const standIn = await start();
    const client = connect(standIn.url);
    const isWritten = (type: string) => standIn.events.some((each) => each.type === type);

    const answers = standIn.hold(method);
    let isAnswered = false;
    const slow = client.appendToStream('s', event('Slow'), how).finally(() => (isAnswered = true));
    await answers.arrived;
    await all(client.readStream('s'));
    expect([answers.waiting, isWritten('Slow'), isAnswered]).toEqual([1, true, false]);
    answers.release();
    expect((await slow).nextExpectedRevision).toBe(0n);

    const requests = standIn.hold(method, 'request');
    const late = client.appendToStream('s', event('Late'), how);
    await requests.arrived;
    expect(isWritten('Late')).toBe(false);
    requests.release();
    expect((await late).nextExpectedRevision).toBe(1n);

    const again = standIn.hold(method, 'request');
    const gaveUp = client.appendToStream('s', event('GivenUp'), { deadline: 200, ...how });
    await again.arrived;
    if (method === 'append') expect(await refusal(gaveUp)).toMatchObject({ type: 'deadline-exceeded' });
    again.release();
    await until(() => isWritten('GivenUp'));
    if (method === 'batchAppend') await gaveUp;
  });

  it('holds reads, subscriptions and discovery', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    await client.appendToStream('s', event('Held'));
    const done: string[] = [];

    const reads = standIn.hold('read');
    const read = all(client.readStream('s')).then(() => done.push('read'));
    await reads.arrived;
    const subscriptions = standIn.hold('subscribe', 'request');
    const told = new Told(client, 's', 'start');
    await subscriptions.arrived;
    const gossip = standIn.hold('gossip', 'request');
    const clustered = connect(`esdb+discover://127.0.0.1:${standIn.port}?tls=false`);
    const appended = clustered.appendToStream('s', event('Later')).then(() => done.push('append'));
    await gossip.arrived;
    expect([...done, ...told.news]).toEqual([]);

    for (const held of [reads, subscriptions, gossip]) held.release();
    await Promise.all([read, appended, told.hears('Later')]);
  });

  it('lets no byte pass while it is frozen, and everything when it has thawed', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    const told = new Told(client, 's', 'end');
    await told.hears('caught up');

    standIn.freeze();
    standIn.writeForeign('s', 'Unheard', {});
    expect(await refusal(client.appendToStream('s', event(), { deadline: 300, ...ALONE }))).toMatchObject({
      type: 'deadline-exceeded',
    });
    let isRead = false;
    const late = all(client.readStream('s')).then(() => (isRead = true));
    expect(await refusal(client.appendToStream('s', event(), { deadline: 300, ...ALONE }))).toMatchObject({
      type: 'deadline-exceeded',
    });
    expect(isRead).toBe(false);
    expect(told.news).not.toContain('Unheard');
    expect(standIn.events.at(-1)?.type).toBe('Unheard');
    expect(standIn.connectionsOpen).toBe(1);

    standIn.thaw();
    await told.hears('Unheard');
    await late;
  });

  it('ends subscriptions in every way that they end', async () => {
    const standIn = await start();
    for (const [how, news] of [
      ['end', 'end'],
      ['error', 'error'],
      ['cut', 'error'],
    ] as const) {
      const told = new Told(connect(standIn.url), 's', 'end');
      await told.hears('caught up');
      standIn.cutSubscriptions(how);
      await told.hears(news);
      if (how === 'error') expect(told.error).toMatchObject({ type: 'timeout', code: 10 });
      if (how === 'cut') expect(told.error).toMatchObject({ type: 'unavailable' });
      await until(() => standIn.subscriptionsOpen === 0);
    }
    const stopped = new Told(connect(standIn.url), 's', 'end');
    await stopped.hears('caught up');
    standIn.cutSubscriptions(failures.shuttingDown);
    await stopped.hears('error');
    expect(stopped.error).toMatchObject({ type: 'unknown', code: 13 });

    const told = new Told(connect(standIn.url), 's', 'end');
    await told.hears('caught up');
    standIn.fallBehind();
    await told.hears('fell behind');
    standIn.cutConnections();
    await told.hears('error');
    expect(standIn.connectionsOpen).toBe(0);
  });

  it('lets go of a subscription that is given up, whether it is live or has yet to catch up', async () => {
    const standIn = await start();
    for (let index = 0; index < 5_000; index += 1) standIn.writeForeign('s', 'Many', { index });
    const client = connect(standIn.url);
    for await (const { event } of client.subscribeToAll()) if (event?.type === 'Many') break;
    await client.dispose();
    await until(() => standIn.subscriptionsOpen === 0);
  });

  it('waits for a subscription that does not read, and keeps nothing for it', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    for (let index = 0; index < 20_000; index += 1)
      standIn.writeForeign('many', 'Large', Buffer.alloc(1_024));
    const subscription = client.subscribeToAll({ filter: streamNameFilter({ prefixes: ['many'] }) });
    await once(subscription, 'confirmation');
    // Time for more than it may send: a hundred answers to others.
    for (let index = 0; index < 100; index += 1) await client.appendToStream('other', event());

    const sent = standIn.events.filter(({ frame }) => frame !== undefined).length;
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThan(2_000);
  });

  it('drops a live subscription that does not read, if it is told how much may wait', async () => {
    const standIn = await start({ liveBuffer: 32 });
    const told = new Told(connect(standIn.url), 's', 'end');
    await told.hears('caught up');
    for (let index = 0; index < 100; index += 1) standIn.writeForeign('s', 'Burst', { index });
    await told.hears('error');
    expect(told.error).toMatchObject({ type: 'timeout' });
  });

  it('stores what other programs write, however malformed', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    const id = randomUUID();
    standIn.writeForeign('s', 'Malformed', Buffer.from('{"id":'), { id, metadata: Buffer.from('{oops') });
    standIn.writeForeign('s', 'NoMetadata', { id: 1 });
    standIn.writeForeign('s', 'NotJson', Buffer.from([0, 1]), { isJson: false, metadata: { fine: true } });
    const read = await all(client.readStream('s'));
    expect(read.map(({ event }) => event)).toMatchObject([
      { id, data: '{"id":', isJson: true },
      { data: { id: 1 }, metadata: undefined },
      { isJson: false, metadata: { fine: true } },
    ]);
    expect(read[0]?.event?.metadata).toBeInstanceOf(Uint8Array);
  });

  it('has positions that differ in commit and prepare, and positions up to the largest', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    const { commit, prepare } = standIn.writeForeign('s', 'Transaction', {}, { inTransaction: true });
    expect(commit).toBeGreaterThan(prepare);
    const huge = 2n ** 63n - 10_000n;
    standIn.jumpPosition(huge);
    expect(placeOf(await client.appendToStream('s', event('Huge'))).commit).toBe(huge);

    const told = new Told(client, 's', { commit, prepare });
    await told.hears('Huge');
    const again = new Told(client, 's', { commit: huge, prepare: huge });
    await again.hears('caught up');
    expect(again.news).toEqual(['confirmed', 'caught up']);
    expect(await all(client.readAll({ fromPosition: { commit: huge + 1n, prepare: huge + 1n } }))).toEqual(
      [],
    );
    expect(() => {
      standIn.jumpPosition(0n);
    }).toThrow('the log is at');
  });

  it('truncates, deletes and tombstones on demand', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    for (const stream of ['truncated', 'deleted', 'gone'])
      await client.appendToStream(stream, [event(), event()]);
    standIn.truncate('truncated', 1n);
    standIn.softDelete('deleted');
    standIn.tombstone('gone');
    expect(revisionsOf(await all(client.readStream('truncated')))).toEqual([1n]);
    expect(await refusal(all(client.readStream('deleted')))).toMatchObject({ type: 'stream-not-found' });
    expect(await refusal(all(client.readStream('gone')))).toMatchObject({ type: 'stream-deleted' });
  });

  it('plays an older server: no batch append, and nobody is told of having caught up', async () => {
    const standIn = await start({ caughtUp: false, batchAppend: false });
    const client = connect(standIn.url);
    standIn.answerNext('append', failures.accessDenied);
    expect(await refusal(client.appendToStream('s', event('First')))).toMatchObject({
      type: 'access-denied',
    });
    await client.appendToStream('s', event('Second'));
    const told = new Told(client, 's', 'start');
    await told.hears('Second');
    await client.appendToStream('s', event('Third'));
    await told.hears('Third');
    expect(told.news).not.toContain('caught up');
  });

  it('refuses an event whose id is no UUID', async () => {
    const standIn = await start();
    const client = connect(standIn.url);
    const malformed = { ...event(), id: 'no uuid' };
    const outcome = refusal(client.appendToStream('s', malformed, ALONE));
    expect(await outcome).toMatchObject({ message: '2 UNKNOWN: Exception was thrown by handler.' });
    // Not by batch append: this is answered twice there, as by the real server, which kills the client's process.
    expect(standIn.events.some(({ stream }) => stream === 's')).toBe(false);
  });

  describe('with TLS', () => {
    const folder = temporaryFolder();
    const certFile = join(folder, 'cert.pem');
    const keyFile = join(folder, 'key.pem');
    const tls = { key: TEST_KEY, cert: TEST_CERTIFICATE };
    const secure = ({ port }: StandIn, user = '') =>
      connect(`esdb://${user}localhost:${port}?tls=true&tlsCAFile=${certFile}`);

    beforeAll(() => {
      writeFileSync(certFile, TEST_CERTIFICATE);
      writeFileSync(keyFile, TEST_KEY);
    });
    afterAll(() => {
      rmSync(folder, { recursive: true });
    });

    it('knows its user, and says of others as the real server does that they may not', async () => {
      const standIn = await start({ tls, credentials: { user: 'plants', password: 'secret' } });
      expect(standIn.url).toBe(`esdb://127.0.0.1:${standIn.port}?tls=true`);
      const denied = { type: 'access-denied', code: 7 };
      const wrong = { type: 'access-denied', code: 16 };

      const client = secure(standIn, 'plants:secret@');
      await client.appendToStream('s', event());
      expect((await all(client.readStream('s'))).length).toBe(1);

      const other = secure(standIn, 'plants:guess@');
      expect(await refusal(other.appendToStream('s', event()))).toMatchObject(wrong);
      expect(await refusal(all(other.readStream('s')))).toMatchObject(wrong);

      const nobody = secure(standIn);
      expect(await refusal(nobody.appendToStream('s', event()))).toMatchObject({
        type: 'access-denied',
        message: '',
      });
      expect(await refusal(all(nobody.readStream('s')))).toMatchObject(denied);
      const told = new Told(nobody, 's', 'start');
      await told.hears('error');
      expect(told.error).toMatchObject(denied);
      expect(standIn.events.filter(({ stream }) => stream === 's').length).toBe(1);
    });

    it('wants a certificate of its clients where it is told who signs them', async () => {
      const standIn = await start({ tls: { ...tls, clientCa: TEST_CERTIFICATE } });
      expect(await refusal(secure(standIn).appendToStream('s', event()))).toMatchObject({ code: 14 });
      const files = `tlsCAFile=${certFile}&userCertFile=${certFile}&userKeyFile=${keyFile}`;
      const client = connect(`esdb://localhost:${standIn.port}?tls=true&${files}`);
      expect((await client.appendToStream('s', event())).nextExpectedRevision).toBe(0n);
    });
  });

  describe('as a cluster', () => {
    async function cluster(): Promise<{ cluster: StandInCluster; members: [StandIn, StandIn, StandIn] }> {
      const started = await StandInCluster.start(3);
      standIns.push(started);
      return { cluster: started, members: started.members as [StandIn, StandIn, StandIn] };
    }

    it('is discovered, and leads clients to its leader', async () => {
      const { cluster: three, members } = await cluster();
      three.elect(members[1]);
      const client = connect(three.url);
      await client.appendToStream('s', event());
      expect(members.map(({ connectionsOpen }) => connectionsOpen)).toEqual([0, 1, 0]);
      expect(members[0].events.at(-1)?.stream).toBe('s');
    });

    it.each([
      ['batch append', {}],
      ['append', ALONE],
    ])('sends a client that asks for the leader to it, also by %s', async (_, how) => {
      const { cluster: three, members } = await cluster();
      const client = connect(three.url);
      const append = () => client.appendToStream('s', event(), { requiresLeader: true, ...how });
      await append();

      three.elect(members[2]);

      const error = await refusal(append());
      expect(error).toMatchObject({
        type: 'not-leader',
        leader: { address: '127.0.0.1', port: members[2].port },
      });
      expect((await append()).nextExpectedRevision).toBe(1n);
      expect(members[2].connectionsOpen).toBe(1);
    });

    it('serves a client that does not ask for the leader at any member', async () => {
      const { members } = await cluster();
      const client = connect(members[1].url);
      expect((await client.appendToStream('s', event())).nextExpectedRevision).toBe(0n);
      expect((await all(client.readStream('s'))).length).toBe(1);
    });

    it('serves nobody without a leader, and is not discovered when it is down', async () => {
      const { cluster: three, members } = await cluster();
      const client = connect(members[0].url);
      await client.appendToStream('s', event());
      three.elect(undefined);
      expect(await refusal(client.appendToStream('s', event(), ALONE))).toMatchObject({
        type: 'unavailable',
      });
      await three.stop();
      const late = connect(`${three.url}&maxDiscoverAttempts=1`);
      expect(await refusal(late.appendToStream('s', event()))).toMatchObject({
        message: 'Failed to discover after 1 attempts.',
      });
    });
  });

  it('runs as a process of its own that prints where it is', async () => {
    const main = join(import.meta.dirname, '../support/eventstore/stand-in-main.js');
    const child: ChildProcess = spawn(process.execPath, [main], { stdio: ['ignore', 'pipe', 'inherit'] });
    if (!child.stdout) throw new Error('no output');
    const [url] = (await once(createInterface(child.stdout), 'line')) as [string];
    const client = connect(url);
    expect((await client.appendToStream('s', event())).nextExpectedRevision).toBe(0n);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });
});
