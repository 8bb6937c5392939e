import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eventLine, headerLine, parseHeader, parseLine } from '../../../src/transparency/bundle-format.js';
import { checkBundle } from '../../../src/audit/check.js';
import { bundleOf, ExportRefused } from '../../../src/audit/bundle-write.js';
import { leafHash } from '../../../src/transparency/merkle.js';
import { START, UnknownPosition } from '../../../src/log/event-log.js';
import { AuditedLog, OWNERS } from '../../support/audited-log.js';
import { all } from '../../support/log-events.js';

const EVENTS = 600;
const never = new AbortController().signal;

/** The result of checking a bundle of this text, as far as it passes. */
const checked = (text: string, log: AuditedLog) =>
  checkBundle(
    {
      bundle: async function* () {
        await Promise.resolve();
        yield Buffer.from(text);
      },
      trust: { keys: [log.key], witnesses: [] },
      against: undefined,
      previous: undefined,
    },
    () => undefined,
  );

describe('a bundle', () => {
  let log: AuditedLog;

  beforeAll(async () => {
    log = await AuditedLog.open();
    await log.fill(EVENTS);
    await log.sign();
  });
  afterAll(() => log.remove());

  it('holds all events, and passes', async () => {
    const text = await log.bundle();
    expect(text.match(/^\{"event":/gm)).toHaveLength(EVENTS);
    expect(text.match(/^\{"block":/gm)).toHaveLength(2);
    expect(await checked(text, log)).toMatchObject({ from: 0, events: EVENTS, owner: undefined, unread: 0 });
  });

  it('tells how many plants each owner has', async () => {
    const counts = new Map(OWNERS.map((owner) => [owner as string, new Set<string>()]));
    for (const { type, stream, metadata } of await all(log.log.readAll(START))) {
      const plants = counts.get((metadata as { actor: { sub: string } }).actor.sub);
      if (type === 'PlantCreated') plants?.add(stream);
      else plants?.delete(stream);
    }
    const { plants } = await checked(await log.bundle(), log);
    expect(plants).toEqual(new Map([...counts].map(([owner, { size }]) => [owner, size])));
  });

  it.each([1, 255, 256, 257, 511, 512, 599, 600])('can begin at event %i', async (from) => {
    const text = await log.bundle({ from: String(from) });
    expect(await checked(text, log)).toMatchObject({ from, events: EVENTS - from, plants: undefined });
  });

  it.each([0, 1, 300, 599])('can begin at the position of event %i', async (index) => {
    const events = await all(log.log.readAll(START));
    const text = await log.bundle({ from: String(events[index]?.position) });
    expect(await checked(text, log)).toMatchObject({ from: index, events: EVENTS - index });
  });

  it.each(OWNERS)('can be about %s alone', async (owner) => {
    const text = await log.bundle({ owner });
    const meant = (await all(log.log.readAll(START))).filter(
      ({ metadata }) => (metadata as { actor: { sub: string } }).actor.sub === owner,
    );
    const { events, plants } = await checked(text, log);
    expect(events).toBe(meant.length);
    expect([...(plants?.keys() ?? [])]).toEqual([owner]);
  });

  it('can be about one owner from an event on', async () => {
    const { events, from } = await checked(await log.bundle({ owner: 'bob', from: '590' }), log);
    expect(from).toBe(590);
    expect(events).toBeGreaterThan(0);
  });

  it('about an owner without events is empty, and passes', async () => {
    expect(await checked(await log.bundle({ owner: 'nobody' }), log)).toMatchObject({ events: 0 });
  });

  it('ends where the checkpoint does', async () => {
    const more = await AuditedLog.open();
    await more.fill(300);
    await more.sign();
    await more.fill(10);
    expect(await checked(await more.bundle(), more)).toMatchObject({ events: 300 });
    await expect(more.bundle({ from: '301' })).rejects.toThrow(
      '--from 301: the last signed checkpoint is of size 300',
    );
    const last = String(await more.log.head());
    await expect(more.bundle({ from: last })).rejects.toThrow(
      `--from ${last}: the last signed checkpoint does not reach that far yet: try again in some seconds`,
    );
    await more.remove();
  });

  it('of an empty log passes', async () => {
    const empty = await AuditedLog.open();
    await empty.sign();
    expect(await checked(await empty.bundle(), empty)).toMatchObject({ events: 0, plants: new Map() });
    await empty.remove();
  });

  it('is not made before a checkpoint is signed', async () => {
    const unsigned = await AuditedLog.open();
    await unsigned.fill(1);
    await expect(unsigned.bundle()).rejects.toThrow(
      'no checkpoint has been signed yet: run a service with the role auditor first',
    );
    await unsigned.remove();
  });

  it('is not made from a log that is not what was signed', async () => {
    const other = await AuditedLog.open();
    await other.fill(EVENTS);
    const bundle = bundleOf(
      other.log,
      log.tree,
      { from: undefined, owner: undefined },
      () => undefined,
      never,
    );
    const making = all(bundle);
    await expect(making).rejects.toThrow(ExportRefused);
    await expect(making).rejects.toThrow(/^event 0 of the log, plant-bob\/1 revision 0, is not the one that/);
    await other.remove();
  });

  it('is not made from a log that has lost events', async () => {
    const shorter = await AuditedLog.open();
    const from = { from: '10', owner: undefined };
    const making = all(bundleOf(shorter.log, log.tree, from, () => undefined, never));
    await expect(making).rejects.toThrow(
      'the log ends before event 10, and a checkpoint of size 600 was signed',
    );
    await shorter.remove();
  });

  it.each(['00', '0x1', '1.5', '-1', 'now', '9'.repeat(17), '0000000000009999'])(
    'is refused for --from %s',
    async (from) => {
      await expect(log.bundle({ from })).rejects.toThrow(UnknownPosition);
    },
  );

  it('ends when somebody asks to stop', async () => {
    const stopping = new AbortController();
    const bundle = bundleOf(
      log.log,
      log.tree,
      { from: undefined, owner: undefined },
      () => {
        stopping.abort(new Error('stopped'));
      },
      stopping.signal,
    );
    await expect(all(bundle)).rejects.toThrow('stopped');
  });
});

describe('a line of a bundle', () => {
  it('is read as it was written', () => {
    const leaf = '{"a":"b,\\"hash\\":\\"x","c":{"d":1,"hash":"e"}}';
    const hash = leafHash(Buffer.from(leaf));
    const event = { leaf, hash, index: 7, proof: [hash] };
    expect(parseLine(eventLine(event))).toEqual({ kind: 'event', ...event });
    const header = { checkpoint: 'a\n\n— b c\n', from: 3, owner: 'Zoë "1"' };
    expect(parseHeader(headerLine(header))).toEqual(header);
  });

  // Base64 whose last character has bits that no byte takes: another text for the same hash.
  const OTHERWISE = `${'A'.repeat(42)}B=`;
  const SURE = `${'A'.repeat(43)}=`;
  it.each([
    ['an event with such a hash', `{"event":{},"hash":"${OTHERWISE}","index":0}`],
    [
      'an event with such a proof',
      `{"event":{},"hash":"${SURE}","index":0,"proof":["${SURE}","${OTHERWISE}"]}`,
    ],
    ['an event without a hash', '{"event":{}}'],
    ['a block with such a proof', `{"block":0,"proof":["${OTHERWISE}"]}`],
    ['plants beside such a hash', `{"left":[{"bit":3,"hash":"${OTHERWISE}"}],"right":[]}`],
    ['plants before such a hash', `{"left":[],"right":[{"bit":3,"hash":"${OTHERWISE}"}]}`],
    ['an end that is no number', '{"end":"1"}'],
  ])('is none: %s', (_name, line) => {
    expect(parseLine(line)).toBeUndefined();
    expect(parseLine(line.replaceAll(OTHERWISE, SURE)) === undefined).toBe(!line.includes(OTHERWISE));
  });

  const header = { checkpoint: 'c', from: 0, owner: 'anne' };
  it.each([
    ['no JSON', '{', /its first line does not say so/],
    [
      'a place that is no number',
      headerLine(header).replace('"from":0', '"from":"0"'),
      /not as it should be/,
    ],
    ['half a character', headerLine(header).replace('anne', 'ann\\ud800'), /no Unicode text/],
    ['one more space', headerLine(header).replace('"from":0', '"from": 0'), /not as it should be/],
  ])('is no header: %s', (_name, line, reason) => {
    expect(parseHeader(line)).toMatch(reason);
  });
});
