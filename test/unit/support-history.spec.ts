import { describe, expect, it } from '@jest/globals';
import { AUDIT_STREAM, plantStream, requestStream } from '../../src/domain/stream.js';
import { type Position, type RecordedEvent, START } from '../../src/log/event-log.js';
import { type Operation, type Outcome, type Rule, violationsOf, type Wish } from '../support/history.js';

const position = (number: number): Position => String(number).padStart(4, '0') as Position;
const acknowledged = (at: number): Outcome => ({ kind: 'acknowledged', position: position(at) });
const present: Outcome = { kind: 'refused', because: 'present' };
const absent: Outcome = { kind: 'refused', because: 'absent' };
const create = (name: string, id = 1): Wish => ({ kind: 'create', id, name, tag: 'aroid' });
const remove: Wish = { kind: 'delete', id: 1 };
const list: Wish = { kind: 'list', limit: 10, atLeast: START };
const listed = (at: number, ...names: string[]): Outcome => ({
  kind: 'listed',
  position: position(at),
  body: `[${names.map((name) => `{"name":"${name}","tag":"aroid"}`).join(',')}]`,
  more: false,
});

const operation = (
  id: string,
  [started, ended]: readonly [number, number],
  wish: Wish,
  outcome: Outcome,
  more: Partial<Operation> = {},
): Operation => ({ id, owner: 'alice', wish, started, ended, life: 1, outcome, ...more });

const recorded = (
  at: number,
  revision: number,
  operationId: string,
  event: Readonly<{ type: string; data: unknown }>,
  more: Partial<RecordedEvent> = {},
): RecordedEvent => ({
  stream: plantStream('alice', 1),
  revision: BigInt(revision),
  position: position(at),
  id: `event ${at}`,
  ...event,
  metadata: { correlationId: operationId, actor: { sub: 'alice' } },
  ...more,
});

const created = (name: string, id = 1) => ({ type: 'PlantCreated', data: { id, name, tag: 'aroid' } });
const deleted = { type: 'PlantDeleted', data: { id: 1 } };

/** Everything that can happen, in order: each broken history below differs from it in one respect. */
const operations: readonly Operation[] = [
  operation('a', [1, 2], create('one'), acknowledged(1)),
  operation('b', [3, 4], create('two'), present),
  operation('c', [5, 6], list, listed(1, 'one')),
  operation('d', [7, 10], remove, { kind: 'unknown' }),
  operation('e', [8, 11], remove, absent), // d was faster
  operation('f', [9, 12], list, listed(2)),
  operation('g', [13, 14], create('three'), { kind: 'unknown' }), // was not written
  operation('h', [15, 16], create('four'), { kind: 'nothing' }),
  operation('i', [17, 18], { ...create('five', 2), key: 'k' } as Wish, acknowledged(4), { life: 2 }),
  operation('j', [19, 20], list, listed(4, 'five'), { life: 2 }),
];
const log: readonly RecordedEvent[] = [
  recorded(1, 0, 'a', created('one')),
  recorded(2, 1, 'd', deleted),
  recorded(3, 0, 'i', { type: 'RequestAccepted', data: {} }, { stream: requestStream('alice', 'ab') }),
  recorded(4, 0, 'i', created('five', 2), { stream: plantStream('alice', 2) }),
];

const rulesBrokenBy = (those: readonly Operation[], events: readonly RecordedEvent[]): Rule[] => [
  ...new Set(violationsOf(those, events).map(({ rule }) => rule)),
];
const withOperation = (id: string, changes: Partial<Operation>): readonly Operation[] =>
  operations.map((one) => (one.id === id ? { ...one, ...changes } : one));
const withEvent = (at: number, changes: Partial<RecordedEvent>): readonly RecordedEvent[] =>
  log.map((event) => (event.position === position(at) ? { ...event, ...changes } : event));
const withoutEvent = (at: number) => log.filter((event) => event.position !== position(at));

