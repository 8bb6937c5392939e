import { randomUUID } from 'node:crypto';
import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  type AppendResult,
  binaryEvent,
  EventStoreDBClient,
  jsonEvent,
  type Position,
  type ResolvedEvent,
  streamNameFilter,
} from '@eventstore/db-client';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { FakeEventStore } from '../support/eventstore/fake-event-store.js';
import { until, untilSeen } from '../support/waiting.js';

const event = (type = 'Noted', data: Record<string, unknown> = { text: 'green' }) =>
  jsonEvent({ type, data });
const bytesEvent = (size: number) => binaryEvent({ type: 'Bytes', data: new Uint8Array(size) });
const fresh = (): string => `fake-${randomUUID()}`;

/** The fields of the error that a promise is rejected with. */
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

// True of the fake EventStoreDB and of the server that TEST_EVENTSTORE_URL names, which need not be empty. What every
// log does is in the contract; that the fake EventStoreDB does what it is asked to do wrong, in the tests of the adapter.
describe('the server', () => {
  let own: FakeEventStore | undefined;
  let url: string;
  let client: EventStoreDBClient;

  beforeAll(async () => {
    const given = process.env.TEST_EVENTSTORE_URL;
    own = given === undefined ? await FakeEventStore.start() : undefined;
    url = given ?? own?.url ?? '';
    client = EventStoreDBClient.connectionString(url);
  });

  afterAll(async () => {
    await client.dispose();
    await own?.stop();
  });

  it('has no position for the same append when its events have been truncated', async () => {
    const stream = fresh();
    const events = [event(), event()];
    await client.appendToStream(stream, events, { expectedRevision: 'no_stream' });
    await client.setStreamMetadata(stream, { truncateBefore: 2 });

    const again = await client.appendToStream(stream, events, { expectedRevision: 'no_stream' });

    expect(again).toEqual({ success: true, nextExpectedRevision: 1n, position: undefined });
  });

  it('takes one MiB of data, whatever the metadata, and nothing of what is more', async () => {
    const stream = fresh();
    const half = 512 * 1024;
    const heavy = { ...bytesEvent(half), metadata: new Uint8Array(1024 * 1024) };

    const error = await refusal(client.appendToStream(stream, [bytesEvent(half), bytesEvent(half + 1)]));
    expect(error).toMatchObject({ type: 'maximum-append-size-exceeded', maxAppendSize: 1024 * 1024 });
    const parts = { batchAppendSize: half };
    expect(
      await refusal(client.appendToStream(stream, [bytesEvent(half), bytesEvent(half), event()], parts)),
    ).toMatchObject({ type: 'maximum-append-size-exceeded' });
    await client.appendToStream(stream, [heavy, bytesEvent(half)], {
      expectedRevision: 'no_stream',
    });
    expect((await all(client.readStream(stream))).length).toBe(2);
  });

  it('gives up what comes after its deadline, and has not written it', async () => {
    const stream = fresh();
    await client.appendToStream(stream, event());
    expect(await refusal(client.appendToStream(stream, event(), { deadline: -1_000 }))).toMatchObject({
      type: 'deadline-exceeded',
    });
    expect((await all(client.readStream(stream))).length).toBe(1);
  });

  it('refuses what has a tombstone, and continues what was deleted softly', async () => {
    const gone = fresh();
    await client.appendToStream(gone, event());
    await client.tombstoneStream(gone);
    expect(await refusal(client.appendToStream(gone, event()))).toMatchObject({
      type: 'stream-deleted',
      streamName: gone,
    });

    const back = fresh();
    await client.appendToStream(back, [event('Before'), event('Before')]);
    await client.deleteStream(back);
    const result = await client.appendToStream(back, event('After'), {
      expectedRevision: 'no_stream',
    });
    expect(result.nextExpectedRevision).toBe(2n);
    // A real server undeletes the stream a moment after it has answered.
    const found = await untilSeen(
      () => all(client.readStream(back)).catch((): ResolvedEvent[] => []),
      ({ length }) => length > 0,
    );
    expect(typesOf(found)).toEqual(['After']);
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
    const clustered = EventStoreDBClient.connectionString(url.replace(host, `${host},${host}`));
    expect((await clustered.appendToStream(fresh(), event())).nextExpectedRevision).toBe(0n);
    await clustered.dispose();
  });
});

// Else the adapter's test of a server that drops it again and again would say nothing.
it('the fake EventStoreDB drops a live subscription that does not read, where it is told how much may wait', async () => {
  const fake = await FakeEventStore.start({ liveBuffer: 32 });
  const client = EventStoreDBClient.connectionString(fake.url);
  const told = new Told(client, 's', 'end');
  await told.hears('caught up');
  for (let index = 0; index < 100; index += 1) fake.writeForeign('s', 'Burst', { index });
  await told.hears('error');
  expect(told.error).toMatchObject({ type: 'timeout' });
  await client.dispose();
  await fake.stop();
});
