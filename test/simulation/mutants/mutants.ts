import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decorate } from '../../../src/log/decorate.js';
import { LogUnavailable, OutcomeUnknown, type Position, START } from '../../../src/log/event-log.js';
import { NEVER, type Options } from '../world/options.js';
import { type Mutant } from '../world/simulation.js';

/** In a file of build/src, a text is replaced by another. */
interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** A wrong line of the compiled service, or of what stands for the stores. */
export interface PlantedFault {
  readonly name: string;
  /** In a few words. */
  readonly what: string;
  readonly edits?: readonly Edit[];
  readonly mutant?: Mutant;
  /** True for the control: it does no harm, and is found nowhere. */
  readonly isHarmless?: true;
  /** The worlds in which it is looked for; all without it. In others it cannot be seen, or hardly ever. */
  readonly worlds?: (options: Options) => boolean;
}

const isRestored = ({ restoredAtMs }: Options): boolean => restoredAtMs !== NEVER;

/** Lists are lost again and again, and a crash may lose a switch alone. */
const losesLists = ({ losesSwitches, faults }: Options): boolean =>
  losesSwitches && faults.listsForget !== NEVER;

/** A store of lists crashes now and then, which may take what was answered from it. */
const crashesLists = ({ faults }: Options): boolean => faults.listsCrash !== NEVER;

/** Owners are erased beside rebuilds, and a crash may bring back lists with these owners. */
const bringsBack = ({ operates, listsAsRedis }: Options): boolean => operates === 'on both' && listsAsRedis;

/** Two auditors, each with a tree and an eraser of its own. */
const hasSecondAuditor = ({ secondAuditor }: Options): boolean => secondAuditor !== 'none';

/** Faults of the stores: what their adapters must not do. */
const STORE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'acknowledged-before-sync',
    what: 'the log acknowledges an append before it is synced',
    mutant: { log: { acknowledgesBeforeSync: true } },
  },
  {
    name: 'expected-revision-ignored',
    what: 'the log appends whatever revision is expected',
    mutant: { log: { ignoresExpected: true } },
  },
  {
    name: 'promotion-without-comparison',
    what: 'the lists promote a generation that is not as far',
    mutant: { lists: { promotesUnchecked: true } },
  },
  {
    name: 'gaps-applied',
    what: 'the lists apply a batch that leaves a gap',
    mutant: { lists: { appliesGaps: true } },
  },
  {
    name: 'applied-twice',
    what: 'the lists apply changes again that they contain',
    mutant: { lists: { appliesTwice: true } },
  },
  {
    name: 'position-apart-from-rows',
    what: 'the lists commit a position before its rows',
    mutant: { lists: { positionsWithoutRows: true } },
  },
  {
    name: 'lease-outlives-its-clock',
    what: 'the lease of a projector that has died does not end',
    mutant: { lists: { leaseForever: true } },
  },
  {
    name: 'checkpoint-unsynced',
    what: 'a checkpoint is served that a crash loses',
    mutant: { tree: { savesUnsynced: true } },
  },
  {
    name: 'unknown-as-unavailable',
    what: 'an append whose outcome is unknown is told as not written',
    mutant: {
      service: {
        log: (log) =>
          decorate(log, {
            append: async (stream, expected, events) => {
              try {
                return await log.append(stream, expected, events);
              } catch (error) {
                throw error instanceof OutcomeUnknown ? new LogUnavailable(error.message) : error;
              }
            },
          }),
      },
    },
  },
  {
    name: 'stale-head',
    what: 'the log answers nine of ten times with the head of before',
    mutant: {
      service: {
        log: (log) => {
          let asked = 0;
          let known: Promise<Position> | undefined;
          return decorate(log, {
            head: () => {
              if (!known || asked++ % 10 === 0) known = log.head();
              return known;
            },
          });
        },
      },
    },
  },
  {
    name: 'subscription-skips',
    what: 'a subscription that is opened again leaves out an event',
    mutant: {
      service: {
        log: (log) =>
          decorate(log, {
            subscribe: (after, signal) =>
              log.subscribe(
                after === START ? after : (String(Number(after) + 1).padStart(after.length, '0') as Position),
                signal,
              ),
          }),
      },
    },
  },
  {
    name: 'caught-up-too-early',
    what: 'a subscription says that it has caught up where it has not',
    mutant: {
      service: {
        log: (log) =>
          decorate(log, {
            async *subscribe(after, signal) {
              for await (const batch of log.subscribe(after, signal))
                yield { ...batch, events: batch.events.slice(0, 1), caughtUp: true };
            },
          }),
      },
    },
  },
  {
    name: 'failover-unnoticed',
    what: 'a store of lists that was started again passes for the same',
    worlds: crashesLists,
    mutant: {
      service: {
        model: (model) => {
          Object.defineProperty(model, 'steadySince', { get: () => -Infinity, set: () => undefined });
          return model;
        },
      },
    },
  },
  {
    name: 'reached-at-once',
    what: 'a write does not wait for its list, and is told as listed',
    mutant: { service: { model: (model) => Object.assign(model, { reached: () => Promise.resolve() }) } },
  },
  {
    name: 'apply-not-sent',
    what: 'an apply answers before the store has it',
    mutant: {
      service: {
        model: (model) => {
          const apply = model.apply.bind(model);
          return Object.assign(model, {
            apply: (...[generation, parts]: Parameters<typeof apply>) => {
              apply(generation, parts).catch(() => undefined);
              return Promise.resolve(parts.map(({ upTo }) => upTo));
            },
          });
        },
      },
    },
  },
];

