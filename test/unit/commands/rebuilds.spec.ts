import { describe, expect, it } from '@jest/globals';
import { versionOf } from '../../../src/domain/codec.js';
import { type RebuildEvent } from '../../../src/domain/operation.js';
import { NO_SKIPS } from '../../../src/domain/skips.js';
import { type Position, type RecordedEvent } from '../../../src/log/event-log.js';
import { decideRebuild, type RebuildCommand, rebuildsAfter } from '../../../src/commands/rebuilds.js';

/** The events of a stream of rebuilds. */
const given = (...events: readonly (RebuildEvent | 'of a newer version')[]): RecordedEvent[] =>
  events.map((event, index) => ({
    id: `00000000-0000-4000-8000-00000000000${index}`,
    stream: 'operation-rebuilds',
    revision: BigInt(index),
    position: String(index + 1).padStart(20, '0') as Position,
    type: event === 'of a newer version' ? 'RebuildPaused' : event.type,
    data: event === 'of a newer version' ? {} : { ...event.data },
    metadata: {
      schemaVersion: event === 'of a newer version' ? 9 : versionOf(event.type),
      decidedAt: '2026-01-31T12:00:00.000Z',
      actor: { sub: 'olga' },
      correlationId: 'shift 7',
      causationId: 'shift 7',
    },
  }));

/** The outcome of a command after these events: the type of its event, or the message of its refusal. */
const when = (command: RebuildCommand, events: readonly RecordedEvent[]): string => {
  try {
    return decideRebuild(rebuildsAfter(events, NO_SKIPS), command).type;
  } catch (error) {
    return (error as Error).message;
  }
};

const requested: RebuildEvent = {
  type: 'RebuildRequested',
  data: { rebuild: 'r', rate: null, unskip: false },
};
const started: RebuildEvent = { type: 'RebuildStarted', data: { rebuild: 'r', generation: 2 } };
const promoted: RebuildEvent = {
  type: 'RebuildPromoted',
  data: { rebuild: 'r', generation: 2, replaced: 1 },
};
const rollbackRequested: RebuildEvent = { type: 'RollbackRequested', data: { rebuild: 'r', reason: 'odd' } };
const rolledBack: RebuildEvent = {
  type: 'RolledBack',
  data: { rebuild: 'r', generation: 1, replaced: 2 },
};
const closed: RebuildEvent = { type: 'RebuildClosed', data: { rebuild: 'r' } };

describe('a rebuild', () => {
  const request: RebuildCommand = { kind: 'request', asked: { rebuild: 's', rate: null, unskip: false } };
  const cancel: RebuildCommand = { kind: 'cancel', reason: 'odd', only: undefined };
  const rollBack: RebuildCommand = { kind: 'roll back', reason: 'odd' };

  it.each([
    ['is begun where there was none', request, [], 'RebuildRequested'],
    ['is not begun beside another one', request, [requested], /^rebuild r has been running since 2026-01-31/],
    ['is begun while there is a way back', request, [requested, started, promoted], 'RebuildRequested'],
    ['is cancelled before it has begun', cancel, [requested], 'RebuildCancelled'],
    ['is cancelled while it builds', cancel, [requested, started], 'RebuildCancelled'],
    ['is not cancelled once it is over', cancel, [requested, started, promoted], 'no rebuild is running'],
    ['is rolled back once promoted', rollBack, [requested, started, promoted], 'RollbackRequested'],
    ['is not rolled back while one is under way', rollBack, [requested, started], /cancel it first$/],
    [
      'is rolled back once',
      rollBack,
      [requested, started, promoted, rollbackRequested],
      'it was requested already',
    ],
    [
      'is not rolled back twice',
      rollBack,
      [requested, started, promoted, rollbackRequested, rolledBack],
      'it was requested already',
    ],
    [
      'is not rolled back once closed',
      rollBack,
      [requested, started, promoted, closed],
      /^there is nothing to roll back to/,
    ],
    [
      'waits for what a newer version has written',
      request,
      ['of a newer version'],
      /may be a newer version's: upgrade/,
    ],
    [
      'does not wait for it once something has settled',
      request,
      ['of a newer version', requested, started, promoted],
      'RebuildRequested',
    ],
  ] as [string, RebuildCommand, (RebuildEvent | 'of a newer version')[], string | RegExp][])(
    '%s',
    (_, command, events, outcome) => {
      expect(when(command, given(...events))).toEqual(
        typeof outcome === 'string' ? outcome : expect.stringMatching(outcome),
      );
    },
  );

  it('is cancelled by name only if it is the one', () => {
    const other = given(requested);
    expect(when({ ...cancel, only: 'r' }, other)).toBe('RebuildCancelled');
    expect(when({ ...cancel, only: 'q' }, other)).toBe('another rebuild is running: r');
  });
});
