import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { PastOperation, readPastOperations } from '../../../src/operations/past-operations.js';
import { type OperationEvent } from '../../../src/domain/operation.js';
import { ERASURES_STREAM, REBUILDS_STREAM, SKIPS_STREAM } from '../../../src/domain/stream.js';
import { type EventLog, type Json, type Position } from '../../../src/log/event-log.js';
import { type Operator, operationEvent } from '../../../src/commands/record-rebuilds.js';
import { NOON, Stores } from '../../support/domain-stores.js';

const OLGA: Operator = { actor: { sub: 'olga', clientId: 'console' }, correlationId: 'ticket-1' };
const PROJECTOR: Operator = { actor: { sub: 'plants projector' }, correlationId: 'rebuild' };
const [FIRST, SECOND] = ['0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11', '0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a12'];

const HASH = Buffer.alloc(32).toString('base64');

let stores: Stores;
let log: EventLog;
let minutes: number;
beforeEach(async () => {
  stores = new Stores();
  log = await stores.log();
  minutes = 0;
});
afterEach(() => stores.remove());

/** A minute after the last event. */
const at = (minute: number): string => new Date(NOON.getTime() + minute * 60_000).toISOString();

const happens = async (stream: string, event: OperationEvent, by: Operator = OLGA): Promise<Position> => {
  const last = await log.readLast(stream);
  const stored = operationEvent(stream, last?.revision, event, by, new Date(at(++minutes)));
  return (await log.append(stream, last?.revision ?? 'none', [stored])).position;
};
const rebuilds = (event: OperationEvent, by?: Operator) => happens(REBUILDS_STREAM, event, by);
const requested = (rebuild: string) =>
  rebuilds({ type: 'RebuildRequested', data: { rebuild, rate: null, unskip: false } });
const promoted = (rebuild: string, generation: number) =>
  rebuilds({ type: 'RebuildPromoted', data: { rebuild, generation, replaced: generation - 1 } }, PROJECTOR);
const raw = async (stream: string, type: string, metadata: Json): Promise<Position> => {
  const last = await log.readLast(stream);
  const id = '0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a13';
  const event = { id, type, data: {}, metadata: metadata as never };
  return (await log.append(stream, last?.revision ?? 'none', [event])).position;
};

const operations = async (): Promise<readonly PastOperation[]> => {
  const { operations: found } = await readPastOperations(log, undefined, 100);
  for (const one of found) expect(PastOperation.strict().parse(one)).toEqual(one);
  return found;
};