/** Wrong lines of the service itself. */
const SOURCE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'unavailable-after-unknown',
    what: 'a later try that cannot reach the log says that nothing was written',
    edits: [
      { file: 'commands/execute.js', find: 'unknown && error instanceof LogUnavailable', replace: 'false' },
    ],
  },
  {
    name: 'resumed-command-decides-again',
    what: 'a repeated request with a key does not look for its first outcome',
    edits: [
      { file: 'commands/plant-commands.js', find: 'if (earlier) return', replace: 'if (false) return' },
    ],
  },
  {
    name: 'key-resumes-from-the-start',
    what: 'a request with a key is decided on states from before it',
    edits: [
      {
        file: 'commands/idempotency.js',
        find: 'firstRevision: last ? Number(last.revision) + 1 : 0',
        replace: 'firstRevision: 0',
      },
    ],
  },
  {
    name: 'created-twice',
    what: 'a plant is created that is present',
    edits: [{ file: 'domain/plant.js', find: 'if (plant) throw plantExists(command.id);', replace: '' }],
  },
  {
    name: 'deletion-keeps-row',
    what: 'a deleted plant stays in lists',
    edits: [
      {
        file: 'projection/changes.js',
        find: 'row: plant && rowOf(plant.name, plant.tag)',
        replace: 'row: plant ? rowOf(plant.name, plant.tag) : id === 3 ? "{}" : undefined',
      },
    ],
  },
  {
    name: 'regression-not-noticed',
    what: 'a projection goes on where the store has lost data',
    edits: [
      {
        file: 'projection/projection.js',
        find: 'if (position < upTo.position) throw',
        replace: 'if (false) throw',
      },
    ],
  },
  {
    name: 'idle-partitions-stay',
    what: 'idle partitions are not moved to the end of the log',
    edits: [
      {
        file: 'projection/projection.js',
        find: 'part.changes.length > 0 || part.refused || isChecked',
        replace: 'part.changes.length > 0 || part.refused',
      },
    ],
  },
  {
    name: 'batch-in-flight-forgotten',
    what: 'an apply begins before the one before it has ended',
    edits: [
      {
        file: 'projection/projection.js',
        find: 'await this.#inFlight;\n        this.#inFlight = this.#apply',
        replace: 'this.#inFlight = this.#apply',
      },
    ],
  },
  {
    name: 'bound-longer-than-wait',
    what: 'lists may be further behind the log than writes wait',
    edits: [{ file: 'lists/freshness.js', find: 'const BOUND = 0.95;', replace: 'const BOUND = 3;' }],
  },
  {
    name: 'floors-forgotten',
    what: 'a process does not remember what it has answered',
    worlds: ({ listsAsRedis, operates, manners }) =>
      listsAsRedis && operates === 'on generations' && manners.slow > 0.1,
    edits: [
      {
        file: 'lists/freshness.js',
        find: 'if (position > (this.#floors[partition] ?? START))',
        replace: 'if (false)',
      },
    ],
  },
  {
    name: 'stale-list-answered',
    what: 'a list that is not fresh enough in time is answered',
    edits: [
      {
        file: 'lists/list-plants.js',
        find: "throw new NotFreshYet('the list is not up to date yet');",
        replace: 'break;',
      },
    ],
  },
  {
    name: 'horizon-of-lists',
    what: 'a list does not contain what the log holds',
    edits: [
      {
        file: 'lists/list-plants.js',
        find: 'const asked = atLeast > horizon ? atLeast : horizon;',
        replace: 'const asked = atLeast;',
      },
    ],
  },
  {
    name: 'later-race-lost',
    what: 'a lost race is told as a failure of the log',
    edits: [
      {
        file: 'commands/execute.js',
        find: 'if (!(error instanceof WrongExpectedRevision)) throw error;',
        replace: 'throw error;',
      },
    ],
  },
  {
    name: 'promoted-while-building',
    what: 'a rebuild goes on before its generation has caught up, without a verification',
    edits: [{ file: 'projection/supervisor.js', find: 'if (!runner.hasCaughtUp) return true;', replace: '' }],
  },
  {
    name: 'first-generation-promoted-early',
    what: 'the first generation is active before it has caught up',
    edits: [
      { file: 'projection/supervisor.js', find: 'if (!runner.hasCaughtUp) return false;', replace: '' },
    ],
  },
  {
    name: 'generation-ids-come-back',
    what: 'the id of a generation that was lost is given again',
    worlds: losesLists,
    mutant: { lists: { reusesIds: true } },
  },
  {
    name: 'missing-anchor-taken-as-there',
    what: 'lists of events after the end of the log are taken as right',
    worlds: isRestored,
    edits: [
      {
        file: 'log/anchor.js',
        find: "if (!found) return 'missing';",
        replace: "if (!found) return 'there';",
      },
    ],
  },
  {
    name: 'another-history-unnoticed',
    what: 'a process does not look whether the log still holds what it has answered',
    worlds: isRestored,
    edits: [{ file: 'lists/freshness.js', find: 'this.#forget();', replace: '' }],
  },
  {
    name: 'erased-while-read-unnoticed',
    what: 'lists that lack deletions which were erased are taken as right',
    worlds: bringsBack,
    edits: [{ file: 'erasure/erased-while-read.js', find: 'throw new ErasedWhileRead(', replace: 'void (' }],
  },
  {
    name: 'erased-across-partitions-unnoticed',
    what: 'lists of which one partition lacks deletions that were erased are taken as right',
    worlds: bringsBack,
    edits: [{ file: 'erasure/erased-while-read.js', find: 'if (isAcross || ', replace: 'if (' }],
  },
  {
    name: 'caught-up-without-reading',
    what: 'a blocked owner is answered without the events that were left out',
    edits: [{ file: 'projection/blocked-owners.js', find: 'this.#changes.push(change);', replace: ';' }],
  },
  {
    name: 'skips-meanwhile-forgotten',
    what: 'an event that is skipped while its owner is brought up to date blocks the owner forever',
    edits: [
      {
        file: 'projection/blocked-owners.js',
        find: 'if (next && owner.skips !== this.skips) this.isStale = true;',
        replace: '',
      },
    ],
  },
  // Lines that a world has found missing: see "What it has found" in docs/simulation.md.
  {
    name: 'order-by-time-of-day',
    what: 'an incomplete order to erase ends by the time of day alone',
    worlds: ({ operates, faults }) => operates === 'on erasures' && faults.wallJumps !== NEVER,
    edits: [{ file: 'erasure/eraser.js', find: 'monotonicMs() - since)', replace: '0)' }],
  },
  {
    name: 'recheck-adds-twice',
    what: 'a recheck that goes on adds events again',
    edits: [{ file: 'audit/recheck.js', find: 'if (index < this.size) return;', replace: '' }],
  },
  {
    name: 'state-read-while-erased',
    what: 'the state of a tree that was read while an owner was erased is signed',
    worlds: hasSecondAuditor,
    edits: [{ file: 'audit/auditor.js', find: 'redacted.take(events);', replace: '' }],
  },
  {
    name: 'greater-tree-by-time',
    what: 'a witness that shows a greater tree raises the alarm by time alone, while the log is yet to be read',
    worlds: (options) => options.secondAuditor === 'same key' && options.witnessed,
    edits: [{ file: 'audit/shown-checkpoints.js', find: 'tree.position >= head && ', replace: '' }],
  },
  {
    name: 'erasure-in-progress-unknown',
    what: 'a recheck does not know of an erasure that is not recorded yet',
    edits: [{ file: 'audit/recheck.js', find: "fact.event.type === 'ErasureStarted' || ", replace: '' }],
  },
];

/** Not wrong, and not to be found: two projectors at a time do no harm. */
const CONTROLS: readonly PlantedFault[] = [
  {
    name: 'lease-for-two',
    what: 'two projectors have the lease at a time (this is no fault)',
    isHarmless: true,
    mutant: { lists: { leaseForTwo: true } },
  },
];

export const PLANTED_FAULTS: readonly PlantedFault[] = [...STORE_FAULTS, ...SOURCE_FAULTS, ...CONTROLS];

/** Runs something while a fault is in this copy of the build, if it is one of the source. */
export const whilePlanted = async <T>(
  { edits = [] }: Pick<PlantedFault, 'edits'>,
  copy: string,
  run: () => T | Promise<T>,
): Promise<T> => {
  const [edit, ...others] = edits;
  if (!edit) return run();
  const { file, find, replace } = edit;
  const path = join(copy, 'src', file);
  const text = readFileSync(path, 'utf8');
  if (!text.includes(find)) throw new Error(`${file} does not contain ${JSON.stringify(find)}`);
  writeFileSync(path, text.replace(find, replace));
  try {
    return await whilePlanted({ edits: others }, copy, run);
  } finally {
    writeFileSync(path, text);
  }
};
