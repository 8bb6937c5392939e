import { type BundleToCheck, type Checked, checkBundle, type Contents } from '../audit/check.js';
import { type KeyChange } from '../audit/checkpoint-record.js';
import { BundleRefused } from '../transparency/bundle-format.js';
import { longOperation } from '../operations/long-operation.js';
import { watched } from './progress.js';
import { bytesIn } from './check-files.js';
import { print, printable, quantity, table } from './terminal.js';

/** Owners that are shown to a person: those with most plants. */
const SHOWN_OWNERS = 20;

/** The options of `plants check`. */
export interface CheckQuestion extends Pick<BundleToCheck, 'trust' | 'against'> {
  readonly file: string;
  /** The file of an older bundle. */
  readonly previous: string | undefined;
  /** The owner whose events it has to hold, and no others; anybody's, without it. */
  readonly owner?: string | undefined;
}

/**
 * Checks a bundle, and prints what it is: nothing else is needed for that. Returns whether it passed. Throws
 * CheckFailed where a file cannot be read.
 */
export const check = async (
  { json }: { readonly json: boolean },
  { file, trust, against, previous, owner }: CheckQuestion,
): Promise<boolean> => {
  const bundles = {
    bundle: () => bytesIn(file),
    previous: previous === undefined ? undefined : () => bytesIn(previous),
  };
  const checking = longOperation(new AbortController().signal, (report) =>
    checkBundle({ ...bundles, trust, against }, (phase, done, total) => {
      report({ phase, unit: 'events', done, total: total ?? null });
    }),
  );
  try {
    const checked = await watched({ json }, checking);
    if (owner !== undefined && checked.owner !== owner)
      throw new BundleRefused(`the bundle is of ${ownerText(checked)}, not of ${JSON.stringify(owner)}`);
    print({ json }, asJson(checked), asText(checked));
    return true;
  } catch (error) {
    if (!(error instanceof BundleRefused)) throw error;
    const { reason, line, index, found, kept } = error;
    const lines = [
      `refused: ${error.message}`,
      ...(kept === undefined ? [] : [`  in the older bundle: ${kept}`]),
      ...(found === undefined ? [] : [`  in this one:         ${found}`]),
    ];
    print({ json }, { verdict: 'refused', reason, line, index, kept, found }, printableLines(lines));
    return false;
  }
};

const ownerText = ({ owner }: Checked): string =>
  owner === undefined ? 'all owners' : JSON.stringify(owner);

const asJson = (checked: Checked): unknown => {
  const { verdict, signedBy, origin, size, root, from, owner, against, previous } = checked;
  const contents = ({ events, unread, plants }: Contents) => ({
    events,
    unread,
    plants: plants ? Object.fromEntries(plants) : null,
  });
  return {
    verdict,
    signedBy: signedBy ?? null,
    origin,
    size,
    root,
    from,
    owner: owner ?? null,
    ...contents(checked),
    ...(checked.isStateProven === undefined ? {} : { stateProven: checked.isStateProven }),
    against: against ?? null,
    keyChanges: checked.keyChanges,
    changes: checked.changes ? Object.fromEntries(checked.changes) : null,
    previous: previous ? { size: previous.size, ...contents(previous) } : null,
  };
};

const asText = (checked: Checked): string => {
  const { origin, size, from, owner, events, unread, plants, against, previous } = checked;
  const by = checked.signedBy;
  const range =
    events === 0
      ? 'no events'
      : owner === undefined
        ? `events ${from} to ${size - 1}`
        : quantity(events, 'event');
  const what = `${range}${owner === undefined ? '' : ` of ${JSON.stringify(owner)} from ${from} on`}`;
  const lines = [
    by === undefined
      ? `consistent: ${what} are in the checkpoint of ${quantity(size, 'event')} of ${origin}`
      : `proven: ${what} are in the checkpoint of ${quantity(size, 'event')} of ${origin}, signed by ${by}`,
  ];
  if (by === undefined)
    lines.push(
      "The signature was NOT checked: without the log's key (--key) anyone may have made this file.",
    );
  if (owner !== undefined) lines.push(checked.isStateProven ? OWNERS_PLANTS : NOT_COMPLETE);
  if (against !== undefined)
    lines.push(
      `It goes on from the older checkpoint of ${quantity(against, 'event')}, without a difference.`,
    );
  if (previous)
    lines.push(
      `It goes on from the older bundle of ${quantity(previous.events, 'event')} up to ${previous.size}; none of them differs.`,
    );
  if (checked.isStateProven !== undefined && owner === undefined)
    lines.push(checked.isStateProven ? STATE_PROVEN : STATE_NOT_COMPARED);
  lines.push(...checked.keyChanges.map(keyChangeText));
  if (unread > 0) lines.push(`Events that cannot be read, and change nothing in what follows: ${unread}.`);
  lines.push(
    plants
      ? plantsText(plants, previous?.plants, checked.changes)
      : from === 0
        ? TOO_MANY
        : NOT_FROM_THE_BEGINNING,
  );
  return printableLines(lines);
};

const keyChangeText = ({ index, from, to, confirmed }: KeyChange): string =>
  `Event ${index} records that the key was changed from ${from} to ${to}: ${
    confirmed
      ? 'the old key has signed that.'
      : 'the old key has NOT signed that. Ask why, and get the new key by a way that you trust.'
  }`;

const STATE_PROVEN = 'The state root of its checkpoint is that of these events.';
const STATE_NOT_COMPARED =
  'The state root of its checkpoint was NOT compared: that takes all events from the first on, and at most some 750,000 plants.';
const OWNERS_PLANTS =
  'These are all plants of this owner that were present, each with the event that created it. Plants that were deleted, and requests, may have been left out.';
const NOT_COMPLETE =
  'It is not proven that no event of this owner was left out: that takes a bundle of this owner from the first event on, or one of all events.';
const TOO_MANY = 'There are too many plants and owners to count them here.';
const NOT_FROM_THE_BEGINNING =
  'What the store held does not follow from it: it does not begin with the first event.';

const plantsText = (
  now: ReadonlyMap<string, number>,
  then: ReadonlyMap<string, number> | undefined,
  changes: Contents['changes'],
): string => {
  const total = [...now.values()].reduce((sum, plants) => sum + plants, 0);
  const owners = [...new Set([...now.keys(), ...(changes?.keys() ?? [])])]
    .map((owner) => ({
      owner,
      plants: now.get(owner) ?? 0,
      before: then?.get(owner) ?? 0,
      change: changes?.get(owner),
    }))
    .filter(({ change }) => !then || change)
    .sort((one, other) => other.plants - one.plants || (one.owner < other.owner ? -1 : 1));
  const rows = owners
    .slice(0, SHOWN_OWNERS)
    .map(({ owner, plants, before, change }) => [
      `  ${printable(owner)}`,
      then ? `${before} -> ${quantity(plants, 'plant')}` : quantity(plants, 'plant'),
      ...(then && change ? [`(${change.created} created, ${change.deleted} deleted)`] : []),
    ]);
  const more = owners.length - rows.length;
  return [
    `The store held ${quantity(total, 'plant')} of ${quantity(now.size, 'owner')}${then ? '; since the older bundle changed' : ''}:`,
    ...(rows.length === 0 ? ['  nothing'] : [table(rows)]),
    ...(more > 0 ? [`  and ${more} more (--json shows all)`] : []),
  ].join('\n');
};

const printableLines = (lines: readonly string[]): string =>
  lines
    .flatMap((line) => line.split('\n'))
    .map(printable)
    .join('\n');
