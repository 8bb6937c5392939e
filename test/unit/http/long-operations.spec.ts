import { describe, expect, it } from '@jest/globals';
import { type FastifyRequest } from 'fastify';
import { stepsOf } from '../../../src/http/operations/long-operations.js';
import { type LongOperation } from '../../../src/operations/long-operation.js';

describe('a long operation as server-sent events', () => {
  it('tells the first and the last progress, however quick it was', async () => {
    const done = [1, 2, 3];
    async function* operation(): LongOperation<string> {
      for (const plant of done) {
        await Promise.resolve();
        yield { phase: 'comparing', unit: 'plants', done: plant, total: 3 };
      }
      return 'well';
    }
    const told: string[] = [];
    for await (const { events } of stepsOf(operation(), {} as FastifyRequest)) told.push(...(events ?? []));
    expect(told.map((event) => /^event: (\S+)/m.exec(event)?.[1])).toEqual([
      'progress',
      'progress',
      'outcome',
    ]);
    expect(told[1]).toContain('"done":3');
  });
});
