import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LogAltered, PublishedTree } from '../../../src/audit/published-tree.js';
import { type EventLog, type Position, type RecordedEvent, START } from '../../../src/log/event-log.js';
import { AuditedLog, newSigner } from '../../support/audited-log.js';
import { noon } from '../../support/domain-stores.js';
import { Faults } from '../../support/domain-faults.js';
import { all } from '../../support/log-events.js';

const EVENTS = 300;

describe('the tree that others see', () => {
  let log: AuditedLog;
  let events: RecordedEvent[];
  let doubts: number;

  beforeEach(async () => {
    log = await AuditedLog.open();
    await log.fill(EVENTS);
    await log.sign();
    events = await all(log.log.readAll(START));
    doubts = 0;
  });
  afterEach(() => log.remove());

  const published = (port: EventLog = log.log): PublishedTree =>
    new PublishedTree(port, log.tree, noon, () => (doubts += 1), [log.key]);
  const positionOf = (index: number): Position => events[index]?.position ?? START;
  const bundle = { level: 'entries', index: 0, width: 256 } as const;

  /** The log as it would be with other events in it. */
  const logOf = (altered: (RecordedEvent | undefined)[]): EventLog => {
    const held = altered.filter((event) => event !== undefined);
    return new Faults(log.log).every('readAll', async function* (_proceed, after) {
      await Promise.resolve();
      for (const event of held) if (event.position > after) yield event;
    }).port;
  };
  const with41 = (event: Partial<RecordedEvent> | undefined): EventLog =>
    logOf(events.map((one, index) => (index === 41 ? event && { ...one, ...event } : one)));

  it('has an entry for each position that an event stands at', async () => {
    expect(await published().entryAt(positionOf(41))).toMatchObject({ index: 41, event: events[41] });
    expect(await published().entryAt('0000000000009999' as Position)).toBeUndefined();
    expect(await published().tile(bundle)).toBeDefined();
    expect(await log.tree.alarm()).toBeUndefined();
  });

  it.each<[string, Partial<RecordedEvent> | undefined, string]>([
    ['changed', { data: { id: 41 } }, 'changed'],
    ['changed to what has no leaf', { data: { name: '\ud800' } }, 'changed'],
    ['missing', undefined, 'missing'],
  ])('raises the alarm as soon as it meets an event that is %s', async (_what, event, kind) => {
    for (const ask of [
      () => published(with41(event)).entryAt(positionOf(41)),
      () => published(with41(event)).tile(bundle),
    ]) {
      await expect(ask()).rejects.toThrow(LogAltered);
      expect(await log.tree.alarm()).toMatchObject({ kind, index: 41, raisedAt: noon().toISOString() });
      await log.tree.lift('anne', 'to see it again');
    }
  });

  it('gives out no checkpoint whose signature or root is not what was signed, and raises the alarm', async () => {
    const note = (await published().checkpoint()).note;
    const broken = note.replace(/(.)=\n$/, (_end, last: string) => `${last === 'A' ? 'E' : 'A'}=\n`);
    for (const alter of [
      () => {
        log.tamper('UPDATE checkpoints SET note = ?', broken);
      },
      () => {
        log.tamper('UPDATE checkpoints SET note = ?, root = zeroblob(32)', note);
      },
      () => {
        log.tamper('UPDATE checkpoints SET note = ?', 'not a note');
      },
    ]) {
      alter();
      const tree = published();
      for (const ask of [() => tree.checkpoint(), () => tree.tile({ level: 0, index: 0, width: 256 })])
        await expect(ask()).rejects.toThrow(
          new LogAltered(`the stored checkpoint of size ${EVENTS} is not the one that was signed`),
        );
      expect(await log.tree.alarm()).toMatchObject({
        kind: 'tree',
        message: expect.stringMatching(/checkpoint of 300 is not the one that was signed/) as unknown,
      });
      await log.tree.lift('anne', 'to see it again');
    }
  });

  it('gives out a checkpoint of a key that was replaced', async () => {
    const tree = new PublishedTree(log.log, log.tree, noon, () => undefined, [newSigner()]);
    expect(await tree.checkpoint()).toMatchObject({ size: EVENTS });
  });

  it('names no owner to whoever asked', async () => {
    await expect(published(with41({ data: 1 })).entryAt(positionOf(41))).rejects.toThrow(
      /^event at index 41 is not the one that was put in the tree$/,
    );
  });

  it('has the log read again where it seems too short: a server may lag behind', async () => {
    await expect(published(logOf(events.slice(0, 100))).tile(bundle)).rejects.toThrow(LogAltered);
    expect(await log.tree.alarm()).toBeUndefined();
    expect(doubts).toBe(1);
  });
});
