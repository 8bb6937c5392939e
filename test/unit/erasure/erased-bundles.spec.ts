import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { checkBundle } from '../../../src/audit/check.js';
import { digestOfErased, ErasedEvents, erasedHash } from '../../../src/transparency/erased-events.js';
import { type Hash } from '../../../src/transparency/merkle.js';
import { formatVerifierKey } from '../../../src/transparency/note.js';
import { ERASURES_STREAM } from '../../../src/domain/stream.js';
import { type Json, START } from '../../../src/log/event-log.js';
import { AuditedLog } from '../../support/audited-log.js';
import { all, sampleMetadata } from '../../support/log-events.js';
import { checkByPython, PYTHON } from '../../support/python-check.js';

/** The erased events of a log, told apart by `n`, and their record. */
interface Told {
  /** Erased events before the record, and after it. */
  readonly before: readonly number[];
  readonly after?: readonly number[];
  /** The contents of the record; undefined where there is none. */
  readonly record?: { readonly events: number; readonly of: readonly number[]; readonly times?: number };
}

const hashOf = (n: number): Hash => Buffer.alloc(32, n);

describe('a bundle with erased events', () => {
  let log: AuditedLog;
  beforeEach(async () => {
    log = await AuditedLog.open();
    await log.fill(30);
  });
  afterEach(() => log.remove());

  const append = (stream: string, revision: number, type: string, data: Json) =>
    log.log.append(stream, revision === 0 ? 'none' : BigInt(revision - 1), [
      { id: randomUUID(), type, data, metadata: sampleMetadata({ schemaVersion: 1 }) },
    ]);
  /** A signed log that tells this of an erasure. */
  const tell = async ({ before, after = [], record }: Told): Promise<string> => {
    const erasure = randomUUID();
    let revision = 0;
    const erased = async (n: number): Promise<void> => {
      const data = { leafHash: Buffer.from(hashOf(n)).toString('base64') };
      const metadata = { schemaVersion: 1 } as never;
      const event = { id: randomUUID(), type: 'Erased', data, metadata };
      await log.log.append(`erased-${erasure}`, revision === 0 ? 'none' : BigInt(revision - 1), [event]);
      revision += 1;
    };
    for (const n of before) await erased(n);
    if (record) {
      const digest = digestOfErased(record.of.map(hashOf));
      for (let time = 0; time < (record.times ?? 1); time++)
        await append(ERASURES_STREAM, time, 'OwnerErased', { erasure, events: record.events, digest });
    }
    for (const n of after) await erased(n);
    await log.fill(10);
    await log.sign();
    const seen = new ErasedEvents();
    const faults = (await all(log.log.readAll(START))).map((event, index) => seen.add(event, index));
    const fault = faults.find((one) => one !== undefined) ?? [...seen.unrecorded][0];
    return fault ?? '';
  };
  const verdicts = async (): Promise<string[]> => {
    const bundle = Buffer.from(await log.bundle({ altered: true }));
    const key = log.key;
    const core = await checkBundle(
      {
        bundle: async function* () {
          await Promise.resolve();
          yield bundle;
        },
        trust: { keys: [key], witnesses: [] },
        against: undefined,
        previous: undefined,
      },
      () => undefined,
    ).then(
      () => 'proven',
      (error: unknown) => (error as Error).message,
    );
    const run = { bundle, key: formatVerifierKey(key), against: undefined };
    const [python = { status: 1 }] = PYTHON ? checkByPython([run]) : [{ status: core === 'proven' ? 0 : 1 }];
    return [core, python.status === 0 ? 'proven' : 'refused'];
  };

  it('is proven where the record fits', async () => {
    expect(await tell({ before: [1, 2, 3], record: { events: 3, of: [1, 2, 3] } })).toBe('');
    expect(await verdicts()).toEqual(['proven', 'proven']);
  });

  it.each<[what: string, told: Told, says: RegExp]>([
    ['without a record', { before: [1, 2] }, /events are erased, and no erasure .* is recorded/],
    [
      'with one event too few',
      { before: [1, 2], record: { events: 3, of: [1, 2, 3] } },
      /are 3, and there are 2/,
    ],
    [
      'with one event too many',
      { before: [1, 2, 3], record: { events: 2, of: [1, 2] } },
      /are 2, and there are 3/,
    ],
    [
      'with another event',
      { before: [1, 2], record: { events: 2, of: [1, 3] } },
      /are not those that it says/,
    ],
    ['in another order', { before: [2, 1], record: { events: 2, of: [1, 2] } }, /are not those that it says/],
    [
      'erased after the record',
      { before: [1], after: [2], record: { events: 1, of: [1] } },
      /erased after the erasure .* was recorded/,
    ],
    [
      'with its record twice',
      { before: [1], record: { events: 1, of: [1], times: 2 } },
      /the erasure .* is recorded twice/,
    ],
    ['with a record of none', { before: [], record: { events: 1, of: [1] } }, /are 1, and there are 0/],
  ])('is refused by both checkers %s', async (_what, told, says) => {
    expect(await tell(told)).not.toBe('');
    const [core, python] = await verdicts();
    expect(core).toMatch(says);
    expect(python).toBe('refused');
  });

  it('has the hash of what an event was, and no other event can say its own', async () => {
    const [event] = await all(log.log.readAll(START));
    if (!event) throw new Error('no event');
    const data = { leafHash: Buffer.from(hashOf(7)).toString('base64') };
    const erased = {
      ...event,
      stream: `erased-${randomUUID()}`,
      type: 'Erased',
      data,
      metadata: { schemaVersion: 1 },
    };
    expect(erasedHash(erased)).toEqual(Uint8Array.from(hashOf(7)));
    for (const other of [
      { stream: event.stream },
      { stream: 'erased-by-nobody' },
      { type: 'PlantDeleted' },
      { id: 'a plant of alice' },
      { data: { ...data, more: 1 } },
      { data: { leafHash: 'AAAA' } },
      { metadata: { schemaVersion: 1, actor: { sub: 'alice' } } },
      { metadata: { schemaVersion: 2 } },
    ])
      expect([other, erasedHash({ ...erased, ...other })]).toEqual([other, undefined]);
  });
});