describe('past operations', () => {
  it('of a new log are none', async () => {
    expect(await readPastOperations(log, undefined, 100)).toEqual({ operations: [], more: false });
  });

  it('tell who has asked for a rebuild, when, and what came of it', async () => {
    const position = await requested(FIRST);
    const begun = {
      position,
      operation: 'rebuild',
      about: FIRST,
      at: at(1),
      by: 'olga',
      client: 'console',
      reason: null,
      outcome: 'in_progress',
      outcomeAt: at(1),
      detail: null,
    };
    expect(await operations()).toEqual([begun]);
    await rebuilds({ type: 'RebuildStarted', data: { rebuild: FIRST, generation: 2 } }, PROJECTOR);
    expect(await operations()).toEqual([begun]);
    await promoted(FIRST, 2);
    expect(await operations()).toEqual([
      {
        ...begun,
        outcome: 'done',
        outcomeAt: at(3),
        detail: 'lists are answered from generation 2',
      },
    ]);
  });

  it('show a cancelling beside the rebuild that it ended', async () => {
    await requested(FIRST);
    await rebuilds({ type: 'RebuildCancelled', data: { rebuild: FIRST, reason: 'by mistake' } });
    expect(await operations()).toMatchObject([
      { operation: 'cancel', about: FIRST, by: 'olga', reason: 'by mistake', outcome: 'done', at: at(2) },
      { operation: 'rebuild', about: FIRST, outcome: 'cancelled', outcomeAt: at(2), detail: 'by mistake' },
    ]);
  });

  it('show a rollback that was done, and one that came too late', async () => {
    const closed = (rebuild: string) => rebuilds({ type: 'RebuildClosed', data: { rebuild } }, PROJECTOR);
    for (const [rebuild, generation] of [
      [FIRST, 2],
      [SECOND, 3],
    ] as const) {
      await requested(rebuild);
      await promoted(rebuild, generation);
      await rebuilds({ type: 'RollbackRequested', data: { rebuild, reason: 'slower' } });
      if (rebuild === FIRST)
        await rebuilds({ type: 'RolledBack', data: { rebuild, generation: 1, replaced: 2 } }, PROJECTOR);
      await closed(rebuild);
    }
    expect((await operations()).filter(({ operation }) => operation === 'rollback')).toMatchObject([
      { about: SECOND, outcome: 'cancelled', detail: 'the generation before was not kept any more' },
      {
        about: FIRST,
        reason: 'slower',
        outcome: 'done',
        detail: 'lists are answered from generation 1 again',
      },
    ]);
  });

  it('show every skip, also of the same event', async () => {
    const data = { stream: 'plant-anne/7', revision: 3, reason: 'broken' };
    await happens(SKIPS_STREAM, { type: 'EventSkipped', data });
    await happens(SKIPS_STREAM, { type: 'EventSkipped', data: { ...data, reason: 'still broken' } });
    expect(await operations()).toMatchObject([
      { operation: 'skip', about: 'plant-anne/7@3', reason: 'still broken', outcome: 'done' },
      { operation: 'skip', about: 'plant-anne/7@3', reason: 'broken', outcome: 'done' },
    ]);
  });

  it('show how far an erasure is', async () => {
    const erasure = FIRST;
    const erasures = (event: OperationEvent) => happens(ERASURES_STREAM, event);
    const started = (id: string) =>
      erasures({ type: 'ErasureStarted', data: { erasure: id, ownerHash: HASH, reason: '4711' } });
    await started(erasure);
    await erasures({ type: 'OwnerErased', data: { erasure, events: 3, digest: HASH } });
    expect(await operations()).toMatchObject([
      { about: erasure, outcome: 'in_progress', detail: 'events erased from the log: 3' },
    ]);
    await erasures({ type: 'ErasureFinished', data: { erasure } });
    await started(SECOND);
    await erasures({ type: 'ErasureCancelled', data: { erasure: SECOND, reason: 'interrupted' } });
    expect(await operations()).toMatchObject([
      { operation: 'erasure', about: SECOND, outcome: 'cancelled', detail: 'interrupted' },
      { operation: 'erasure', about: erasure, reason: '4711', outcome: 'done', outcomeAt: at(3) },
    ]);
  });

  it.each<[string, Json, object]>([
    ['metadata', { schemaVersion: 1, decidedAt: at(9), actor: { sub: 'pia' } }, { at: at(9), by: 'pia' }],
    ['no metadata', null, { at: null, by: '' }],
    ['odd metadata', { decidedAt: 'once', actor: 'pia' }, { at: null, by: '' }],
  ])('name an event that cannot be read, with %s', async (_what, metadata, told) => {
    await raw(REBUILDS_STREAM, 'RebuildPondered', metadata);
    expect(await operations()).toMatchObject([
      {
        ...{ operation: 'unreadable', about: `${REBUILDS_STREAM}@0`, outcome: null, ...told },
        detail: 'unknown type "RebuildPondered"',
      },
    ]);
  });

  it('come in pages, the newest of all streams first', async () => {
    await requested(FIRST);
    await happens(SKIPS_STREAM, { type: 'EventSkipped', data: { stream: 's', revision: 0, reason: 'r' } });
    await rebuilds({ type: 'RebuildCancelled', data: { rebuild: FIRST, reason: 'x' } });
    const seen: string[] = [];
    let before: Position | undefined;
    for (let more = true; more;) {
      const page = await readPastOperations(log, before, 2);
      seen.push(...page.operations.map(({ operation }) => operation));
      before = page.operations.at(-1)?.position as Position;
      ({ more } = page);
    }
    expect(seen).toEqual(['cancel', 'skip', 'rebuild']);
  });
});
