import { describe, expect, it } from '@jest/globals';
import { STATUS_CODES } from 'node:http';
import {
  Problem,
  problemDocument,
  PROBLEMS,
  type ProblemCode,
  rawProblem,
} from '../../../src/http/problem.js';
import { problemOf } from '../../../src/http/problem.filter.js';
import { plantExists } from '../../../src/domain/errors.js';
import { EventRefused, type RefusalKind } from '../../../src/domain/errors.js';
import {
  LogUnavailable,
  OutcomeUnknown,
  type Position,
  START,
  UnknownPosition,
} from '../../../src/log/event-log.js';
import {
  OwnerBlocked,
  type BlockedOwner,
  ReadModelAhead,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../../../src/lists/read-model.js';
import { OperationRefused, RebuildNotUnderWay } from '../../../src/commands/rebuilds.js';
import { NotFreshYet } from '../../../src/lists/freshness.js';

const CODES = Object.keys(PROBLEMS) as ProblemCode[];

describe('a problem document', () => {
  it.each(CODES)('%s has every member of RFC 9457, and a status that HTTP knows', (code) => {
    const document = problemDocument(new Problem(code, 'Change this.'), 'r-1');
    expect(document).toEqual({
      type: `/docs/problems#${code}`,
      title: PROBLEMS[code].title,
      status: PROBLEMS[code].status,
      detail: 'Change this.',
      code,
      requestId: 'r-1',
    });
    expect(STATUS_CODES[PROBLEMS[code].status]).toBeDefined();
  });

  it.each(['/plants', '/plants?a=/b/c', '/plants/', '/plants/7', '/plants/7/history?after=x', '/'])(
    'has a type that leads to its explanation from %s, also below the path of a proxy',
    (target) => {
      const { type } = problemDocument(new Problem('plant_exists', 'x'), 'r-1', target);
      for (const base of ['http://here', 'http://here/prefix/v1'])
        expect(new URL(String(type), base + target).href).toBe(`${base}/docs/problems#plant_exists`);
    },
  );

  it('lists what is wrong with each field', () => {
    const errors = [{ pointer: '/name', detail: 'is required' }];
    expect(problemDocument(new Problem('invalid_request', 'x', { errors }), 'r-1').errors).toEqual(errors);
  });
});

describe('a raw answer', () => {
  it('is whole: its length counts bytes, and it closes the connection', () => {
    const raw = rawProblem(
      new Problem('method_not_allowed', 'Größe 🌱', { headers: { Allow: 'GET' } }),
      'r-1',
    );
    const [head = '', body = ''] = raw.split('\r\n\r\n');
    expect(head.split('\r\n')).toEqual([
      'HTTP/1.1 405 Method Not Allowed',
      'Content-Type: application/problem+json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Cache-Control: no-store',
      'Connection: close',
      'X-Request-Id: r-1',
      'Allow: GET',
    ]);
    expect(JSON.parse(body)).toMatchObject({ code: 'method_not_allowed', requestId: 'r-1' });
  });
});

const secret = 'postgres://user:hunter2@db';

const blockedAs = (kind: RefusalKind): BlockedOwner => ({
  owner: 'a',
  position: '0001' as Position,
  stream: 'plant-a/1',
  revision: 0,
  kind,
  reason: secret,
  applied: START,
});

describe('an error becomes', () => {
  it.each<[error: unknown, code: ProblemCode]>([
    [new Problem('not_ready', 'x'), 'not_ready'],
    [plantExists(7), 'plant_exists'],
    [new OutcomeUnknown(secret), 'outcome_unknown'],
    [new LogUnavailable(secret), 'log_unavailable'],
    [new EventRefused('plant-a/1', 0n, secret), 'owner_blocked'],
    [new OwnerBlocked(blockedAs('invalid')), 'owner_blocked'],
    [new OperationRefused('one is under way'), 'operation_refused'],
    [new RebuildNotUnderWay('none is under way'), 'rebuild_not_found'],
    [new ReadModelUnavailable(secret), 'read_model_unavailable'],
    [new ReadModelIncomplete(secret), 'read_model_incomplete'],
    [new ReadModelAhead(secret), 'read_model_ahead'],
    [new NotFreshYet(secret), 'not_fresh_yet'],
    [new UnknownPosition('Plants-Position'), 'position_unknown'],
    [new Error(secret), 'internal_error'],
    [new TypeError(secret), 'internal_error'],
    [secret, 'internal_error'],
    [undefined, 'internal_error'],
  ])('%s: %s', (error, code) => {
    const problem = problemOf(error);
    expect(problem.code).toBe(code);
    expect(JSON.stringify(problemDocument(problem, 'r-1'))).not.toContain('hunter2');
    if (problem.status === 503 && !(error instanceof Problem))
      expect(problem.extra.headers).toEqual({ 'Retry-After': code === 'owner_blocked' ? '30' : '1' });
  });
});

it('an operator is told why nothing can be done', () => {
  expect(problemOf(new OperationRefused('rebuild r is under way')).message).toBe('Rebuild r is under way.');
});

it('an owner is told what mends a list, and not where the event stands', () => {
  expect(problemOf(new OwnerBlocked(blockedAs('newer_version'))).message).toMatch(
    /has to be upgraded\. Nothing/,
  );
  for (const kind of ['unknown_type', 'invalid'] as const) {
    const { message } = problemOf(new OwnerBlocked(blockedAs(kind)));
    expect(message).toMatch(/an operator .* has to look at\. Nothing/);
    expect(message).not.toMatch(/hunter2|plant-|000/);
  }
});
