import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type LogEvent } from '../../../src/transparency/event.js';
import { isEmpty, type LogFilter, matcherOf, ownerOf } from '../../../console/pages/auditor/log-filter.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { AuditQuery } from '../../../src/http/audit/audit-schemas.js';
import { readHistory } from '../../../src/history/read.js';
import { plantStream } from '../../../src/domain/stream.js';
import { START } from '../../../src/log/event-log.js';
import { AuditedLog, OWNERS } from '../../support/audited-log.js';
import { all, sampleMetadata } from '../../support/log-events.js';
import { never } from '../../support/waiting.js';

const EVERYTHING: LogFilter = { owner: '', plant: '', type: '', actor: '', since: '', until: '' };

describe('a filter of the log in the console', () => {
  let log: AuditedLog;
  let leaves: readonly LogEvent[];
  beforeAll(async () => {
    log = await AuditedLog.open();
    await log.fill(40);
    for (const [day, actor] of [
      [1, 'alice'],
      [2, 'bob'],
      [3, undefined],
    ] as const) {
      const metadata = {
        ...sampleMetadata({ actor: { sub: actor ?? 'x' }, decidedAt: `2020-01-0${day}T12:00:00.000Z` }),
      };
      const event = {
        id: randomUUID(),
        type: 'PlantCreated',
        data: { id: 900 + day, name: 'n', tag: '' },
        metadata,
      };
      await log.log.append(plantStream('bob', 900 + day), 'none', [event]);
    }
    const timeless = { id: randomUUID(), type: 'Odd', data: {}, metadata: { schemaVersion: 7 } as never };
    await log.log.append('operation-odd', 'none', [timeless]);
    const events = await all(log.log.readAll(START));
    leaves = events.map((event) => JSON.parse(leafOf(event).toString()) as LogEvent);
  });
  afterAll(() => log.remove());

  it.each<Partial<LogFilter>>([
    {},
    { owner: 'bob' },
    { owner: 'Zoë/1' },
    { owner: 'nobody' },
    { owner: 'bob', plant: '901' },
    { owner: 'alice', plant: '901' },
    { type: 'PlantDeleted' },
    { type: 'plants.PlantDeleted.v1' },
    { type: 'plants.Odd.v7' },
    { type: 'Odd' },
    { actor: 'alice' },
    { actor: 'x', owner: 'bob' },
    { since: '2020-01-02T12:00:00Z' },
    { until: '2020-01-02T12:00:00Z' },
    { until: '2020-01-02T13:00:00+01:00', owner: 'bob' },
    { since: '2020-01-02T11:00:00Z', until: '2020-01-02T13:00:00Z' },
    { since: '2020-01-02T11:59:59.999Z', until: '2020-01-02T12:00:00.000Z', type: 'PlantCreated' },
  ])('lets the same events through as GET /audit/events: %j', async (given) => {
    const query = AuditQuery.parse(given);
    const found: string[] = [];
    const head = await log.log.head();
    for await (const { events } of readHistory(log.log, query, START, head, never()))
      found.push(...events.map(({ id }) => id));
    const filter = { ...EVERYTHING, ...given };
    expect(leaves.filter(matcherOf(filter)).map(({ id }) => id)).toEqual(found);
    expect(isEmpty(filter)).toBe(Object.keys(given).length === 0);
  });

  it('knows owners by their streams', () => {
    for (const owner of OWNERS) expect(ownerOf(plantStream(owner, 7))).toBe(owner);
    expect(ownerOf('operation-audit')).toBeUndefined();
    expect(ownerOf('plant-%E0%A4%A/1')).toBe('%E0%A4%A');
  });
});
