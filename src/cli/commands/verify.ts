import { type Command } from 'commander';
import { isWell, type Verification } from '../../operations/verification.js';
import { watched } from '../progress.js';
import { print, printable, quantity } from '../terminal.js';
import { operable, type Operating } from '../with-operations.js';

/** Defines `plants verify`. */
export const define = (command: Command): void => {
  command
    .option(
      '--json',
      'print {generation, plants, owners, position, differing, parked, unreadable, erasing, differences, state}, and no progress',
    )
    .addHelpText(
      'after',
      `
It runs while the service does, under traffic. It changes nothing: npx plants rebuild mends lists.

Example:
  npx plants verify --json | jq '.differences[]'

A list that is not answered, since an event of its owner cannot be read, is no difference: it is counted as parked. An
owner whose events this version cannot read, but is answered, is counted as unreadable: another version projects.
While an owner is being erased, lists may differ for that alone: "erasing" is true then. Verify again afterwards.
Where there is the tree of an auditor, each plant is also compared with the state that the last checkpoint commits to;
"state" is null where there is none.

Exit status: 0 if nothing differs, 1 if something does or cannot be compared, or on failure, 2 wrong usage or settings,
3 the service cannot be reached, 130 interrupted.`,
    );
  operable(command, () => ({ stores: { apart: true } }), verify);
};

/** Compares the lists with the log and the signed state, and prints the differences. Returns whether there is none. */
export const verify = async (operating: Operating): Promise<boolean> => {
  const found = await watched(operating, operating.operations.verify(operating.signal));
  print(operating, found, `${resultText(found)}\n${stateText(found.state)}`);
  return isWell(found);
};

const resultText = ({
  generation,
  plants,
  owners,
  position,
  differing,
  parked,
  unreadable,
  erasing,
  differences,
}: Verification): string => {
  const compared = `${quantity(plants, 'plant')} of ${quantity(owners, 'owner')} in generation ${generation}, up to position ${position || 'the start'}`;
  if (differing > 0)
    return [
      ...differences.map(({ owner, id, expected, found }) =>
        printable(
          `owner ${JSON.stringify(owner)}, id ${id}: expected ${expected ?? 'none'}, found ${found ?? 'none'}`,
        ),
      ),
      ...(differing > differences.length ? [`… and ${differing - differences.length} more`] : []),
      `${quantity(differing, 'difference')}: compared ${compared}`,
      erasing
        ? 'An owner is being erased, and that may be why: verify again once it has ended (npx plants status)'
        : 'Rebuild the lists: npx plants rebuild',
    ].join('\n');
  return [
    unreadable === 0
      ? `the lists are the fold of the log: compared ${compared}`
      : `the lists of ${quantity(unreadable, 'owner')} are answered and were not verified: this version cannot read their events, so verify them with the version that projects`,
    ...(parked > 0
      ? [
          `the lists of ${quantity(parked, 'owner')} are not answered, for events that cannot be read: see plants status`,
        ]
      : []),
  ].join('\n');
};

const stateText = (state: Verification['state']): string => {
  if (!state)
    return 'no checkpoint commits to the present state, so the log was not compared with one: see plants status';
  const { events, root, plants, differing, differences } = state;
  const signed = `the state that was signed with ${quantity(events, 'event')}`;
  if (differing === 0)
    return `the log comes to ${signed}: compared ${quantity(plants, 'plant')}, root ${root}`;
  return [
    ...differences.map(({ owner, id, what }) =>
      printable(`${owner === null ? 'an owner' : `owner ${JSON.stringify(owner)}`}, id ${id}: ${what}`),
    ),
    ...(differing > differences.length ? [`… and ${differing - differences.length} more`] : []),
    `different from ${signed}: ${quantity(differing, 'plant')}; see docs/audit.md`,
  ].join('\n');
};