describe('the checker of histories', () => {
  it('has nothing against a good one', () => {
    expect(violationsOf(operations, log)).toEqual([]);
  });

  it('has nothing against what the service records of itself', () => {
    const signed = { type: 'SigningStarted', data: {} };
    const others = { stream: AUDIT_STREAM, metadata: { actor: { sub: 'plants auditor' } } };
    expect(violationsOf(operations, [...log, recorded(5, 0, '', signed, others)])).toEqual([]);
    expect(rulesBrokenBy(operations, [...log, recorded(5, 1, '', signed, others)])).toEqual([
      'revisions are dense',
    ]);
  });

  const brokenLogs: [Rule, string, readonly RecordedEvent[]][] = [
    ['positions ascend', 'two events change places', [log[0], log[2], log[1], log[3]] as RecordedEvent[]],
    ['an event is there once', 'an event id occurs twice', withEvent(4, { id: 'event 1' })],
    ['revisions are dense', 'a revision is left out', withEvent(2, { revision: 2n })],
    ['plants are created and deleted in turn', 'a plant is created twice', withEvent(2, created('one'))],
    [
      'every event has an operation',
      'nobody asked',
      withEvent(2, { metadata: { correlationId: 'x', actor: { sub: 'alice' } } }),
    ],
    [
      'every event has an operation',
      'a list wrote it',
      withEvent(2, { metadata: { correlationId: 'c', actor: { sub: 'alice' } } }),
    ],
    [
      'every event has an operation',
      'a request without a key was named',
      withEvent(3, { metadata: { correlationId: 'd', actor: { sub: 'alice' } } }),
    ],
    ['an event is what was asked', 'another name', withEvent(4, created('six', 2))],
    ['an event is what was asked', 'another plant', withEvent(4, { stream: plantStream('alice', 3) })],
    [
      'an event is what was asked',
      'another actor',
      withEvent(4, { metadata: { correlationId: 'i', actor: { sub: 'bob' } } }),
    ],
    ['an acknowledged write is in the log at its position', 'it is lost', withoutEvent(4)],
    [
      'an acknowledged write is in the log at its position',
      'it is elsewhere',
      withEvent(4, { position: position(5) }),
    ],
    [
      'a write is in the log once',
      'an unknown one is there twice',
      [...log, recorded(5, 2, 'g', created('three')), recorded(6, 3, 'g', deleted)],
    ],
    [
      'what was not written is not in the log',
      'a refused one is there',
      [...log, recorded(5, 2, 'b', created('two'))],
    ],
    [
      'what was not written is not in the log',
      'one that was said not to be written is there',
      [...log, recorded(5, 2, 'h', created('four'))],
    ],
    ['a refusal was true', 'the plant that was not there was never deleted', withoutEvent(2)],
  ];
  it.each(brokenLogs)('sees in the log that not %s: %s', (rule, _how, events) => {
    expect(rulesBrokenBy(operations, events)).toContain(rule);
  });

  const brokenAnswers: [Rule, string, readonly Operation[]][] = [
    [
      'every answer is one that the API has',
      '500',
      withOperation('g', { outcome: { kind: 'unexpected', answer: '500' } }),
    ],
    ['a refusal was true', '409 before there was a plant', withOperation('b', { started: -2, ended: -1 })],
    [
      'a refusal was true',
      '409 after it was deleted',
      [...operations, operation('k', [21, 22], create('six'), present)].map((one) =>
        one.id === 'd' ? { ...one, outcome: acknowledged(2) } : one,
      ),
    ],
    ['a refusal was true', '404 while it is there', withOperation('e', { started: 3, ended: 4 })],
    ['a later write stands later', 'after the next one', withOperation('a', { started: 21, ended: 22 })],
    ['a list is the fold at its position', 'a row is missing', withOperation('c', { outcome: listed(1) })],
    [
      'a list is the fold at its position',
      'a row is too many',
      withOperation('j', { outcome: listed(4, 'one', 'five') }),
    ],
    ['a list is the fold at its position', 'it is behind', withOperation('c', { outcome: listed(2, 'one') })],
    [
      'a list is the fold at its position',
      'it says that there is more',
      withOperation('j', { outcome: { ...listed(4, 'five'), more: true } as Outcome }),
    ],
    [
      'a list is the fold at its position',
      'it has more than its limit',
      [
        ...operations,
        operation('k', [21, 22], create('six'), acknowledged(5), { life: 2 }),
        operation('l', [23, 24], { ...list, limit: 1 }, listed(5, 'six', 'five'), { life: 2 }),
      ],
    ],
    [
      'a list knows nothing of the future',
      'it holds what was asked later',
      withOperation('j', { started: 15, ended: 16 }),
    ],
    [
      'reads see acknowledged writes',
      'it is older than a write, also one before a restart',
      withOperation('j', { outcome: listed(3) }),
    ],
    [
      'reads are as fresh as asked',
      'it is older than asked',
      withOperation('f', { wish: { ...list, atLeast: position(3) } }),
    ],
    [
      'reads never go back',
      'it is older than the list before it',
      [...operations, operation('k', [13, 14], list, listed(1, 'one'))],
    ],
    [
      'reads never go back',
      'it is older than the list before it, of another process',
      [...operations, operation('k', [13, 14], list, listed(1, 'one'), { life: 2 })],
    ],
    [
      'reads see acknowledged writes',
      'it lacks what another process acknowledged',
      [...operations, operation('k', [19, 20], list, listed(2), { life: 1 })],
    ],
  ];
  it('allows another process to go back where only that is not promised', () => {
    const goesBack = (life: number) =>
      violationsOf([...operations, operation('k', [13, 14], list, listed(1, 'one'), { life })], log, {
        monotonicAcrossProcesses: false,
      }).map(({ rule }) => rule);
    expect(goesBack(2)).not.toContain('reads never go back');
    expect(goesBack(1)).toContain('reads never go back');
  });

  it.each(brokenAnswers)('sees in the answers that not %s: %s', (rule, _how, those) => {
    const more = those.some(({ id }) => id === 'l') ? [recorded(5, 2, 'k', created('six'))] : [];
    expect(rulesBrokenBy(those, [...log, ...more])).toContain(rule);
  });

  it('lets a list of one owner be where another owner was not', () => {
    const other = operation('k', [21, 22], list, listed(1), { owner: 'bob' });
    expect(violationsOf([...operations, other], log)).toEqual([]);
  });
});
