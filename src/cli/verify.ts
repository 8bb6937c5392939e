import { START } from '../ports/event-log.js';
import { type Generation, ReadModelIncomplete } from '../ports/read-model.js';
import { Progress } from './progress.js';
import { readSkipsInForce } from '../rebuilds/read.js';
import { type Difference, isForCertain, type Verified, verify as compare } from '../projector/verify.js';
import { type CliContext, print } from './context.js';
import { printable } from './terminal.js';
import { type TreeStore } from '../ports/tree-store.js';
import { activeGeneration } from '../operations/status.js';
import { type StateVerified, verifyState } from '../operations/verify-state.js';

export interface VerifyDependencies {
  /** The tree of this log, where an auditor keeps one here. */
  readonly tree?: TreeStore | undefined;
  /** Called with the number of plants that differ from the log, where the comparison says so for certain. */
  readonly onCompared?: (differing: number) => Promise<void>;
}

/**
 * Compares what lists are answered from with the fold of the log, then with the state that the last checkpoint commits
 * to, and prints the differences. Returns whether there is none. A list that is refused, because an event of its owner
 * cannot be read, is no difference. Throws LogDamaged where the log contradicts itself, StateAltered where the stored
 * state is not the signed one, ReadModelIncomplete where no generation is active, and what `verify` of the projector,
 * `verifyState` and `onCompared` throw.
 */
export const verify = async (
  context: CliContext,
  { tree, onCompared = () => Promise.resolve() }: VerifyDependencies = {},
): Promise<boolean> => {
  const { log } = context;
  const generation = await activeGeneration(context);
  if (generation === undefined)
    throw new ReadModelIncomplete('there is nothing to verify: no generation of the lists is active');
  const total = log.count(START, await log.head());
  const found = await compareWithLog(context, generation, total);
  // Lists that agree with the log prove nothing where the log does not agree with itself.
  await checkLog(context, total);
  const { differences, differing, plants, comparedOwners, position, parked, unreadable, erasing } = found;
  const state = tree && (await compareWithState(context, generation, tree));
  print(
    context,
    {
      generation,
      plants,
      owners: comparedOwners,
      position,
      differing,
      parked,
      unreadable,
      erasing,
      differences: differences.map(asJson),
      state: state ? stateAsJson(state) : null,
    },
    [resultText(found, generation), ...(tree ? [stateText(state)] : [])].join('\n'),
  );
  if (isForCertain(found)) await onCompared(differing);
  return differing === 0 && unreadable === 0 && (state?.differing ?? 0) === 0;
};

/** Compares, and once more where an event was skipped meanwhile: the lists of its owner were mended then. */
const compareWithLog = async (
  { log, model, json, signal }: CliContext,
  generation: Generation,
  total: number | undefined,
): Promise<Verified> => {
  const folding = new Progress('events', process.stderr, json);
  const comparing = new Progress('plants', process.stderr, json);
  const onProgress = ({ events, plants }: { readonly events: number; readonly plants: number }): void => {
    signal.throwIfAborted();
    if (plants === 0) {
      folding.show('reading', Math.min(events, total ?? events), total);
      return;
    }
    folding.end();
    comparing.show('comparing', plants, undefined);
  };
  try {
    const skips = await readSkipsInForce(log);
    const found = await compare(log, model, generation, { skips, onProgress, signal });
    if (found.unreadable === 0) return found;
    const skipsNow = await readSkipsInForce(log);
    if (skipsNow.size <= skips.size) return found;
    return await compare(log, model, generation, { skips: skipsNow, onProgress, signal });
  } finally {
    folding.end();
    comparing.end();
  }
};

const compareWithState = async (
  { log, model, json, signal }: CliContext,
  generation: Generation,
  tree: TreeStore,
): Promise<StateVerified | undefined> => {
  const comparing = new Progress('plants', process.stderr, json);
  try {
    const skips = await readSkipsInForce(log);
    const onProgress = (plants: number): void => {
      comparing.show('proving', plants, undefined);
    };
    return await verifyState(log, model, generation, tree, { skips, signal, onProgress });
  } finally {
    comparing.end();
  }
};

const checkLog = async ({ log, json, signal }: CliContext, total: number | undefined): Promise<void> => {
  const checking = new Progress('events', process.stderr, json);
  try {
    for await (const upTo of log.check(START)) {
      signal.throwIfAborted();
      checking.show('checking', log.count(START, upTo) ?? 0, total);
    }
  } finally {
    checking.end();
  }
};

const resultText = (
  { differences, differing, plants, comparedOwners, position, parked, unreadable, erasing }: Verified,
  generation: Generation,
): string => {
  const compared = `${plants} plants of ${comparedOwners} owners in generation ${generation}, up to position ${position || 'the start'}`;
  if (differing > 0)
    return [
      ...differences.map(asText),
      ...(differing > differences.length ? [`… and ${differing - differences.length} more`] : []),
      `${differing} differences: compared ${compared}`,
      erasing
        ? 'An owner is being erased, and that may be why: verify again once it has ended (npx plants status)'
        : 'Build the lists anew: npx plants rebuild',
    ].join('\n');
  return [
    unreadable === 0
      ? `the lists are the fold of the log: compared ${compared}`
      : `${unreadable} owners hold events that this version cannot read, and are answered: verify them with the version that projects`,
    ...(parked > 0
      ? [`${parked} more lists are not answered, for events that cannot be read: see plants status`]
      : []),
  ].join('\n');
};

const stateText = (state: StateVerified | undefined): string => {
  if (!state)
    return 'no checkpoint commits to the present state, so the lists were not compared with one: see plants status';
  const { size, root, plants, differing, differences } = state;
  const signed = `the state that was signed with ${size} events`;
  if (differing === 0)
    return `they are ${signed}: compared ${plants} plants, root ${Buffer.from(root).toString('base64')}`;
  return [
    ...differences.map(({ owner, id, what }) =>
      printable(`${owner === undefined ? 'an owner' : `owner ${JSON.stringify(owner)}`}, id ${id}: ${what}`),
    ),
    ...(differing > differences.length ? [`… and ${differing - differences.length} more`] : []),
    `${differing} plants differ from ${signed}: see docs/audit.md`,
  ].join('\n');
};

const stateAsJson = ({ size, root, plants, differing, differences }: StateVerified) => ({
  events: size,
  root: Buffer.from(root).toString('base64'),
  plants,
  differing,
  differences: differences.map(({ owner, id, what }) => ({ owner: owner ?? null, id, what })),
});

const asJson = ({ owner, id, expected, found }: Difference) => ({
  owner,
  id,
  expected: expected ?? null,
  found: found ?? null,
});

const asText = ({ owner, id, expected, found }: Difference): string =>
  printable(
    `owner ${JSON.stringify(owner)}, id ${id}: expected ${expected ?? 'none'}, found ${found ?? 'none'}`,
  );
