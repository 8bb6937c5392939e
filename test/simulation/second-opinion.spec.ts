import { describe, expect, it } from '@jest/globals';
import { ownerOfStream } from '../../src/domain/stream.js';
import { type RecordedEvent } from '../../src/log/event-log.js';
import { type Operation, violationsOf } from '../support/history.js';
import { Random } from './random.js';
import { isExplained } from './second-opinion.js';
import { drawOptions } from './world/draw-options.js';
import { NEVER } from './world/options.js';
import { simulate } from './world/simulation.js';

/** Histories of one owner that both checkers judge, and how many of them are falsified. */
const HISTORIES = Number(process.env.SECOND_OPINIONS ?? 30);

/** The search takes exponential time in these. */
const MOST_UNKNOWN = 6;

interface History {
  readonly operations: readonly Operation[];
  readonly log: readonly RecordedEvent[];
}

const histories = async function* (): AsyncGenerator<History, void, undefined> {
  for (let seed = 1; ; seed += 1) {
    // Of one log, and of lists that never go back in any process: there is one register for all.
    const options = { ...drawOptions(seed), restoredAtMs: NEVER, listsAsRedis: false };
    const { history } = await simulate(seed, { options });
    for (const owner of new Set(history.operations.map((operation) => operation.owner))) {
      const operations = history.operations.filter((operation) => operation.owner === owner);
      if (operations.filter(({ outcome }) => outcome.kind === 'unknown').length > MOST_UNKNOWN) continue;
      yield { operations, log: history.log.filter(({ stream }) => ownerOfStream(stream) === owner) };
    }
  }
};

/**
 * True if every write of the owner is certainly part of it or not: none is in progress, and all outcomes before are
 * known.
 */
const isQuiet = (list: Operation, operations: readonly Operation[]): boolean =>
  operations.every(({ wish, started, ended, outcome }) => {
    if (wish.kind === 'list' || started > list.ended) return true;
    return ended < list.started && outcome.kind !== 'unknown';
  });

/** A list shows a plant that was never created, or lacks one that it showed, although nothing was written. */
const falsified = ({ operations, log }: History, random: Random): History | undefined => {
  const invents = random.chance(0.5);
  const lists = operations.filter(
    (one) =>
      one.outcome.kind === 'listed' && one.outcome.body !== '[]' && (invents || isQuiet(one, operations)),
  );
  const victim = lists[random.below(Math.max(1, lists.length))];
  if (victim?.outcome.kind !== 'listed') return undefined;
  const rows = JSON.parse(victim.outcome.body) as unknown[];
  const wrong = invents ? [...rows.slice(0, -1), { name: 'invented', tag: 'aroid' }] : rows.slice(1);
  const changed = { ...victim, outcome: { ...victim.outcome, body: JSON.stringify(wrong) } };
  return { log, operations: operations.map((one) => (one === victim ? changed : one)) };
};

describe('a second opinion', () => {
  it('agrees with the checker of histories', async () => {
    const random = new Random(1);
    let judged = 0;
    let wrong = 0;
    for await (const history of histories()) {
      expect(violationsOf(history.operations, history.log)).toEqual([]);
      expect(isExplained(history.operations)).toBe(true);
      const changed = wrong < HISTORIES / 10 ? falsified(history, random) : undefined;
      if (changed) {
        wrong += 1;
        expect(violationsOf(changed.operations, changed.log)).not.toEqual([]);
        expect(isExplained(changed.operations)).toBe(false);
      }
      judged += 1;
      if (judged >= HISTORIES && wrong >= HISTORIES / 10) break;
    }
  });
});
