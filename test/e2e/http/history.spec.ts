import { beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type CloudEvent } from '../../../src/history/cloud-event-schema.js';
import { cursorOf } from '../../../src/http/schemas.js';
import { plantStream } from '../../../src/domain/stream.js';
import { created, deleted } from '../../support/given.js';
import { nextPage } from '../../support/history-client.js';
import { type Answer, served } from '../../support/http-client.js';
import { sampleMetadata } from '../../support/log-events.js';

/** A name that is unique on a shared server. */
const anne = `anne ${randomUUID()}`;

const http = served();
let reader: string;
beforeAll(async () => {
  reader = await http.token(anne);
});

const events = ({ text }: Answer): CloudEvent[] => JSON.parse(text) as CloudEvent[];
const get = (path: string, headers = {}): Promise<Answer> => http.send({ path, token: reader, headers });

describe('GET /plants/{id}/history of a plant with a long history', () => {
  const EVENTS = 1_234;
  const path = '/plants/70/history';
  const revisionsOf = (shown: readonly CloudEvent[]): number[] => shown.map(({ revision }) => revision);
  const from = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);

  beforeAll(async () => {
    const metadata = sampleMetadata({ actor: { sub: anne } });
    const events = Array.from({ length: EVENTS }, (_, index) => ({
      ...(index % 2 ? deleted(70) : created(70)),
      id: randomUUID(),
      metadata,
    }));
    // One append is at most a megabyte on EventStoreDB.
    await http.service.writing(async (log) => {
      for (let first = 0; first < EVENTS; first += 500)
        await log.append(
          plantStream(anne, 70),
          first === 0 ? 'none' : BigInt(first - 1),
          events.slice(first, first + 500),
        );
    });
  });

  it('comes in pages, the oldest first, as the list of plants does', async () => {
    const first = await get(path);
    expect(revisionsOf(events(first))).toEqual(from(0, 100));
    const second = await get(nextPage(first, path) ?? '');
    expect(revisionsOf(events(second))).toEqual(from(100, 100));
    expect(second.headers['plants-position']).toBe(events(second).at(-1)?.position);
    const most = await get(`${path}?limit=100000`);
    expect(revisionsOf(events(most))).toEqual(from(0, 1_000));
    const last = await get(nextPage(most, path) ?? '');
    expect(revisionsOf(events(last))).toEqual(from(1_000, EVENTS - 1_000));
    expect(last.headers.link).toBeUndefined();
    const exact = await get(`${path}?limit=${EVENTS}&after=${cursorOf(EVENTS - 1)}`);
    expect([exact.status, exact.text, exact.headers.link]).toEqual([200, '[]', undefined]);
    await http.refused(get(`${path}?after=70`), 400, 'invalid_request', ['?after']);
  });

  it('comes whole in lines', async () => {
    const answer = await get(path, { accept: 'application/x-ndjson' });
    const lines = answer.text.trimEnd().split('\n');
    expect(revisionsOf(lines.map((line) => JSON.parse(line) as CloudEvent))).toEqual(from(0, EVENTS));
    const some = await get(`${path}?limit=3&after=${cursorOf(9)}`, {
      accept: 'application/x-ndjson',
    });
    expect(some.text.split('\n')).toHaveLength(4);
  });
});
