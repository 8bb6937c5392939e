import { type Operation } from '../support/history.js';

/**
 * True if all that one owner was told can be explained. Writes and refusals are one linearizable history, that of the
 * log, and writes and lists are another one: a refusal may show a write that has no answer yet, and lists need not
 * contain it before it has one.
 */
export const isExplained = (history: readonly Operation[]): boolean =>
  isLinearizable(history.filter(({ wish }) => wish.kind !== 'list')) &&
  isLinearizable(history.filter(({ outcome }) => outcome.kind !== 'refused'));

/**
 * True if each operation of one owner can be put at one moment between its start and its end so that all outcomes follow
 * from the moments alone. The algorithm is that of Wing and Gong (Testing and Verifying Concurrent Objects, 1993), with
 * the states that were visited remembered as Lowe proposes (Testing for Linearizability, 2017). It knows neither the log
 * nor positions, so that it shares nothing with test/support/history.ts. A write whose outcome is unknown may have
 * happened at any moment after its start, or never.
 */
const isLinearizable = (history: readonly Operation[]): boolean => {
  // Operations that certainly did not happen have no moment.
  const operations = history
    .filter(
      ({ outcome, wish }) =>
        outcome.kind !== 'nothing' && !(outcome.kind === 'unknown' && wish.kind === 'list'),
    )
    .sort((a, b) => a.started - b.started);
  if (operations.some(({ outcome }) => outcome.kind === 'unexpected')) return false;
  const isOptional = ({ outcome }: Operation): boolean => outcome.kind === 'unknown';
  const done = new Array<boolean>(operations.length).fill(false);
  const visited = new Set<string>();
  let left = operations.filter((one) => !isOptional(one)).length;

  // A loop rather than a recursion: there are as many steps as operations, which may be thousands.
  const stepAt = (plants: ReadonlyMap<number, string>): Step | undefined => {
    const key = `${done.map(Number).join('')} ${textOf(plants)}`;
    if (visited.has(key)) return undefined;
    visited.add(key);
    // An operation that started after another one had ended comes after it.
    let firstEnd = Infinity;
    for (const [index, one] of operations.entries())
      if (!done[index] && !isOptional(one)) firstEnd = Math.min(firstEnd, one.ended);
    const candidates = operations
      .map((one, index) => ({ one, index }))
      .filter(({ one, index }) => !done[index] && one.started <= firstEnd);
    return { plants, candidates: candidates.values() };
  };
  const mark = ({ one, index }: Candidate, isDone: boolean): void => {
    done[index] = isDone;
    if (!isOptional(one)) left += isDone ? -1 : 1;
  };

  const steps = [stepAt(new Map())];
  for (let step = steps[0]; step && left > 0; step = steps.at(-1)) {
    if (step.chosen) mark(step.chosen, false); // it has led nowhere
    step.chosen = undefined;
    const { value: candidate } = step.candidates.next();
    const after = candidate && apply(step.plants, candidate.one);
    if (!candidate) steps.pop();
    else if (after) {
      mark(candidate, true);
      step.chosen = candidate;
      const next = stepAt(after);
      if (next) steps.push(next);
    }
  }
  return left === 0;
};

/** An operation that may come next. */
interface Candidate {
  readonly one: Operation;
  readonly index: number;
}

/** A state of the search: the plants at a moment, and what may come next. */
interface Step {
  readonly plants: ReadonlyMap<number, string>;
  readonly candidates: Iterator<Candidate, undefined>;
  /** The one that was taken last. */
  chosen?: Candidate | undefined;
}

/** The plants after an operation at this moment; undefined where its outcome would have been another one. */
const apply = (
  plants: ReadonlyMap<number, string>,
  { wish, outcome }: Operation,
): ReadonlyMap<number, string> | undefined => {
  if (wish.kind === 'list') {
    if (outcome.kind !== 'listed') return undefined;
    const rows = [...plants].sort(([a], [b]) => a - b).map(([, row]) => row);
    const isSame =
      outcome.body === `[${rows.slice(0, wish.limit).join(',')}]` &&
      outcome.more === rows.length > wish.limit;
    return isSame ? plants : undefined;
  }
  const isPresent = plants.has(wish.id);
  if (outcome.kind === 'refused') return isPresent === (outcome.because === 'present') ? plants : undefined;
  if (wish.kind === 'create') {
    if (isPresent) return undefined;
    return new Map(plants).set(wish.id, JSON.stringify({ name: wish.name, tag: wish.tag }));
  }
  if (!isPresent) return undefined;
  const after = new Map(plants);
  after.delete(wish.id);
  return after;
};

const textOf = (plants: ReadonlyMap<number, string>): string =>
  [...plants]
    .sort(([a], [b]) => a - b)
    .map(([id, row]) => `${id}${row}`)
    .join();
