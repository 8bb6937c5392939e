import { beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { PastOperation } from '../../../src/operations/past-operations.js';
import { SystemStatus } from '../../../src/operations/system-status.js';
import { REBUILDS_STREAM, SKIPS_STREAM } from '../../../src/domain/stream.js';
import { type RecordedEvent } from '../../../src/log/event-log.js';
import { appendRaw } from '../../support/domain-stores.js';
import { nextPage } from '../../support/history-client.js';
import { type Answer, problemIn, type Sent, served } from '../../support/http-client.js';
import { until } from '../../support/waiting.js';

/** A rebuild of these at one event a second is in progress for as long as a test needs. */
const PLANTS = 120;

const SLOWLY = { rate: 1 };

const http = served();
let token: string;
beforeAll(async () => {
  token = http.keepSecret(await http.service.token('olga', 'plants:operate', 'console'));
  const gardener = await http.token('gardener');
  await Promise.all(
    Array.from({ length: PLANTS }, (_, id) =>
      http.create({ name: 'n', tag: '', id }, { token: gardener, headers: { prefer: 'respond-async' } }),
    ),
  );
});

const send = (sent: Sent): Promise<Answer> => http.send({ token, ...sent });
const post = (path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  send({
    method: 'POST',
    path,
    ...(body === undefined
      ? { headers }
      : {
          body: typeof body === 'string' ? body : JSON.stringify(body),
          headers: { 'content-type': 'application/json', ...headers },
        }),
  });
const rebuild = (body?: unknown, headers?: Record<string, string>): Promise<Answer> =>
  post('/operations/rebuilds', body, headers);
const rollback = (body?: unknown, headers?: Record<string, string>): Promise<Answer> =>
  post('/operations/rollback', body, headers);
const skip = (body: unknown, headers?: Record<string, string>): Promise<Answer> =>
  post('/operations/skips', body, headers);
const cancel = (id: string, headers: Record<string, string> = {}): Promise<Answer> =>
  send({ method: 'DELETE', path: `/operations/rebuilds/${id}`, headers });
const idIn = ({ text }: Answer): string => (JSON.parse(text) as { rebuild: string }).rebuild;
const status = async (): Promise<SystemStatus> =>
  JSON.parse((await send({ path: '/operations/status' })).text) as SystemStatus;
const statusOnce = async (so: (status: SystemStatus) => boolean): Promise<SystemStatus> => {
  for (;;) {
    const found = await status();
    if (so(found)) return found;
  }
};

/** The recorded requests of operators, in order. */
const recorded = async (): Promise<RecordedEvent[]> =>
  (await (await http.service.log()).readStream(REBUILDS_STREAM)).filter(({ type }) =>
    ['RebuildRequested', 'RebuildCancelled', 'RollbackRequested'].includes(type),
  );

/** Asserts that an answer is this problem, and that nothing was asked for. */
const refused = async (
  asking: () => Promise<Answer>,
  ...expected: Parameters<typeof problemIn> extends [Answer, ...infer Rest] ? Rest : never
) => {
  const before = (await recorded()).length;
  const problem = problemIn(await asking(), ...expected);
  expect(await recorded()).toHaveLength(before);
  return problem;
};

describe('GET /operations/status', () => {
  it('is what plants status --json prints, as documented', async () => {
    await statusOnce(
      ({ processes, lag }) =>
        processes.some(({ projector }) => projector?.state === 'live') && lag.seconds === 0,
    );
    const answer = await send({ path: '/operations/status' });
    expect(answer.status).toBe(200);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
    });
    const found = JSON.parse(answer.text) as SystemStatus;
    expect(found).toMatchObject({
      problems: [],
      generations: [{ active: true }],
      rebuild: null,
      lastRebuild: null,
      wayBack: null,
    });
    expect(found.processes.find(({ roles }) => roles.includes('projector'))).toMatchObject({
      roles: ['api', 'projector', 'auditor'],
      address: http.service.url,
      projector: { state: 'live' },
    });
    // Nothing of it is left out of the documentation.
    const document = JSON.parse((await http.send({ path: '/openapi.json' })).text) as {
      components: { schemas: { SystemStatus: object } };
    };
    expect(z.fromJSONSchema(document.components.schemas.SystemStatus as never).parse(found)).toEqual(found);
    expect(SystemStatus.parse(found)).toEqual(found);
  });
});

