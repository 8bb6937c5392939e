import { expect, it } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { type ServerResponse } from 'node:http';
import { LongLists } from '../../../src/http/lists/long-lists.js';
import { type Generation, type LongPage } from '../../../src/lists/read-model.js';
import { START } from '../../../src/log/event-log.js';
import { until } from '../../support/waiting.js';

const PAGE = { lastId: 1, more: false, position: START, event: '', generation: 1 as Generation };

/** Lists whose reading ends when a test says so. */
const reading = (lists: LongLists) => {
  const begun: string[] = [];
  const end = new Map<string, () => void>();
  const read = (owner: string, response = new EventEmitter()): Promise<LongPage> =>
    lists.read(owner, response as ServerResponse, () => {
      begun.push(owner);
      return new Promise((resolve) =>
        end.set(owner, () => {
          resolve({ ...PAGE, body: Buffer.from(owner) });
        }),
      );
    });
  return { begun, read, end: (owner: string) => end.get(owner)?.() };
};

it('a few long lists are read at once, one for each owner, owners take turns', async () => {
  const { begun, read, end } = reading(
    new LongLists({ atOnce: 2, waitingForKey: 10, waiting: 10, waitMs: 60_000 }),
  );
  const answers = Promise.all([read('greedy'), read('greedy'), read('greedy'), read('other'), read('late')]);
  expect(begun).toEqual(['greedy', 'other']);
  end('greedy');
  await until(() => begun.length === 3);
  expect(begun.at(-1)).toBe('late');
  end('other');
  await until(() => begun.length === 4);
  end('late');
  end('greedy');
  await until(() => begun.length === 5);
  end('greedy');
  expect(await answers).toHaveLength(5);
});

it('too many are refused, and one whose client has gone is not read', async () => {
  const { begun, read, end } = reading(
    new LongLists({ atOnce: 1, waitingForKey: 1, waiting: 2, waitMs: 60_000 }),
  );
  const first = read('greedy');
  const client = new EventEmitter();
  const gone = read('greedy', client);
  await expect(read('greedy')).rejects.toMatchObject({ code: 'overloaded' });
  client.emit('close');
  await expect(gone).rejects.toMatchObject({ code: 'request_timeout' });
  end('greedy');
  await first;
  expect(begun).toEqual(['greedy']);
});

it('an owner whose lists are large waits between them, and others do not', async () => {
  const lists = new LongLists();
  const body = Buffer.alloc(2_000_000);
  const read = (owner: string): Promise<number> =>
    lists
      .read(owner, new EventEmitter() as ServerResponse, () => Promise.resolve({ ...PAGE, body }))
      .then(() => performance.now());
  const [first, second, other] = await Promise.all([read('greedy'), read('greedy'), read('other')]);
  expect(second - first).toBeGreaterThan(50);
  expect(other).toBeLessThan(second);
});
