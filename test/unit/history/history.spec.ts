import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { cloudEventOf, cloudEventText } from '../../../src/history/cloud-event.js';
import {
  type EventFilter,
  followHistory,
  type HistoryBatch,
  knownPosition,
  readHistory,
} from '../../../src/history/read.js';
import { type Instant, parseInstant } from '../../../src/history/instant.js';
import { eventLines, liveEvents } from '../../../src/http/audit/event-streams.js';
import { serverSentEvents } from '../../../src/http/server-sent-events.js';
import { plantStream, requestStream } from '../../../src/domain/stream.js';
import {
  type EventLog,
  LogUnavailable,
  type Position,
  type RecordedEvent,
  START,
  UnknownPosition,
} from '../../../src/log/event-log.js';
import { Faults } from '../../support/domain-faults.js';
import { appendRaw, run, Stores } from '../../support/domain-stores.js';
import { createPlant, deletePlant } from '../../support/given.js';
import { all, sampleMetadata, newEvent, newEvents } from '../../support/log-events.js';
import { never } from '../../support/waiting.js';

const at = (text: string): Instant => {
  const instant = parseInstant(text);
  if (instant === undefined) throw new Error(`${text} is no instant`);
  return instant;
};

let stores: Stores;
let log: EventLog;
beforeEach(async () => {
  stores = new Stores();
  log = await stores.log();
});
afterEach(() => stores.remove());

const read = async (filter: EventFilter = {}, after = START, upTo?: Position): Promise<RecordedEvent[]> =>
  (await all(readHistory(log, filter, after, upTo ?? (await log.head()), never()))).flatMap(
    ({ events }) => events,
  );

/** Appends a plant that an actor created at a time. */
const created = async (id: number, owner = 'anne', sub = owner, decidedAt = '2026-01-31T12:00:00.000Z') => {
  const event = { ...newEvent({ id, name: 'n', tag: '' }), type: 'PlantCreated' };
  const metadata = sampleMetadata({ actor: { sub }, decidedAt });
  return log.append(plantStream(owner, id), 'none', [{ ...event, metadata }]);
};

const idsOf = (events: readonly RecordedEvent[]): unknown[] =>
  events.map(({ data }) => (data as { id?: unknown }).id);

describe('an instant', () => {
  it.each([
    ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.000000000Z'],
    ['2026-01-31T12:00:00.250Z', '2026-01-31T12:00:00.250000000Z'],
    ['2026-01-31t12:00:00.5z', '2026-01-31T12:00:00.500000000Z'],
    ['2026-01-31T12:00:00.123456789+02:00', '2026-01-31T10:00:00.123456789Z'],
    ['2026-01-01T00:30:00-01:30', '2026-01-01T02:00:00.000000000Z'],
    ['2024-02-29T23:59:59-00:00', '2024-02-29T23:59:59.000000000Z'],
    ['0026-01-31T12:00:00Z', '0026-01-31T12:00:00.000000000Z'],
  ])('%s is %s', (text, instant) => {
    expect(parseInstant(text)).toBe(instant);
  });

  it.each([
    ...['', 'yesterday', '2026-01-31', '2026-01-31T12:00:00', '2026-01-31 12:00:00Z', '2026-02-29T12:00:00Z'],
    ...['2026-02-29T12:00:00.000Z', '2026-01-31T24:00:00.000Z', 'Sat Jan 31 2026 12:00:00'],
    ...['2026-13-01T00:00:00Z', '2026-01-31T24:00:00Z', '2026-01-31T23:59:60Z', '2026-01-31T12:00:00.Z'],
    ...['2026-01-31T12:00:00+24:00', '2026-01-31T12:00:00+02:60', '0000-01-01T00:00:00+01:00'],
    ...['9999-12-31T23:59:59-01:00', ' 2026-01-31T12:00:00Z', '2026-01-31T12:00:00.1234567891Z'],
  ])('%j is none', (text) => {
    expect(parseInstant(text)).toBeUndefined();
  });
});

