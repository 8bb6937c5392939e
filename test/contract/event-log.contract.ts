import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import {
  LogUnavailable,
  START,
  WrongExpectedRevision,
  type EventLog,
  type ExpectedRevision,
  type Json,
  type LogBatch,
  type NewEvent,
  type Position,
} from '../../src/log/event-log.js';
import {
  all,
  follow,
  freshStream,
  idsOf,
  sampleMetadata,
  newEvent,
  newEvents,
  outcomeOf,
} from '../support/log-events.js';
import { until } from '../support/waiting.js';

/**
 * The contract of every EventLog. `open` opens one and the same log again and again, which may hold events of others
 * and of earlier runs.
 */
export const eventLogContract = (name: string, open: () => Promise<EventLog>): void => {
  describe(`the event log contract: ${name}`, () => {
    let log: EventLog;
    /** Another client of the same log. */
    let other: EventLog;

    beforeAll(async () => {
      log = await open();
      other = await open();
    });

    afterAll(async () => {
      await log.close();
      await other.close();
    });

    const idsIn = async (stream: string): Promise<string[]> => idsOf(await log.readStream(stream));

    describe('append', () => {
      it('appends to a stream without events, and then after its last one', async () => {
        const stream = freshStream();
        const events = newEvents(2);
        const first = await log.append(stream, 'none', events.slice(0, 1));
        const second = await log.append(stream, 0n, events.slice(1));
        expect([first.revision, second.revision]).toEqual([0n, 1n]);
        const recorded = await log.readStream(stream);
        expect(recorded.map(({ id, revision, position }) => ({ id, revision, position }))).toEqual([
          { id: events[0]?.id, ...first },
          { id: events[1]?.id, ...second },
        ]);
      });

      it.each<[string, number, ExpectedRevision]>([
        ['none, where there are events', 2, 'none'],
        ['a revision, where there are none', 0, 0n],
        ['a revision before the last one', 3, 1n],
        ['a revision after the last one', 2, 2n],
        ['a revision beyond all numbers', 1, 2n ** 63n - 1n],
      ])('refuses %s, and writes nothing', async (_name, length, expected) => {
        const stream = freshStream();
        if (length > 0) await log.append(stream, 'none', newEvents(length));
        const before = await idsIn(stream);
        const refused = log.append(stream, expected, newEvents(2));
        await expect(refused).rejects.toBeInstanceOf(WrongExpectedRevision);
        await expect(refused).rejects.toMatchObject({ stream, expected });
        expect(await idsIn(stream)).toEqual(before);
      });

      it('appends several events as one: their revisions follow each other, the last one is answered', async () => {
        const stream = freshStream();
        const events = newEvents(5);
        const { revision, position } = await log.append(stream, 'none', events);
        const recorded = await log.readStream(stream);
        expect(revision).toBe(4n);
        expect(idsOf(recorded)).toEqual(idsOf(events));
        expect(recorded.at(-1)).toMatchObject({ revision, position });
      });

      it('writes what it is given at once in the order in which it was given', async () => {
        const appended = await Promise.all(
          Array.from({ length: 300 }, () => log.append(freshStream(), 'none', newEvents(1))),
        );
        const positions = appended.map(({ position }) => position);
        expect(positions).toEqual(positions.toSorted());
        const stream = freshStream();
        await Promise.all(
          newEvents(50).map((event, index) =>
            log.append(stream, index === 0 ? 'none' : BigInt(index - 1), [event]),
          ),
        );
        expect(await idsIn(stream)).toHaveLength(50);
      });

      it('never shows a part of an append', async () => {
        const stream = freshStream();
        const lengths = new Set<number>();
        const writing = (async () => {
          for (let i = 0; i < 30; i += 1)
            await log.append(stream, i === 0 ? 'none' : BigInt(i * 5 - 1), newEvents(5));
          return 'done';
        })();
        // Each look lets the event loop turn, without which nothing would ever be written.
        while ((await Promise.race([writing, setImmediate()])) !== 'done')
          lengths.add((await other.readStream(stream)).length);
        lengths.add((await other.readStream(stream)).length);
        expect([...lengths].filter((length) => length % 5 !== 0)).toEqual([]);
        expect(lengths).toContain(150);
      });

      it('refuses an append without events', async () => {
        await expect(log.append(freshStream(), 'none', [])).rejects.toThrow(TypeError);
      });

      it.each<[string, unknown]>([
        ['a bigint', 1n],
        ['undefined', undefined],
        ['a missing value', { name: undefined }],
        ['NaN', [Number.NaN]],
        ['infinity', { deep: { down: Infinity } }],
        ['minus zero', -0],
        ['a date', { at: new Date(0) }],
        ['a function', { call: () => 1 }],
        ['a hole', new Array(1)],
      ])('refuses data that JSON would change: %s', async (_name, data) => {
        const stream = freshStream();
        await expect(log.append(stream, 'none', [{ ...newEvent(), data: data as Json }])).rejects.toThrow(
          TypeError,
        );
        expect(await idsIn(stream)).toEqual([]);
      });
    });

    describe('an append that is repeated', () => {
      it('succeeds with the first result, from any client, also after later appends', async () => {
        const stream = freshStream();
        const events = newEvents(3);
        const first = await log.append(stream, 'none', events);
        expect(await log.append(stream, 'none', events)).toEqual(first);
        const later = newEvents(2);
        const second = await log.append(stream, 2n, later);
        expect(await log.append(stream, 'none', events)).toEqual(first);
        expect(await other.append(stream, 'none', events)).toEqual(first);
        expect(await other.append(stream, 2n, later)).toEqual(second);
        expect(await idsIn(stream)).toEqual([...idsOf(events), ...idsOf(later)]);
      });

      it('succeeds while the first attempt is still under way', async () => {
        const stream = freshStream();
        const events = newEvents(2);
        const results = await Promise.all(
          Array.from({ length: 10 }, (_, i) => (i % 2 ? log : other).append(stream, 'none', events)),
        );
        expect(new Set(results.map(({ revision, position }) => `${revision} ${position}`)).size).toBe(1);
        expect(await idsIn(stream)).toEqual(idsOf(events));
      });

      it.each<[string, ExpectedRevision, (events: NewEvent[]) => NewEvent[]]>([
        ['at another revision', 0n, (events) => events.slice(0, 1)],
        ['at a revision that is still to come', 7n, (events) => events],
        ['in another order', 'none', (events) => events.toReversed()],
        ['with one event replaced', 'none', (events) => [...events.slice(0, 2), newEvent()]],
        ['with one event more', 'none', (events) => [...events, newEvent()]],
      ])('is refused %s', async (_name, expected, change) => {
        const stream = freshStream();
        const events = newEvents(3);
        await log.append(stream, 'none', events);
        await expect(log.append(stream, expected, change(events))).rejects.toBeInstanceOf(
          WrongExpectedRevision,
        );
        expect(await idsIn(stream)).toEqual(idsOf(events));
      });
    });

    it('lets exactly one of racing appends win', async () => {
      for (let round = 0; round < 20; round += 1) {
        const stream = freshStream();
        if (round % 2) await log.append(stream, 'none', [newEvent()]);
        const expected = round % 2 ? 0n : 'none';
        const events = newEvents(8);
        const outcomes = await Promise.all(
          events.map((event, i) => outcomeOf((i % 2 ? log : other).append(stream, expected, [event]))),
        );
        const winners = events.filter((_, i) => typeof outcomes[i] === 'object');
        expect(winners).toHaveLength(1);
        expect(outcomes.filter((outcome) => outcome === 'WrongExpectedRevision')).toHaveLength(7);
        expect((await idsIn(stream)).at(-1)).toBe(winners[0]?.id);
      }
    });

    describe('readStream', () => {
      it('gives all events of the stream in order, without gaps in their revisions', async () => {
        const stream = freshStream();
        const events = newEvents(600);
        await log.append(stream, 'none', events.slice(0, 300));
        await log.append(stream, 299n, events.slice(300));
        const recorded = await log.readStream(stream);
        expect(idsOf(recorded)).toEqual(idsOf(events));
        expect(recorded.map(({ revision }) => revision)).toEqual(events.map((_, i) => BigInt(i)));
        expect(new Set(recorded.map((event) => event.stream))).toEqual(new Set([stream]));
      });

      it('gives those after a revision', async () => {
        const stream = freshStream();
        const events = newEvents(4);
        await log.append(stream, 'none', events);
        expect(idsOf(await log.readStream(stream, 1n))).toEqual(idsOf(events.slice(2)));
        expect(await log.readStream(stream, 3n)).toEqual([]);
        expect(await log.readStream(stream, 9n)).toEqual([]);
      });

      it('gives at most so many', async () => {
        const stream = freshStream();
        const events = newEvents(5);
        const ids = idsOf(events);
        await log.append(stream, 'none', events);
        expect(idsOf(await log.readStream(stream, undefined, 2))).toEqual(ids.slice(0, 2));
        expect(idsOf(await log.readStream(stream, 1n, 2))).toEqual(ids.slice(2, 4));
        expect(idsOf(await log.readStream(stream, 3n, 2))).toEqual(ids.slice(4));
        expect(idsOf(await log.readStream(stream, undefined, 5))).toEqual(ids);
      });

      it('gives none of a stream that does not exist', async () => {
        expect(await log.readStream(freshStream())).toEqual([]);
        expect(await log.readStream(freshStream(), 5n)).toEqual([]);
      });

      it('sees what an append of another client has returned for', async () => {
        const stream = freshStream();
        const event = newEvent();
        await log.append(stream, 'none', [event]);
        expect(idsOf(await other.readStream(stream))).toEqual([event.id]);
      });
    });

    describe('readLast', () => {
      it('gives the last event, as readStream gives it, and none of a stream that does not exist', async () => {
        const stream = freshStream();
        expect(await log.readLast(stream)).toBeUndefined();
        await log.append(stream, 'none', newEvents(3));
        expect(await log.readLast(stream)).toStrictEqual((await log.readStream(stream)).at(-1));
        const event = newEvent();
        await log.append(stream, 2n, [event]);
        expect(await other.readLast(stream)).toMatchObject({ id: event.id, revision: 3n, stream });
      });
    });

    describe('eventAt', () => {
      it('gives the event at a position, and none where there is none', async () => {
        const stream = freshStream();
        await log.append(stream, 'none', newEvents(3));
        const events = await log.readStream(stream);
        for (const event of events) expect(await other.eventAt(event.position)).toStrictEqual(event);
        expect(await log.eventAt(START)).toBeUndefined();
        const head = await log.head();
        // After the end; where a position is two numbers, none that there is.
        for (const place of [BigInt(head) + 1n, BigInt(events[1]?.position ?? 0) * 2n + 2n])
          expect(await log.eventAt(String(place).padStart(head.length, '0') as Position)).toBeUndefined();
        expect(await log.eventAt('of another log' as Position)).toBeUndefined();
      });
    });

    describe('what is read', () => {
      it.each<[string, Json]>([
        ['any Unicode', 'Ünïcödé – 植物 🌵 \u0000 \u001f "\\" \u2028 e\u0301 é'],
        ['lone surrogates', { '\udfff': ['\ud800', 'a\udc00b'], whole: '😀' }],
        ['numbers', [0, 1, -1, 0.1, 1e-7, 1e300, 5e-324, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]],
        ['nesting', { a: [{}, [], [[null, true, false]], { b: { c: '' } }] }],
        ['a text', 'a text'],
        ['nothing', null],
        ['many characters', 'x'.repeat(300_000)],
      ])('is equal to what was appended: %s', async (_name, data) => {
        const stream = freshStream();
        const event: NewEvent = {
          ...newEvent(data),
          metadata: sampleMetadata({
            actor: { sub: 'Zoë 🌵 "\\"', clientId: '\u0007' },
            traceparent: '00-ab-cd-01',
          }),
        };
        const { revision, position } = await log.append(stream, 'none', [event]);
        expect(await log.readStream(stream)).toStrictEqual([{ ...event, stream, revision, position }]);
      });
    });

    describe('positions', () => {
      it('have one length, and ascend as texts in the order of the log', async () => {
        const before = await log.head();
        const streams = [freshStream(), freshStream(), freshStream()];
        const answered: Position[] = [];
        for (let revision = -1n; revision < 9n; revision += 1n)
          for (const stream of streams)
            answered.push(
              (await log.append(stream, revision < 0n ? 'none' : revision, newEvents(2).slice(1))).position,
            );
        const events = await all(log.readAll(before));
        const positions = events.map(({ position }) => position);
        expect(new Set(positions.map(({ length }) => length)).size).toBe(1);
        expect(positions.filter((position, i) => i > 0 && !((positions[i - 1] ?? START) < position))).toEqual(
          [],
        );
        expect(positions.filter((position) => !(START < position))).toEqual([]);
        const own = events.filter(({ stream }) => streams.includes(stream)).map(({ position }) => position);
        expect(own).toEqual(answered);
      });

      it('end with the head, which only goes forward', async () => {
        const before = await log.head();
        const { position } = await log.append(freshStream(), 'none', newEvents(3));
        const after = await other.head();
        expect(before < position).toBe(true);
        expect(after >= position).toBe(true);
      });

      it('are so far apart, by the log, that shares of the way add up to all of it', async () => {
        const before = await log.head();
        const { position } = await log.append(freshStream(), 'none', newEvents(3));
        const { position: last } = await log.append(freshStream(), 'none', newEvents(3));
        const whole = log.distance(before, last);
        expect(whole).toBeGreaterThan(log.distance(position, last));
        expect(log.distance(before, position) + log.distance(position, last)).toBe(whole);
        expect(log.distance(START, last)).toBeGreaterThanOrEqual(whole);
        expect(log.distance(last, last)).toBe(0);
        expect(log.distance(last, position)).toBe(0);
      });

      it('count the events between two of them, or never do', async () => {
        const { position: after } = await log.append(freshStream(), 'none', newEvents(1));
        const { position: upTo } = await log.append(freshStream(), 'none', newEvents(3));
        expect([
          [3, 0],
          [undefined, undefined],
        ]).toContainEqual([log.count(after, upTo), log.count(upTo, upTo)]);
      });

      it('are none of them beyond the head', async () => {
        const given: Position[] = [await log.head()];
        await follow(log, await log.head(), (_, batch) => {
          given.push(batch.position);
          if (given.length < 5) void log.append(freshStream(), 'none', [newEvent()]);
          return given.length === 5;
        });
        const head = await other.head();
        expect(given.filter((position) => position > head)).toEqual([]);
        expect(head.length).toBe(given.at(-1)?.length);
      });
    });

    describe('readAll', () => {
      it('gives the events after a position, without the one at it', async () => {
        const stream = freshStream();
        const events = newEvents(5);
        await log.append(stream, 'none', events);
        const recorded = await log.readStream(stream);
        const third = recorded[2];
        if (!third) throw new Error('there is no third event');
        const after = await all(log.readAll(third.position));
        expect(idsOf(after.filter((event) => event.stream === stream))).toEqual(idsOf(events.slice(3)));
        expect(after).not.toContainEqual(third);
      });

      it('gives from START everything that any stream has, as readStream gives it', async () => {
        const stream = freshStream();
        await log.append(stream, 'none', newEvents(3));
        const found = (await all(log.readAll(START))).filter((event) => event.stream === stream);
        expect(found).toStrictEqual(await log.readStream(stream));
      });

      it('gives nothing after the head', async () => {
        await log.append(freshStream(), 'none', newEvents(1));
        const own = freshStream();
        const after = await all(log.readAll(await log.head()));
        expect(after.filter(({ stream }) => stream === own)).toEqual([]);
        const { position } = await log.append(own, 'none', newEvents(1));
        expect((await all(log.readAll(position))).filter(({ stream }) => stream === own)).toEqual([]);
      });

      it('may be left early, and reads thousands of events', async () => {
        const before = await log.head();
        const streams = Array.from({ length: 12 }, freshStream);
        const appended = streams.map((stream) => ({ stream, events: newEvents(100) }));
        await Promise.all(appended.map(({ stream, events }) => log.append(stream, 'none', events)));
        const found = new Map<string, string[]>(streams.map((stream) => [stream, []]));
        for await (const { stream, id } of log.readAll(before)) found.get(stream)?.push(id);
        expect(found).toEqual(new Map(appended.map(({ stream, events }) => [stream, idsOf(events)])));
        let seen = 0;
        for await (const event of log.readAll(before)) {
          expect(event.position > before).toBe(true);
          seen += 1;
          if (seen === 700) break;
        }
        expect(seen).toBe(700);
      });
    });

    describe('subscribe', () => {
      it('begins at START, and says when it has caught up', async () => {
        const stream = freshStream();
        const events = newEvents(3);
        const { position } = await log.append(stream, 'none', events);
        const caught: boolean[] = [];
        const seen = await follow(log, START, (_, batch) => {
          caught.push(batch.caughtUp);
          return batch.caughtUp && batch.position >= position;
        });
        expect(idsOf(seen.filter((event) => event.stream === stream))).toEqual(idsOf(events));
        expect(caught.at(-1)).toBe(true);
      });

      it('that takes nothing holds up nobody else', async () => {
        const before = await log.head();
        const large = { text: 'x'.repeat(2_000) };
        const streams = Array.from({ length: 30 }, freshStream);
        for (const stream of streams)
          await log.append(
            stream,
            'none',
            Array.from({ length: 100 }, () => newEvent(large)),
          );
        const ending = new AbortController();
        const lazy = log.subscribe(before, ending.signal)[Symbol.asyncIterator]();
        const first = await lazy.next();
        try {
          const appended: Position[] = [];
          for (const stream of streams)
            appended.push((await log.append(stream, 99n, [newEvent(large)])).position);
          const seen = await follow(log, before, (events) => events.length >= 3_030);
          expect(seen.at(-1)?.position).toBe(appended.at(-1));
          expect(await log.readStream(streams[0] ?? '')).toHaveLength(101);
        } finally {
          ending.abort();
          await lazy.return?.();
        }
        expect(first.done).toBe(false);
      });

      it('is not caught up before it has delivered what was there', async () => {
        const before = await log.head();
        const streams = Array.from({ length: 11 }, freshStream);
        let last = START;
        for (const stream of streams) last = (await log.append(stream, 'none', newEvents(100))).position;
        const batches: LogBatch[] = [];
        await follow(log, before, (_, batch) => {
          batches.push(batch);
          return batch.caughtUp;
        });
        expect(
          batches.flatMap((batch) => batch.events).filter((e) => streams.includes(e.stream)),
        ).toHaveLength(1100);
        expect((batches.at(-1)?.position ?? START) >= last).toBe(true);
        expect(Math.max(...batches.map((batch) => batch.events.length))).toBeLessThanOrEqual(500);
        expect(
          batches.filter((batch) => batch.events.some((event) => event.position > batch.position)),
        ).toEqual([]);
      });

      it('continues after a position', async () => {
        const stream = freshStream();
        const events = newEvents(4);
        await log.append(stream, 'none', events);
        const [, second] = await log.readStream(stream);
        const seen = await follow(log, second?.position ?? START, (_, batch) => batch.caughtUp);
        expect(idsOf(seen.filter((event) => event.stream === stream))).toEqual(idsOf(events.slice(2)));
      });

      it.each([
        ['its own client', () => log],
        ['another client', () => other],
      ])('delivers what %s appends while it waits', async (_name, writer) => {
        const streams = [freshStream(), freshStream()];
        let appended = 0;
        const seen = await follow(log, await log.head(), (events, batch) => {
          const own = events.filter(({ stream }) => streams.includes(stream));
          const next = streams[appended];
          if (batch.caughtUp && next !== undefined && own.length === appended) {
            appended += 1;
            void writer().append(next, 'none', [newEvent()]);
          }
          return own.length === 2;
        });
        expect(seen.map(({ stream }) => stream).filter((stream) => streams.includes(stream))).toEqual(
          streams,
        );
      });

      it('speaks at least once a second while nothing happens', async () => {
        const quiet: number[] = [];
        let last = performance.now();
        await follow(log, await log.head(), (_, batch) => {
          quiet.push(performance.now() - last);
          last = performance.now();
          expect(batch.caughtUp).toBe(true);
          return quiet.slice(1).some((ms) => ms < 1_000); // a busy machine may delay one batch, but not each
        });
      });

      it('gives another batch soon after the last event, then again only what the second asks for', async () => {
        // Once: a busy machine may delay any of them.
        await until(async () => {
          const before = await log.head();
          const { position } = await log.append(freshStream(), 'none', [newEvent()]);
          const quiet: number[] = [];
          let last: number | undefined;
          await follow(log, before, (_, batch) => {
            if (batch.position < position) return false;
            if (last !== undefined) quiet.push(performance.now() - last);
            last = performance.now();
            return quiet.length === 2;
          });
          const [first = Infinity, second = 0] = quiet;
          return first < 600 && second > 600;
        });
      });

      it('never goes back', async () => {
        const after = await log.head();
        const positions: Position[] = [after];
        await follow(log, after, (_, batch) => {
          positions.push(batch.position);
          if (positions.length < 5) void log.append(freshStream(), 'none', [newEvent()]);
          return positions.length === 5;
        });
        expect(positions.filter((position, i) => i > 0 && position < (positions[i - 1] ?? START))).toEqual(
          [],
        );
      });

      it('ends without an error when its signal aborts: before, between and while it waits', async () => {
        expect(await all(log.subscribe(START, AbortSignal.abort()))).toEqual([]);
        const controller = new AbortController();
        const batches = log.subscribe(await log.head(), controller.signal)[Symbol.asyncIterator]();
        for (;;) {
          const next: IteratorResult<LogBatch, unknown> = await batches.next();
          if (next.done === true || next.value.caughtUp) break;
        }
        const waiting = batches.next();
        controller.abort();
        let ended = (await waiting).done === true;
        for (let i = 0; !ended && i < 3; i += 1) ended = (await batches.next()).done === true;
        expect(ended).toBe(true);
      });

      it('may be left early, again and again', async () => {
        const { position } = await log.append(freshStream(), 'none', newEvents(1));
        for (let i = 0; i < 20; i += 1) {
          let left = false;
          for await (const batch of log.subscribe(position, new AbortController().signal)) {
            left = batch.position >= position;
            break;
          }
          expect(left).toBe(true);
        }
      });

      it('delivers everything exactly once and in order while 32 writers append', async () => {
        const after = await log.head();
        const writers = Array.from({ length: 32 }, () => ({ stream: freshStream(), events: newEvents(20) }));
        const streams = new Set(writers.map(({ stream }) => stream));
        const subscribed = [log, other].map((client) =>
          follow(
            client,
            after,
            (events) => events.filter(({ stream }) => streams.has(stream)).length >= 32 * 20,
          ),
        );
        await Promise.all(
          writers.map(async ({ stream, events }, writer) => {
            for (const [i, event] of events.entries())
              await (writer % 2 ? log : other).append(stream, i === 0 ? 'none' : BigInt(i - 1), [event]);
          }),
        );
        const expected = idsOf((await all(log.readAll(after))).filter(({ stream }) => streams.has(stream)));
        expect(new Set(expected).size).toBe(32 * 20);
        for (const seen of await Promise.all(subscribed)) {
          const own = seen.filter(({ stream }) => streams.has(stream));
          expect(idsOf(own)).toEqual(expected);
          for (const { stream, events } of writers)
            expect(idsOf(own.filter((event) => event.stream === stream))).toEqual(idsOf(events));
        }
      });
    });

    it('behaves like the model, whatever is appended at the same time', async () => {
      /** The whole of the semantics of an append. */
      const modelAppend = (stream: string[], expected: ExpectedRevision, ids: readonly string[]): string => {
        const at = expected === 'none' ? 0 : Number(expected) + 1;
        if (stream.length === at) stream.push(...ids);
        else if (!ids.every((id, i) => stream[at + i] === id)) return 'WrongExpectedRevision';
        return `revision ${at + ids.length - 1}`;
      };
      interface Attempt {
        readonly stream: number;
        readonly expected: ExpectedRevision;
        readonly ids: readonly number[];
        readonly client: boolean;
      }
      const attempt = fc.record<Attempt>({
        stream: fc.nat(1),
        expected: fc.constantFrom<ExpectedRevision>('none', 0n, 1n, 2n, 3n),
        ids: fc.uniqueArray(fc.nat(4), { minLength: 1, maxLength: 3 }),
        client: fc.boolean(),
      });
      const history = fc.array(fc.array(attempt, { minLength: 1, maxLength: 4 }), {
        minLength: 1,
        maxLength: 6,
      });
      await fc.assert(
        fc.asyncProperty(history, async (steps) => {
          const streams = [freshStream(), freshStream()];
          const ids = Array.from({ length: 5 }, () => randomUUID());
          const idsFor = (one: Attempt): string[] => one.ids.map((id) => ids[id] ?? '');
          let model: string[][] = [[], []];
          for (const together of steps) {
            const outcomes = await Promise.all(
              together.map(async (one) => {
                const events = idsFor(one).map((id) => newEvent({ id: 1 }, id));
                const appending = (one.client ? log : other).append(
                  streams[one.stream] ?? '',
                  one.expected,
                  events,
                );
                const outcome = await outcomeOf(appending);
                return typeof outcome === 'string' ? outcome : `revision ${outcome.revision}`;
              }),
            );
            const stored = await Promise.all(streams.map(idsIn));
            // Appends at the same time took place in some order: there must be one that explains all.
            const explained = permutations(together.map((_, i) => i)).some((order) => {
              const copy = model.map((stream) => [...stream]);
              const agrees = order.every((i) => {
                const one = together[i];
                const stream = one && copy[one.stream];
                return one && stream && modelAppend(stream, one.expected, idsFor(one)) === outcomes[i];
              });
              return agrees && JSON.stringify(copy) === JSON.stringify(stored);
            });
            if (!explained) throw new Error(`no order explains ${JSON.stringify({ outcomes, stored })}`);
            model = stored;
          }
        }),
        { numRuns: 60 },
      );
    });

    it('has an identity, which stays', async () => {
      const again = await open();
      expect(again.identity()).toMatch(/./);
      expect([log.identity(), other.identity(), again.identity()]).toEqual(Array(3).fill(again.identity()));
      await again.close();
    });

    it('is ready while it is open', async () => {
      await expect(log.ready()).resolves.toBeUndefined();
    });

    describe('close', () => {
      it('lets appends that were handed over finish', async () => {
        const closing = await open();
        const before = await closing.head();
        const appended = Array.from({ length: 1200 }, () => ({ stream: freshStream(), event: newEvent() }));
        const appending = appended.map(({ stream, event }) =>
          outcomeOf(closing.append(stream, 'none', [event])),
        );
        await closing.close();
        const outcomes = await Promise.all(appending);
        expect(outcomes.filter((outcome) => typeof outcome === 'string')).toEqual([]);
        const written = (await all(log.readAll(before))).map(({ stream, id }) => `${stream} ${id}`);
        expect(written.toSorted()).toEqual(
          appended.map(({ stream, event }) => `${stream} ${event.id}`).toSorted(),
        );
      });

      it('may be called twice, and makes every method throw LogUnavailable', async () => {
        const closed = await open();
        const waiting = all(closed.subscribe(await closed.head(), new AbortController().signal));
        await Promise.all([
          expect(waiting).rejects.toBeInstanceOf(LogUnavailable),
          closed.close(),
          closed.close(),
        ]);
        await closed.close();
        const stream = freshStream();
        const digits = (await log.head()).length;
        const attempts: (() => Promise<unknown>)[] = [
          () => closed.append(stream, 'none', newEvents(1)),
          () => closed.readStream(stream),
          () => closed.readLast(stream),
          () => closed.eventAt('0'.repeat(digits) as Position),
          () => all(closed.readAll(START)),
          () => all(closed.subscribe(START, new AbortController().signal)),
          () => closed.head(),
          () => closed.ready(),
        ];
        for (const attempt of attempts) await expect(attempt()).rejects.toBeInstanceOf(LogUnavailable);
        expect(() => closed.identity()).toThrow(LogUnavailable);
        expect(await idsIn(stream)).toEqual([]);
      });
    });
  });
};

const permutations = <T>(items: readonly T[]): T[][] =>
  items.length === 0
    ? [[]]
    : items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));
