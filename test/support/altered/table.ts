import { type State } from './kind.js';
import { KINDS, statesOf } from './kinds.js';
import { type Outcome } from './matrix.js';

/** Half of them are less, or as much. */
const medianOf = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[Math.floor((numbers.length - 1) / 2)] ?? NaN;

const seconds = (ms: number): string => (ms / 1_000).toFixed(1);

/** Each kind and state: made, found, named rightly, median and longest time, and by whom, in lines of Markdown. */
export const tableOf = (outcomes: readonly Outcome[]): string => {
  const lines = [
    '| kind | state | made | found | named | median s | worst s | by |',
    '|---|---|---|---|---|---|---|---|',
  ];
  for (const [kind, ways] of Object.entries(KINDS))
    for (const state of statesOf(kind)) {
      const of = outcomes.filter((one) => ways.includes(one.way) && one.state === state);
      if (of.length > 0) lines.push(lineOf(kind, state, of));
    }
  return `${lines.join('\n')}\n`;
};

const lineOf = (kind: string, state: State, of: readonly Outcome[]): string => {
  const found = of.filter(({ finding }) => finding !== undefined);
  const times = found.map(({ ms }) => ms);
  const by = new Map<string, number>();
  for (const { finding, atNextStart, kept } of of) {
    const who = finding
      ? `${finding.by}${atNextStart ? ' at the next start' : ''}`
      : `kept checkpoint ${kept ?? ''}`;
    by.set(who, (by.get(who) ?? 0) + 1);
  }
  const cells = [
    kind,
    state,
    of.length,
    found.length,
    of.filter(({ isNamed }) => isNamed).length,
    times.length > 0 ? seconds(medianOf(times)) : '',
    times.length > 0 ? seconds(Math.max(...times)) : '',
    Array.from(by, ([who, count]) => `${who} ${count}`).join(', '),
  ];
  return `| ${cells.join(' | ')} |`;
};