describe('an event as a CloudEvent', () => {
  it('shows all that is known of it', async () => {
    await run(log, 'Anne Ω', createPlant(-7, 'Φίκος', 'x'));
    const [event] = (await read()) as [RecordedEvent];
    expect(cloudEventOf(event)).toEqual({
      specversion: '1.0',
      id: event.id,
      source: 'urn:plants:log',
      type: 'plants.PlantCreated.v1',
      subject: 'plants/-7',
      time: '2026-01-31T12:00:00.000Z',
      datacontenttype: 'application/json',
      data: { id: -7, name: 'Φίκος', tag: 'x' },
      owner: 'Anne Ω',
      position: event.position,
      stream: plantStream('Anne Ω', -7),
      revision: 0,
      actor: 'anne',
      clientid: 'app',
      correlationid: 'correlation-1',
      causationid: expect.any(String) as unknown,
    });
  });

  it('has names of attributes that CloudEvents allows, and texts that are not empty', async () => {
    const metadata = {
      ...sampleMetadata(),
      traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`,
      more: [1],
    };
    await log.append(requestStream('anne', 'abc'), 'none', [{ ...newEvent(), metadata }]);
    await log.append('operation-rebuilds', 'none', [newEvent()]);
    const [request, operation] = (await read()).map(cloudEventOf);
    for (const [name, value] of Object.entries({ ...request, ...operation })) {
      expect(name).toMatch(/^[a-z0-9]{1,20}$/);
      if (name !== 'data') expect(String(value)).not.toBe('');
    }
    expect(request).toMatchObject({
      subject: 'requests/abc',
      owner: 'anne',
      traceparent: metadata.traceparent,
      metadata: JSON.stringify(metadata),
    });
    expect(operation).toMatchObject({ subject: 'operations/rebuilds' });
    expect(operation).not.toHaveProperty('owner');
  });

  it('has no owner where the owner is empty: CloudEvents refuses empty attributes', async () => {
    await run(log, '', createPlant(7));
    const [event] = (await read()).map(cloudEventOf);
    expect(event).toMatchObject({ subject: 'plants/7', stream: 'plant-/7' });
    expect(event).not.toHaveProperty('owner');
    expect(event).not.toHaveProperty('refused');
  });

  it.each<[string, Partial<RecordedEvent>, object]>([
    ['of an unknown type', { type: 'PlantWatered' }, { type: 'plants.PlantWatered.v1' }],
    ['whose data is no JSON', { data: '{"id":' }, { data: '{"id":' }],
    ['without metadata', { metadata: 'none' }, { type: 'plants.PlantDeleted', metadata: '"none"' }],
    ['without a sensible time', { metadata: { decidedAt: 'noon' } }, { metadata: '{"decidedAt":"noon"}' }],
    ['in a stream of nobody', { stream: 'plant-%zz/x' }, { stream: 'plant-%zz/x' }],
  ])('%s is shown, and marked', (_what, changes, shown) => {
    const event = { ...newEvent(), stream: plantStream('anne', 1), revision: 0n, position: '1' as Position };
    const text = cloudEventText({ ...event, ...changes });
    expect(JSON.parse(text)).toMatchObject({ ...shown, refused: expect.any(String) as unknown });
    expect(text).not.toContain('\n');
  });

  it('is marked where it is nested so deeply that nobody could read it', () => {
    const deep = JSON.parse(`${'['.repeat(50_000)}${']'.repeat(50_000)}`) as unknown;
    const event = { ...newEvent(), stream: plantStream('anne', 1), revision: 0n, position: '1' as Position };
    for (const changes of [{ data: deep }, { metadata: deep }])
      expect(JSON.parse(cloudEventText({ ...event, ...changes }))).toMatchObject({
        data: null,
        refused: expect.stringContaining('nested') as unknown,
      });
  });
});

describe('reading the history', () => {
  beforeEach(async () => {
    await created(1, 'anne', 'anne', '2026-01-01T00:00:00.000Z');
    await created(2, 'bob', 'bob', '2026-01-03T00:00:00.000Z');
    await created(3, 'anne', 'bob', '2026-01-02T00:00:00.000Z');
    await run(log, 'anne', deletePlant(1));
    await appendRaw(log, requestStream('anne', 'k'), 'RequestAccepted', { id: 5 });
    await appendRaw(log, plantStream('ann', 6), 'PlantCreated', { id: 6 });
  });

  it.each<[string, EventFilter, unknown[]]>([
    ['everything', {}, [1, 2, 3, 1, 5, 6]],
    ['an owner, and nobody whose name begins so', { owner: 'ann' }, [6]],
    ['an owner with requests', { owner: 'anne' }, [1, 3, 1, 5]],
    ['a plant', { owner: 'anne', plant: 1 }, [1, 1]],
    ['a plant that never was', { owner: 'anne', plant: 2 }, []],
    ['a type', { type: 'PlantDeleted' }, [1]],
    ['a type with its version', { type: 'plants.RequestAccepted.v1' }, [5]],
    ['an actor', { actor: 'bob' }, [2, 3]],
    ['a time', { since: at('2026-01-02T00:00:00Z'), until: at('2026-01-03T00:00:00Z') }, [2, 3]],
    ['a plant and a time', { owner: 'anne', plant: 1, until: at('2026-01-02T00:00:00Z') }, [1]],
    ['a nanosecond too late', { since: at('2026-01-31T12:00:00.000000001Z') }, []],
  ])('gives %s', async (_what, filter, ids) => {
    expect(idsOf(await read(filter))).toEqual(ids);
  });

  it('begins after a position and ends at another, by any filter', async () => {
    const [first, , third] = (await read()) as [RecordedEvent, RecordedEvent, RecordedEvent];
    for (const filter of [{}, { owner: 'anne' }])
      expect(idsOf(await read(filter, first.position, third.position))).toEqual(filter.owner ? [3] : [2, 3]);
    expect(idsOf(await read({ owner: 'anne', plant: 1 }, first.position))).toEqual([1]);
    expect(idsOf(await read({ owner: 'anne', plant: 1 }, START, first.position))).toEqual([1]);
    expect(await read({}, third.position, first.position)).toEqual([]);
  });

  it('passes what does not say when it was decided by every time', async () => {
    const metadata = { schemaVersion: 1 } as never;
    await log.append(plantStream('zoe', 9), 'none', [{ ...newEvent({ id: 9 }), metadata }]);
    expect(idsOf(await read({ since: at('2030-01-01T00:00:00Z') }))).toEqual([9]);
    expect(idsOf(await read({ until: at('2020-01-01T00:00:00Z') }))).toEqual([9]);
  });

  it('knows the positions of its log, and no others', async () => {
    const head = await log.head();
    for (const { position } of await read()) expect(await knownPosition(log, position, 'x')).toBe(position);
    for (const text of [
      '',
      '0',
      '1',
      `${head}0`,
      '9'.repeat(head.length),
      'x'.repeat(head.length),
      head.slice(1),
    ])
      await expect(knownPosition(log, text, 'x')).rejects.toThrow(UnknownPosition);
  });
});

describe('following the history', () => {
  it('goes on with what comes, over a log that cannot be reached for a while', async () => {
    await created(1);
    const ending = new AbortController();
    let subscriptions = 0;
    const broken = new Faults(log).every('subscribe', async function* (proceed, ...args) {
      subscriptions += 1;
      if (subscriptions === 2) throw new LogUnavailable('gone');
      for await (const batch of proceed(...args)) {
        yield batch;
        if (subscriptions === 1) throw new LogUnavailable('cut');
      }
    });
    const seen: unknown[] = [];
    for await (const { events, waiting } of followHistory(
      broken.port,
      { owner: 'anne' },
      START,
      ending.signal,
    )) {
      seen.push(...(waiting === undefined ? idsOf(events) : [waiting]));
      if (waiting === 'gone') await created(2);
      if (seen.at(-1) === 2) ending.abort();
    }
    expect(seen).toEqual([1, 'cut', 'gone', 2]);
  });

  it('fails at once where the log cannot be reached at the beginning', async () => {
    await log.close();
    await expect(all(followHistory(log, {}, START, never()))).rejects.toThrow(LogUnavailable);
  });
});

describe('a stream of events', () => {
  /** A log that counts the events that were read from it. */
  const counted = (): { port: EventLog; events: () => number } => {
    let events = 0;
    const faults = new Faults(log).every('subscribe', async function* (proceed, ...args) {
      for await (const batch of proceed(...args)) {
        events += batch.events.length;
        yield batch;
      }
    });
    return { port: faults.port, events: () => events };
  };

  it('reads no more than its client takes', async () => {
    for (let n = 0; n < 20; n++) await log.append(plantStream('anne', n), 'none', newEvents(500));
    const { port, events } = counted();
    const gone = new AbortController();
    const waiting: (() => void)[] = [];
    const client = new Writable({ highWaterMark: 1, write: (_piece, _encoding, done) => waiting.push(done) });
    const lines = eventLines(
      readHistory(port, {}, START, await log.head(), gone.signal),
      Infinity,
      gone.signal,
    );
    const sending = pipeline(lines, client);
    while (waiting.length === 0) await nextTurn();
    for (let turn = 0; turn < 1_000; turn++) await nextTurn(); // time enough to read ten times as much
    expect(events()).toBeGreaterThan(0);
    expect(events()).toBeLessThanOrEqual(500); // one batch
    client.destroy();
    await expect(sending).rejects.toThrow();
  });

  it('has no end that could be taken for one where its client, or the log, has gone', async () => {
    await created(1);
    const gone = new AbortController();
    const none = async function* (): AsyncGenerator<HistoryBatch> {
      yield { events: await read(), position: START, done: false };
      gone.abort(new Error('gone'));
    };
    await expect(all(eventLines(none(), Infinity, gone.signal))).rejects.toThrow('gone');
  });

  it('ends after as many events as were asked for', async () => {
    for (const id of [1, 2, 3]) await created(id);
    const head = await log.head();
    const lines = await all(eventLines(readHistory(log, {}, START, head, never()), 2, never()));
    expect(lines.join('').match(/^\{.*\}$/gm)).toHaveLength(2);
  });

  it('of server-sent events shows a type that we did not write only where it is harmless', async () => {
    await appendRaw(log, plantStream('anne', 1), 'Plant\nid: 7', { id: 1 });
    await created(2);
    const [evil, good] = (
      await all(
        serverSentEvents(liveEvents(readHistory(log, {}, START, await log.head(), never())), Infinity),
      )
    )
      .join('')
      .split('\n\n')
      .slice(1);
    expect(evil).toMatch(/^id: \d+\ndata: \{.*\}$/);
    expect(good).toMatch(/^id: \d+\nevent: plants\.PlantCreated\.v1\ndata: \{.*\}$/);
  });

  it('of server-sent events gives signs of life with where to go on, and tells once that it waits', async () => {
    const position = '0007' as Position;
    const batches = async function* (): AsyncGenerator<HistoryBatch> {
      const nothing = { events: [], position, done: false };
      await nextTurn();
      for (const batch of [nothing, { ...nothing, waiting: 'x' }, { ...nothing, waiting: 'x' }, nothing])
        yield batch;
      yield { ...nothing, position: START };
    };
    const said = (await all(serverSentEvents(liveEvents(batches()), Infinity, 0))).join('');
    const alive = ': still here\nid: 0007\n\n';
    expect(said).toBe(
      `retry: 2000\nid: 0007\n\n${alive}: the log cannot be reached, and is tried again\n\n${alive}${alive}: still here\nid: 0\n\n`,
    );
    expect(await all(serverSentEvents(liveEvents(batches()), Infinity))).toHaveLength(2);
  });

  it('of server-sent events ends with the token', async () => {
    const batches = followHistory(log, {}, START, never());
    expect(await all(serverSentEvents(liveEvents(batches), Date.now() - 1))).toEqual([]);
  });
});
