import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import {
  type Appended,
  type EventLog,
  LogUnavailable,
  type Position,
  type RecordedEvent,
  START,
  StreamErased,
  WrongExpectedRevision,
} from '../../src/log/event-log.js';
import { all, follow, newEvent, newEvents } from '../support/log-events.js';
import { until } from '../support/waiting.js';

/** Streams of one owner and the events in them, and others between them. */
interface Owned {
  readonly prefixes: string[];
  readonly streams: string[];
  readonly subject: string;
  readonly into: string;
  readonly record: string;
  readonly after: Position;
}

/** The erasure of events, on any EventLog. `open` opens one and the same log again and again. */
export const eventLogErasureContract = (name: string, open: () => Promise<EventLog>): void => {
  describe(`the contract of erasing: ${name}`, () => {
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

    /** An owner with three plants, whose events stand between those of others. */
    const owned = async (): Promise<Owned> => {
      const [owner, id] = [randomUUID(), randomUUID()];
      const after = await log.head();
      const streams = [1, 2, 3].map((plant) => `plant-${owner}/${plant}`);
      const subject = `erasure-${id}`;
      for (const stream of streams) {
        await log.append(stream, 'none', newEvents(2));
        await log.append(`plant-${owner}x/1${stream.at(-1)}`, 'none', [newEvent()]);
        await log.append(stream, 1n, [newEvent()]);
      }
      await log.append(subject, 'none', [newEvent()]);
      const prefixes = [`plant-${owner}/`, `request-${owner}/`, subject];
      return { prefixes, streams, subject, into: `erased-${id}`, record: `operation-${id}`, after };
    };

    const ownedEvents = ({ prefixes, into }: Owned): Promise<RecordedEvent[]> =>
      all(log.readStreamsFrom([...prefixes, into]));

    const eraseEvents = (one: Owned, events: readonly RecordedEvent[]): Promise<Appended | undefined> => {
      const { prefixes, subject, into, record } = one;
      const redacted = events.map(({ position }, index) => ({
        position,
        id: `${into.slice(7, 31)}${String(index).padStart(12, '0')}`,
        type: 'Erased',
        data: { leafHash: `hash ${index}` },
        metadata: { schemaVersion: 1 },
      }));
      const recorded = { stream: record, expected: 'none' as const, event: newEvent() };
      return log.erase({ prefixes, subject, redacted, into, record: recorded }, new AbortController().signal);
    };

    /** Removes everything from files, however often that has to be asked for. */
    const scrubbed = (into: string): Promise<unknown> =>
      until(async () => {
        try {
          await log.scrub(into);
          return true;
        } catch (error) {
          if (!(error instanceof LogUnavailable)) throw error;
          return false;
        }
      });

    const shown = (events: readonly RecordedEvent[]): string[] =>
      events.map(({ stream, revision, position, id }) => `${position} ${stream} ${revision} ${id}`);

    it('can be done', async () => {
      expect(await log.whyNotErase()).toBeUndefined();
    });

    it('leaves redacted events at the positions of the events, and nothing else of them', async () => {
      const one = await owned();
      const events = await ownedEvents(one);
      const before = await all(log.readAll(one.after));
      expect(events).toHaveLength(10);
      const recorded = await eraseEvents(one, events);
      expect(recorded?.revision).toBe(0n);
      for (const client of [log, other]) {
        const after = await all(client.readAll(one.after));
        expect(after.at(-1)).toMatchObject({ stream: one.record, position: recorded?.position });
        expect(after.map(({ position }) => position).slice(0, -1)).toEqual(
          before.map(({ position }) => position),
        );
        const erased = after.filter(({ stream }) => stream === one.into);
        expect(erased.map(({ position }) => position)).toEqual(events.map(({ position }) => position));
        expect(erased.map(({ revision }) => revision)).toEqual(events.map((_, index) => BigInt(index)));
        expect(await client.readStream(one.into)).toEqual(erased);
        expect(await client.readStream(one.into, 3n, 2)).toEqual(erased.slice(4, 6));
        expect(await client.readLast(one.into)).toEqual(erased.at(-1));
        for (const event of erased) expect(await client.eventAt(event.position)).toEqual(event);
        for (const stream of [...one.streams, one.subject]) {
          expect(await client.readStream(stream)).toEqual([]);
          expect(await client.readLast(stream)).toBeUndefined();
        }
        expect(await all(client.readStreamsFrom(one.prefixes))).toEqual([]);
        // The others' events, and those that an owner has whose name begins in the same way.
        const rest = after.filter(({ stream }) => stream !== one.into && stream !== one.record);
        expect(rest).toEqual(before.filter((event) => !events.some(({ id }) => id === event.id)));
      }
    });

    it('removes them from the files, and whoever reads from any position gets all that follow', async () => {
      const one = await owned();
      await eraseEvents(one, await ownedEvents(one));
      const before = await all(other.readAll(one.after));
      await scrubbed(one.into);
      expect(await log.pendingManualScrub(one.into)).toBeUndefined();
      await log.scrub(one.into);
      const { position: last } = await log.append(`operation-${randomUUID()}`, 'none', [newEvent()]);
      const reopened = await open();
      for (const client of [log, other, reopened]) {
        expect((await client.head()) >= last).toBe(true);
        const after = await all(client.readAll(one.after));
        expect(shown(after).slice(0, before.length)).toEqual(shown(before));
        for (const [index, { position }] of before.entries()) {
          const seen = await follow(client, position, (_, batch) => batch.caughtUp && batch.position >= last);
          expect(shown(seen).slice(0, before.length - index - 1)).toEqual(shown(before.slice(index + 1)));
        }
      }
      await reopened.close();
    });

    it('reads from the start of the log what it had read before', async () => {
      const before = await all(log.readAll(START));
      const one = await owned();
      await eraseEvents(one, await ownedEvents(one));
      await scrubbed(one.into);
      expect(shown(await all(log.readAll(START))).slice(0, before.length)).toEqual(shown(before));
    });

    it('is not recorded where the streams hold other events, and can be done after that', async () => {
      const one = await owned();
      const events = await ownedEvents(one);
      await log.append(one.streams[0] ?? '', 2n, [newEvent()]);
      expect(await eraseEvents(one, events)).toBeUndefined();
      await log.append(`request-${one.streams[0]?.slice(6, 42) ?? ''}/new`, 'none', [newEvent()]);
      expect(await eraseEvents(one, events.slice(1))).toBeUndefined();
      expect(await log.readStream(one.record)).toEqual([]);
      const now = await ownedEvents(one);
      expect(now).toHaveLength(12);
      expect(await eraseEvents(one, now)).toMatchObject({ revision: 0n });
      expect(await log.readStream(one.into)).toHaveLength(12);
    });

    it('is not recorded where its record is not next in its stream', async () => {
      const one = await owned();
      await log.append(one.record, 'none', [newEvent()]);
      expect(await eraseEvents(one, await ownedEvents(one))).toBeUndefined();
      expect(await ownedEvents(one)).toHaveLength(10);
      expect(await log.readStream(one.into)).toEqual([]);
    });

    it('does not end appends: an erased stream begins again, or says that it cannot yet', async () => {
      const one = await owned();
      await eraseEvents(one, await ownedEvents(one));
      const [stream = ''] = one.streams;
      await expect(log.append(stream, 2n, [newEvent()])).rejects.toThrow(WrongExpectedRevision);
      const again = await log.append(stream, 'none', [newEvent()]).catch((error: unknown) => error);
      if (again instanceof Error) expect(again).toBeInstanceOf(StreamErased);
      else expect(again).toMatchObject({ revision: 0n });
      expect(log.health().state).toBe('ok');
      expect((await log.append(stream.replace('/1', '/4'), 'none', [newEvent()])).revision).toBe(0n);
    });
  });
};
