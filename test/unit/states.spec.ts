import { describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { APPEND_STATES } from '../../src/log/append-health.js';
import { CONNECTION_STATES } from '../../src/lists/redis/connection.js';
import { AUDITOR_STATES } from '../../src/audit/auditor-status.js';
import { type RebuildEvent } from '../../src/domain/operation.js';
import { NO_SKIPS } from '../../src/domain/skips.js';
import { type Position } from '../../src/log/event-log.js';
import { PROJECTION_STATES } from '../../src/projection/projection.js';
import { rebuildsAfter } from '../../src/commands/rebuilds.js';
import { sampleMetadata } from '../support/log-events.js';

/** The transitions of the drawings in docs/states.md: from, to and what leads there. */
const drawings = [...readFileSync('docs/states.md', 'utf8').matchAll(/```mermaid\n(.*?)```/gs)].map(
  ([, drawing = '']) =>
    [...drawing.matchAll(/^ {2}(\S+) --> (\w+)(?:: (\w+))?$/gm)].map(([, from = '', to = '', by = '']) => ({
      from,
      to,
      by,
    })),
);
const [projection = [], auditor = [], connection = [], appends = [], rebuild = []] = drawings;

const EVENTS: Readonly<Record<RebuildEvent['type'], RebuildEvent>> = {
  RebuildRequested: { type: 'RebuildRequested', data: { rebuild: 'r', rate: null, unskip: false } },
  RebuildStarted: { type: 'RebuildStarted', data: { rebuild: 'r', generation: 2 } },
  RebuildPromoted: { type: 'RebuildPromoted', data: { rebuild: 'r', generation: 2, replaced: 1 } },
  RebuildCancelled: { type: 'RebuildCancelled', data: { rebuild: 'r', reason: 'odd' } },
  RollbackRequested: { type: 'RollbackRequested', data: { rebuild: 'r', reason: 'odd' } },
  RolledBack: { type: 'RolledBack', data: { rebuild: 'r', generation: 1, replaced: 2 } },
  RebuildClosed: { type: 'RebuildClosed', data: { rebuild: 'r' } },
};

/** The state of the only rebuild after these events. */
const stateAfter = (types: readonly string[]): string => {
  const recorded = types.map((type, index) => ({
    ...EVENTS[type as RebuildEvent['type']],
    id: `00000000-0000-4000-8000-00000000000${index}`,
    stream: 'operation-rebuilds',
    revision: BigInt(index),
    position: String(index + 1).padStart(20, '0') as Position,
    metadata: sampleMetadata(),
  }));
  const { building, promoted, last } = rebuildsAfter(recorded, NO_SKIPS);
  if (building) return building.generation === undefined ? 'requested' : 'building';
  if (promoted)
    return { none: 'promoted', requested: 'rolling_back', done: 'rolled_back' }[promoted.rollback ?? 'none'];
  return last?.outcome === 'cancelled: odd' ? 'cancelled' : 'closed';
};

/** The events that lead to a state, by the drawing. */
const pathTo = (state: string): string[] => {
  const into = rebuild.find(({ from, to }) => to === state && from !== state);
  return into ? [...(into.from === '[*]' ? [] : pathTo(into.from)), into.by] : [];
};

describe('the drawing', () => {
  const tables: [string, typeof projection, Record<string, Record<string, string>>, string][] = [
    ['projection', projection, PROJECTION_STATES, 'catching_up'],
    ['auditor', auditor, AUDITOR_STATES, 'starting'],
    ['connection to Redis', connection, CONNECTION_STATES, 'connecting'],
    ["log's appends", appends, APPEND_STATES, 'ok'],
  ];
  it.each(tables)(
    'of a %s has the states and transitions of its table',
    (_what, [first, ...drawn], states, begin) => {
      const table = Object.entries(states).flatMap(([from, next]) =>
        Object.entries(next).map(([by, to]) => `${from} ${by} ${to}`),
      );
      expect(first).toEqual({ from: '[*]', to: begin, by: '' });
      expect(drawn.map(({ from, to, by }) => `${from} ${by} ${to}`).sort()).toEqual(table.sort());
    },
  );

  it.each(rebuild)('of a rebuild leads from $from to $to by $by, as its events do', ({ from, to, by }) => {
    const before = from === '[*]' ? [] : pathTo(from);
    if (from !== '[*]') expect(stateAfter(before)).toBe(from);
    expect(stateAfter([...before, by])).toBe(to);
  });

  it('of a rebuild has all events', () => {
    expect(new Set(rebuild.map(({ by }) => by))).toEqual(new Set(Object.keys(EVENTS)));
  });
});
