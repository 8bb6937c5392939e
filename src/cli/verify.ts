import { START } from '../ports/event-log.js';
import { type Generation, ReadModelIncomplete } from '../ports/read-model.js';
import { Progress } from './progress.js';
import { readSkipsInForce } from '../rebuilds/read.js';
import { type Difference, type Verified, verify as compare } from '../projector/verify.js';
import { type CliContext, print } from './context.js';
import { printable } from './terminal.js';
import { activeGeneration } from '../operations/status.js';

/**
 * Compares what lists are answered from with the fold of the log, and prints the differences. Returns whether there is
 * none. A list that is refused, because an event of its owner cannot be read, is no difference. Calls `onCompared` with
 * the number of plants that differ, where all owners could be compared. Throws LogDamaged where the log contradicts
 * itself, ReadModelIncomplete where no generation is active, and what `verify` of the projector and `onCompared` throw.
 */
export const verify = async (
  context: CliContext,
  onCompared: (differing: number) => Promise<void> = () => Promise.resolve(),
): Promise<boolean> => {
  const { log } = context;
  const generation = await activeGeneration(context);
  if (generation === undefined)
    throw new ReadModelIncomplete('there is nothing to verify: no generation of the lists is active');
  const total = log.count(START, await log.head());
  const found = await compareWithLog(context, generation, total);
  // Lists that agree with the log prove nothing where the log does not agree with itself.
  await checkLog(context, total);
  const { differences, differing, plants, comparedOwners, position, parked, unreadable } = found;
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
      differences: differences.map(asJson),
    },
    resultText(found, generation),
  );
  // Where owners could not be compared, the last complete comparison stays the last one.
  if (differing > 0 || unreadable === 0) await onCompared(differing);
  return differing === 0 && unreadable === 0;
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
  { differences, differing, plants, comparedOwners, position, parked, unreadable }: Verified,
  generation: Generation,
): string => {
  const compared = `${plants} plants of ${comparedOwners} owners in generation ${generation}, up to position ${position || 'the start'}`;
  if (differing > 0)
    return [
      ...differences.map(asText),
      ...(differing > differences.length ? [`… and ${differing - differences.length} more`] : []),
      `${differing} differences: compared ${compared}`,
      'Build the lists anew: npx plants rebuild',
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