describe('a rebuild', () => {
  it('is requested once for a key, refused while one is under way, and cancelled by its id', async () => {
    const key = { 'idempotency-key': 'night-shift' };
    const first = await rebuild(SLOWLY, { ...key, 'x-correlation-id': 'ticket-123' });
    expect([first.status, first.headers.location]).toEqual([202, 'status']);
    const id = idIn(first);
    expect(JSON.parse(first.text)).toEqual({ rebuild: id });
    const [event] = (await recorded()).slice(-1);
    expect(event).toMatchObject({
      type: 'RebuildRequested',
      data: { rebuild: id, rate: 1, unskip: false },
      metadata: { actor: { sub: 'olga', clientId: 'console' }, correlationId: 'ticket-123' },
    });
    const slow = await statusOnce(({ rebuild }) => rebuild?.phase === 'building');
    expect(slow.rebuild).toMatchObject({ rebuild: id });
    expect(SystemStatus.parse(slow)).toEqual(slow);

    const retry = await rebuild(' { "rate" : 1.0 } ', key);
    expect([retry.status, idIn(retry)]).toEqual([202, id]);
    expect(await recorded()).toHaveLength(1);
    await refused(() => rebuild({ rate: 2 }, key), 422, 'idempotency_key_reused');
    await refused(() => rollback({}, key), 422, 'idempotency_key_reused');

    const second = await refused(() => rebuild(), 409, 'operation_refused');
    expect(second.detail).toMatch(
      new RegExp(`^Rebuild ${id} has been running since .*: wait for it, or cancel`),
    );
    const back = await refused(() => rollback(), 409, 'operation_refused');
    expect(back.detail).toBe(`Rebuild ${id} is running: cancel it first.`);

    for (const other of [randomUUID(), 'r', '%E6%A4%8D', id.toUpperCase()])
      await refused(() => cancel(other), 404, 'rebuild_not_found');
    const cancelled = await cancel(id, { 'idempotency-key': 'give-up' });
    expect([cancelled.status, cancelled.text]).toEqual([204, '']);
    expect((await recorded()).at(-1)).toMatchObject({
      type: 'RebuildCancelled',
      data: { rebuild: id, reason: 'by olga' },
    });
    await refused(() => cancel(id), 404, 'rebuild_not_found');
    expect((await cancel(id, { 'idempotency-key': '"give-up"' })).status).toBe(204);
    expect(idIn(await rebuild(SLOWLY, key))).toBe(id); // what was asked for then is over
    expect(await recorded()).toHaveLength(2);
  });

  it('needs no body, is promoted, and is rolled back', async () => {
    const before = (await status()).generations.find(({ active }) => active)?.generation;
    const requested = await rebuild();
    expect(requested.status).toBe(202);
    const id = idIn(requested);
    const promoted = await statusOnce(({ wayBack, lastRebuild, generations }) =>
      Boolean(
        wayBack &&
        lastRebuild?.rebuild === id &&
        generations.find(({ active }) => active)?.generation !== before,
      ),
    );
    expect(promoted).toMatchObject({ rebuild: null, lastRebuild: { outcome: 'promoted' } });

    const back = await rollback({ reason: 'it looks odd' });
    expect([back.status, back.headers.location, idIn(back)]).toEqual([202, 'status', id]);
    expect((await recorded()).at(-1)).toMatchObject({
      type: 'RollbackRequested',
      data: { rebuild: id, reason: 'it looks odd' },
      metadata: { actor: { sub: 'olga', clientId: 'console' } },
    });
    await statusOnce(({ lastRebuild }) => lastRebuild?.outcome === 'rolled back');
    await refused(() => rollback(), 409, 'operation_refused');
  });

  it('is one, of twenty that are requested at once', async () => {
    const before = (await recorded()).length;
    const answers = await Promise.all(Array.from({ length: 20 }, () => rebuild(SLOWLY)));
    expect(answers.filter((answer) => answer.status === 202)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 202))
      problemIn(answer, 409, 'operation_refused');
    expect(await recorded()).toHaveLength(before + 1);
    const { rebuild: underWay } = await status();
    expect((await cancel(underWay?.rebuild ?? '')).status).toBe(204);
  });
});

