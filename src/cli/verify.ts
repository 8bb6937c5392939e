import { START } from '../ports/event-log.js';
import { ReadModelIncomplete } from '../ports/read-model.js';
import { Progress } from './progress.js';
import { readSkipsInForce } from '../rebuilds/read.js';
import { type Difference, verify as compare } from '../projector/verify.js';
import { type CliContext, print } from './context.js';
import { printable } from './terminal.js';
import { activeGeneration } from '../operations/status.js';

/**
 * Compares what lists are answered from with the fold of the log, and prints what differs. Gives whether nothing
 * does: a list that is not answered does not. `onVerified` is given how many plants differ, where all could be compared.
 * Throws LogDamaged where the log contradicts itself, ReadModelIncomplete where there is nothing to compare, and what
 * `verify` of the projector and `onVerified` throw.
 */
export const verify = async (
  context: CliContext,
  onVerified: (differing: number) => Promise<void> = () => Promise.resolve(),
): Promise<boolean> => {
  const { log, model, json, signal } = context;
  const generation = await activeGeneration(context);
  if (generation === undefined)
    throw new ReadModelIncomplete('there is nothing to verify: no generation of the lists is active');
  const total = log.count(START, await log.head());
  const checking = new Progress('events', process.stderr, json);
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
    let skips = await readSkipsInForce(log);
    let found = await compare(log, model, generation, { skips, onProgress, signal });
    const skipsNow = found.unreadable > 0 ? await readSkipsInForce(log) : skips;
    if (skipsNow.size > skips.size) {
      // An event was skipped meanwhile, and its owner healed.
      skips = skipsNow;
      found = await compare(log, model, generation, { skips, onProgress, signal });
    }
    folding.end();
    comparing.end();
    // Lists that agree with the log prove nothing where the log does not agree with itself.
    for await (const upTo of log.check(START)) {
      signal.throwIfAborted();
      checking.show('checking', log.count(START, upTo) ?? 0, total);
    }
    checking.end();
    const { differences, differing, plants, owners, position, parked, unreadable } = found;
    const compared = `${plants} plants of ${owners} owners in generation ${generation}, up to position ${position || 'the start'}`;
    print(
      context,
      {
        generation,
        plants,
        owners,
        position,
        differing,
        parked,
        unreadable,
        differences: differences.map(asJson),
      },
      differing === 0
        ? [
            unreadable === 0
              ? `the lists are the fold of the log: compared ${compared}`
              : `${unreadable} owners hold events that this version cannot read, and are answered: verify them with the version that projects`,
            ...(parked > 0
              ? [`${parked} more lists are not answered, for events that cannot be read: see plants status`]
              : []),
          ].join('\n')
        : [
            ...differences.map(asText),
            ...(differing > differences.length ? [`… and ${differing - differences.length} more`] : []),
            `${differing} differences: compared ${compared}`,
            'Build the lists anew: npx plants rebuild',
          ].join('\n'),
    );
    // Where owners could not be compared, the last complete comparison stays the last one.
    if (differing > 0 || unreadable === 0) await onVerified(differing);
    return differing === 0 && unreadable === 0;
  } finally {
    checking.end();
    folding.end();
    comparing.end();
  }
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
