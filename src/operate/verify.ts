import { START } from '../ports/event-log.js';
import { ReadModelIncomplete } from '../ports/read-model.js';
import { Progress } from '../progress.js';
import { readRebuilds, readSkips } from '../projector/rebuilds.js';
import { type Difference, verify as compare } from '../projector/verify.js';
import { type Desk, print, printable } from './desk.js';
import { activeGeneration } from './status.js';

/**
 * Compares what lists are answered from with the fold of the log, and prints what differs. Gives whether nothing
 * does. Throws ReadModelIncomplete where there is nothing to compare, and what `verify` of the projector throws.
 */
export const verify = async (desk: Desk): Promise<boolean> => {
  const { log, model, json, signal } = desk;
  const generation = await activeGeneration(desk);
  if (generation === undefined)
    throw new ReadModelIncomplete('there is nothing to verify: no generation of the lists is active');
  const { skipsAfter } = await readRebuilds(log);
  const skips = await readSkips(log, skipsAfter);
  const total = desk.eventsBetween?.(START, await log.head());
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
    const found = await compare(log, model, generation, { skips, onProgress, signal });
    folding.end();
    comparing.end();
    const { differences, differing, plants, owners, position } = found;
    const compared = `${plants} plants of ${owners} owners in generation ${generation}, up to position ${position || 'the start'}`;
    print(
      desk,
      { generation, plants, owners, position, differing, differences: differences.map(asJson) },
      differing === 0
        ? `the lists are the fold of the log: compared ${compared}`
        : [
            ...differences.map(asText),
            ...(differing > differences.length ? [`… and ${differing - differences.length} more`] : []),
            `${differing} differences: compared ${compared}`,
            'Build the lists anew: npx plants rebuild',
          ].join('\n'),
    );
    return differing === 0;
  } finally {
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
