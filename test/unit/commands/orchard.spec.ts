import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { type EventLog } from '../../../src/log/event-log.js';
import { Stores } from '../../support/domain-stores.js';
import { change, readOrchard } from '../../support/orchard.js';

const METADATA = {
  schemaVersion: 1,
  decidedAt: '2026-01-31T12:00:00.000Z',
  actor: { sub: 'ada' },
  correlationId: 'c',
  causationId: 'c',
};
const STREAM = 'orchard-north';

const stores = new Stores();
let log: EventLog;
beforeAll(async () => {
  log = await stores.log();
});
afterAll(() => stores.remove());

it('keeps an orchard of two events in the log of plants', async () => {
  await change(log, STREAM, { type: 'PlantTree', row: 1, kind: 'apple' }, METADATA);
  await change(log, STREAM, { type: 'PlantTree', row: 2, kind: 'pear' }, METADATA);
  await expect(change(log, STREAM, { type: 'PlantTree', row: 1, kind: 'plum' }, METADATA)).rejects.toThrow(
    'row 1 has a tree: fell it first',
  );
  await change(log, STREAM, { type: 'FellTree', row: 1 }, METADATA);

  expect(await readOrchard(log, STREAM)).toEqual({ state: new Map([[2, 'pear']]), revision: 2n });
});

it('is the example of docs/building-on-this.md', () => {
  const [, example] = /```ts\n([^]*?)```/.exec(readFileSync('docs/building-on-this.md', 'utf8')) ?? [];
  expect(example).toBe(readFileSync('test/support/orchard.ts', 'utf8'));
});