describe('GET /operations', () => {
  it('lists what was asked for and what came of it, the newest first, in pages', async () => {
    const answer = await send({ path: '/operations' });
    expect([answer.status, answer.headers.link]).toEqual([200, undefined]);
    const all = JSON.parse(answer.text) as PastOperation[];
    expect(z.array(PastOperation.strict()).parse(all)).toEqual(all);
    expect(all.map(({ operation, by, outcome }) => [operation, by, outcome])).toEqual([
      ['cancel', 'olga', 'done'],
      ['rebuild', 'olga', 'cancelled'],
      ['rollback', 'olga', 'done'],
      ['rebuild', 'olga', 'done'],
      ['cancel', 'olga', 'done'],
      ['rebuild', 'olga', 'cancelled'],
    ]);
    expect(all[2]).toMatchObject({ reason: 'it looks odd', client: 'console' });
    const paged: PastOperation[] = [];
    for (let path: string | undefined = '/operations?limit=4'; path !== undefined;) {
      const page = await send({ path });
      paged.push(...(JSON.parse(page.text) as PastOperation[]));
      path = nextPage(page, path);
    }
    expect(paged).toEqual(all);
  });

  it('refuses a position that it has not given', async () => {
    const unknown = '9'.repeat(64);
    problemIn(await send({ path: `/operations?before=${unknown}` }), 400, 'position_unknown', ['?before']);
    problemIn(await send({ path: '/operations?before=x&limit=0' }), 400, 'invalid_request', [
      '?limit',
      '?before',
    ]);
  });
});

// The last one: nothing is asked for in this history any more.
describe('an event of an operation that this version cannot read', () => {
  // The projector's own last event: it would come between a look at the end of the stream and an append.
  beforeAll(async () => {
    const log = await http.service.log();
    await until(async () =>
      (await log.readStream(REBUILDS_STREAM)).some(({ type }) => type === 'RebuildClosed'),
    );
  });

  it('is a warning, holds what might be against it, and is skipped by an operator', async () => {
    const log = await http.service.log();
    const last = (await log.readStream(REBUILDS_STREAM)).at(-1)?.revision;
    if (last === undefined) throw new Error('nothing was asked for');
    const { position } = await http.service.writing((writer) =>
      appendRaw(writer, REBUILDS_STREAM, 'RebuildPondered', {}, last, new Date()),
    );
    const where = `event ${last + 1n} of stream ${REBUILDS_STREAM}, at position ${position}, cannot be read`;
    // It was started again, and has told of itself a moment later.
    let warnings: readonly string[] = [];
    const isWell = async (): Promise<boolean> => {
      const now = await status();
      ({ warnings } = now);
      return now.problems.length === 0;
    };
    await until(isWell);
    expect(warnings).toEqual([expect.stringContaining(where)]);
    for (const asking of [rebuild(), rollback(), cancel(randomUUID())]) {
      const { detail } = problemIn(await asking, 409, 'operation_refused');
      expect(detail).toContain(where.replace(/^event/, 'Event'));
    }
    expect((await http.create({ name: 'n', tag: '', id: 9_999 })).status).toBe(201);
    const asked = { position, reason: 'nobody ponders' };
    const key = { 'idempotency-key': 'do-not-ponder' };
    for (let times = 0; times < 2; times += 1) {
      const skipped = await skip(asked, key);
      expect([skipped.status, skipped.headers.location]).toEqual([202, 'status']);
      expect(JSON.parse(skipped.text)).toEqual({ stream: REBUILDS_STREAM, revision: Number(last) + 1 });
    }
    expect(await log.readStream(SKIPS_STREAM)).toMatchObject([
      { type: 'EventSkipped', data: { reason: 'nobody ponders' }, metadata: { actor: { sub: 'olga' } } },
    ]);
    await refused(() => skip({ ...asked, reason: 'another' }, key), 422, 'idempotency_key_reused');
    const again = await refused(() => skip(asked), 409, 'operation_refused');
    expect(again.detail).toBe('That event is skipped already.');
    expect((await status()).warnings).toEqual([]);
  });

  it('is skipped only with "force" where a newer version has written it', async () => {
    const log = await http.service.log();
    const last = await log.readLast(REBUILDS_STREAM);
    const metadata = { ...(last?.metadata as object), schemaVersion: 99 } as never;
    const newer = { id: randomUUID(), type: 'RebuildRequested', data: {}, metadata };
    const { position } = await http.service.writing((writer) =>
      writer.append(REBUILDS_STREAM, last?.revision ?? 'none', [newer]),
    );
    const asked = { position, reason: 'we stay with this version' };
    const { detail } = await refused(() => skip(asked), 409, 'operation_refused');
    expect(detail).toMatch(/^A newer version of this service has written that event: .* send "force": true/);
    expect((await skip({ ...asked, force: true })).status).toBe(202);
    expect((await status()).warnings).toEqual([]);
    expect((await rebuild(SLOWLY)).status).toBe(202);
  });
});
