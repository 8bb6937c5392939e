import { z } from 'zod';
import { type EventLog, START } from '../log/event-log.js';
import { ReadModelIncomplete } from '../lists/read-model.js';
import { type TreeStore } from '../audit/tree-store.js';
import { isForCertain, type Verified, verify } from '../projection/verify.js';
import { readSkipsInForce } from '../commands/read-rebuilds.js';
import { type OperationProgress } from './long-operation.js';
import { activeGeneration, type System } from './status.js';
import { type StateVerified, verifyState } from './verify-state.js';

const count = z.number().int();
const row = z.string().nullable();

/** The result of a comparison, as `plants verify --json` prints it. */
export const Verification = z
  .object({
    generation: count.meta({ description: 'The generation of the lists that was compared.' }),
    plants: count,
    owners: count,
    position: z.string().meta({ description: 'Up to which position; empty before the first event.' }),
    differing: count.meta({ description: 'Plants that differ from the fold of the log.' }),
    parked: count.meta({ description: 'Lists that are not answered, since an event cannot be read.' }),
    unreadable: count.meta({
      description: 'Owners who are answered, and hold events that this version cannot read.',
    }),
    erasing: z
      .boolean()
      .meta({ description: 'Whether an owner is being erased, which may be why lists differ.' }),
    differences: z
      .array(z.object({ owner: z.string(), id: count, expected: row, found: row }))
      .readonly()
      .meta({ description: 'The first of them.' }),
    state: z
      .object({
        events: count.meta({ description: 'Of the checkpoint.' }),
        root: z.string().meta({ description: 'The state root that it commits to, in base64.' }),
        plants: count,
        differing: count,
        differences: z
          .array(z.object({ owner: z.string().nullable(), id: count, what: z.string() }))
          .readonly(),
      })
      .nullable()
      .meta({ description: 'The comparison of the log with the signed state; null where none is signed.' }),
  })
  .meta({ id: 'Verification', description: 'What a comparison of the lists with the log has found.' });

export type Verification = Readonly<z.infer<typeof Verification>>;

/** Tells whether nothing differs, and all could be compared. */
export const isWell = ({ differing, unreadable, state }: Verification): boolean =>
  differing === 0 && unreadable === 0 && (state?.differing ?? 0) === 0;

export interface VerifyListsOptions {
  /** The tree of this log, where an auditor keeps one here. */
  readonly tree: TreeStore | undefined;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: OperationProgress) => void;
  /** Called with the number of plants that differ from the log, where the comparison says so for certain. */
  readonly onCompared: (differing: number) => Promise<void>;
}

/**
 * Compares what lists are answered from with the fold of the log, then the log with itself, then the log with the state
 * that the last checkpoint commits to. A list that is refused, because an event of its owner cannot be read, is no
 * difference. Throws LogDamaged where the log contradicts itself, StateAltered where the stored state is not the signed
 * one, ReadModelIncomplete where no generation is active, what `verify` of the projector, `verifyState` and `onCompared`
 * throw, and the signal's reason.
 */
export const verifyLists = async (
  { log, model }: Pick<System, 'log' | 'model'>,
  { tree, signal, onProgress, onCompared }: VerifyListsOptions,
): Promise<Verification> => {
  const generation = await activeGeneration({ model });
  if (generation === undefined)
    throw new ReadModelIncomplete('there is nothing to verify: no generation of the lists is active');
  const total = log.count(START, await log.head()) ?? null;
  const compare = async (): Promise<Verified> => {
    const skips = await readSkipsInForce(log);
    const found = await verify(log, model, generation, {
      skips,
      signal,
      onProgress: ({ events, plants, expectedPlants }) => {
        signal.throwIfAborted();
        if (plants > 0)
          onProgress({
            phase: 'comparing',
            unit: 'plants',
            done: plants,
            total: Math.max(plants, expectedPlants ?? 0),
          });
        else onProgress({ phase: 'reading', unit: 'events', done: Math.min(events, total ?? events), total });
      },
    });
    // An event that was skipped meanwhile: the lists of its owner were mended then.
    return found.unreadable > 0 && (await readSkipsInForce(log)).size > skips.size ? compare() : found;
  };
  const found = await compare();
  // Lists that agree with the log prove nothing where the log does not agree with itself.
  await checkLog(log, total, signal, onProgress);
  const state =
    tree &&
    (await verifyState(log, tree, {
      signal,
      onProgress: (done, total) => {
        onProgress({ phase: 'proving', unit: 'events', done, total });
      },
    }));
  if (isForCertain(found)) await onCompared(found.differing);
  const { plants, comparedOwners, position, differing, parked, unreadable, erasing, differences } = found;
  return {
    ...{ generation, plants, owners: comparedOwners, position, differing, parked, unreadable, erasing },
    differences: differences.map(({ owner, id, expected, found }) => ({
      ...{ owner, id, expected: expected ?? null, found: found ?? null },
    })),
    state: state ? stateOf(state) : null,
  };
};

export const checkLog = async (
  log: EventLog,
  total: number | null,
  signal: AbortSignal,
  onProgress: (progress: OperationProgress) => void,
): Promise<void> => {
  for await (const upTo of log.check(START)) {
    signal.throwIfAborted();
    onProgress({ phase: 'checking', unit: 'events', done: log.count(START, upTo) ?? 0, total });
  }
};

const stateOf = ({ size, root, plants, differing, differences }: StateVerified): Verification['state'] => ({
  ...{ events: size, root: Buffer.from(root).toString('base64'), plants, differing },
  differences: differences.map(({ owner, id, what }) => ({ owner: owner ?? null, id, what })),
});
