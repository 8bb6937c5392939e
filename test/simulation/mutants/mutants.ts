import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decorate } from '../../../src/ports/decorate.js';
import {
  type NewEvent,
  LogUnavailable,
  OutcomeUnknown,
  type Position,
  START,
} from '../../../src/ports/event-log.js';
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
  /** What is wrong, in a few words. */
  readonly what: string;
  readonly edits?: readonly Edit[];
  readonly mutant?: Mutant;
  /** The worlds in which it is looked for; all without it. In others it cannot be seen, or hardly ever. */
  readonly worlds?: (options: Options) => boolean;
}

const isPutBack = ({ putBackAtMs }: Options): boolean => putBackAtMs !== NEVER;

/** Lists are lost again and again, and a crash may lose a switch alone. */
const losesLists = ({ losesSwitches, faults }: Options): boolean =>
  losesSwitches && faults.listsForget !== NEVER;

/** A store of lists crashes now and then, which may take what was answered from it. */
const crashesLists = ({ faults }: Options): boolean => faults.listsCrash !== NEVER;

/** A crash may take all that was done to the lists since before a rebuild. */
const losesMore = ({ listsAsRedis, listsLoseMs, graceMs }: Options): boolean =>
  listsAsRedis && listsLoseMs > 2_000 && graceMs < 15_000;

/** Owners are erased beside rebuilds, and a crash may bring back lists with these owners. */
const bringsBack = ({ operates, listsAsRedis }: Options): boolean => operates === 'on both' && listsAsRedis;

/** An erasure may end half-way, beside rebuilds. */
const erasesHalf = ({ operates, erasesInSteps }: Options): boolean => operates === 'on both' && erasesInSteps;

/** Two auditors, each with a tree and an eraser of its own. */
const hasSecondAuditor = ({ secondAuditor }: Options): boolean => secondAuditor !== 'none';

/** Two, of which one is lost for good as it erases. */
const losesAuditor = (options: Options): boolean => options.losesAuditor;

/** Faults of the stores: what their adapters must not do. */
const STORE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'acknowledged-before-sync',
    what: 'the log acknowledges an append before it is synced',
    mutant: { log: { acknowledgesBeforeSync: true } },
  },
  {
    name: 'repeated-append-refused',
    what: 'the log refuses the repetition of an append',
    mutant: { log: { ignoresRepeats: true } },
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
    name: 'new-ids-on-retry',
    what: 'a retry of an append has new event ids',
    mutant: {
      service: {
        log: (log) => {
          let count = 0;
          const renamed = (event: NewEvent): NewEvent => ({
            ...event,
            id: `${event.id.slice(0, 24)}${String((count += 1)).padStart(12, '0')}`,
          });
          return decorate(log, {
            append: (stream, expected, events) => log.append(stream, expected, events.map(renamed)),
          });
        },
      },
    },
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
      { file: 'write/execute.js', find: 'unknown && error instanceof LogUnavailable', replace: 'false' },
    ],
  },
  {
    name: 'resumed-command-decides-again',
    what: 'a repeated request with a key does not look for its first outcome',
    edits: [{ file: 'write/plant-commands.js', find: 'if (earlier) return', replace: 'if (false) return' }],
  },
  {
    name: 'key-resumes-from-the-start',
    what: 'a request with a key is decided on states from before it',
    edits: [
      {
        file: 'write/idempotency.js',
        find: 'firstRevision: last ? Number(last.revision) + 1 : 0',
        replace: 'firstRevision: 0',
      },
    ],
  },
  {
    name: 'created-twice',
    what: 'a plant is created that is present',
    edits: [{ file: 'plants/plant.js', find: 'if (plant) throw plantExists(command.id);', replace: '' }],
  },
  {
    name: 'deletion-keeps-row',
    what: 'a deleted plant stays in lists',
    edits: [
      {
        file: 'projector/changes.js',
        find: 'row: plant && rowOf(plant.name, plant.tag)',
        replace: 'row: plant ? rowOf(plant.name, plant.tag) : id === 3 ? "{}" : undefined',
      },
    ],
  },
  {
    name: 'regression-not-noticed',
    what: 'a projection goes on where the store has lost data',
    edits: [
      { file: 'projector/projection.js', find: 'if (position < from) throw', replace: 'if (false) throw' },
    ],
  },
  {
    name: 'idle-partitions-stay',
    what: 'idle partitions are not moved to the end of the log',
    edits: [
      {
        file: 'projector/projection.js',
        find: 'part.changes.length > 0 || part.refused || all',
        replace: 'part.changes.length > 0 || part.refused',
      },
    ],
  },
  {
    name: 'batch-in-flight-forgotten',
    what: 'an apply begins before the one before it has ended',
    edits: [
      {
        file: 'projector/projection.js',
        find: 'await this.#inFlight;\n        this.#inFlight = this.#apply',
        replace: 'this.#inFlight = this.#apply',
      },
    ],
  },
  {
    name: 'bound-longer-than-wait',
    what: 'lists may be further behind the log than writes wait',
    edits: [{ file: 'read/freshness.js', find: 'const BOUND = 0.95;', replace: 'const BOUND = 3;' }],
  },
  {
    name: 'floors-forgotten',
    what: 'a process does not remember what it has answered',
    worlds: ({ listsAsRedis, operates, manners }) =>
      listsAsRedis && operates === 'on generations' && manners.slow > 0.1,
    edits: [
      {
        file: 'read/freshness.js',
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
        file: 'read/list-plants.js',
        find: "if (page.position < needed()) throw new NotFreshYet('the list is not up to date yet');",
        replace: '',
      },
    ],
  },
  {
    name: 'horizon-of-the-fast-path',
    what: 'the fast path does not ask what the log holds',
    edits: [
      {
        file: 'read/list-plants.js',
        find: 'if (horizon === undefined || page.position < horizon) return undefined;',
        replace: '',
      },
    ],
  },
  {
    name: 'promoted-while-building',
    what: 'a rebuild goes on before its generation has caught up, without a verification',
    edits: [
      { file: 'projector/rebuilder.js', find: 'if (standby.caughtUpAt === undefined) return;', replace: '' },
    ],
  },
  {
    name: 'erased-before-followed',
    what: 'an owner is erased before lists and tree have the deletions',
    edits: [
      { file: 'erasure/eraser.js', find: 'if (!await this.#followed(covered, signal)) return;', replace: '' },
    ],
  },
  {
    name: 'erased-before-durable',
    what: 'an owner is erased before the deletions are durable in the lists',
    edits: [{ file: 'erasure/eraser.js', find: 'await this.model.sync();', replace: '' }],
  },
  {
    name: 'erased-while-read-unnoticed',
    what: 'lists that were read while an owner was erased are taken as right',
    worlds: ({ operates }) => operates === 'on erasures' || operates === 'on both',
    edits: [{ file: 'erasure/erased-while-read.js', find: 'throw new ErasedWhileRead(', replace: 'void (' }],
  },
  {
    name: 'put-back-before-erasure-unnoticed',
    what: 'lists that a crash has put back to before an erasure are taken as right',
    worlds: bringsBack,
    edits: [
      {
        file: 'projector/projector.js',
        find: 'const erasure = await erasureAcross(this.log, await this.model.positions(generation));',
        replace: 'const erasure = undefined;',
      },
    ],
  },
  {
    name: 'healed-without-reading',
    what: 'a parked owner is answered without the events that were left out',
    edits: [{ file: 'projector/healer.js', find: 'this.changes.push(change);', replace: '' }],
  },
  {
    name: 'later-race-lost',
    what: 'a lost race is told as a failure of the log',
    edits: [
      {
        file: 'write/execute.js',
        find: 'if (!(error instanceof WrongExpectedRevision)) throw error;',
        replace: 'throw error;',
      },
    ],
  },
  {
    name: 'first-generation-promoted-early',
    what: 'the first generation is active before it has caught up',
    edits: [
      {
        file: 'projector/projector.js',
        find: 'if (caughtUp && active === undefined)',
        replace: 'if (active === undefined)',
      },
    ],
  },
  // Lines that a world has found missing: see "What it has found" in docs/simulation.md.
  {
    name: 'healer-waits',
    what: 'a healer waits for a log that was put back to grow',
    worlds: (options) => isPutBack(options) && options.strangeEvents,
    edits: [
      { file: 'projector/healer.js', find: 'if (caughtUp && (isAhead', replace: 'if (false && (isAhead' },
    ],
  },
  {
    name: 'rebuilt-before-noticed',
    what: 'whether lists were rebuilt is looked at when a list is asked for, and those of then are taken as those of before',
    worlds: isPutBack,
    edits: [
      {
        file: 'read/log-regression.js',
        find: 'if (this.noticed) this.assertHealed(head).catch(()=>undefined);',
        replace: '',
      },
      { file: 'read/log-regression.js', find: '(isShorter || isNewer)', replace: 'isNewer' },
    ],
  },
  {
    name: 'order-by-time-of-day',
    what: 'an incomplete order to erase ends by the time of day alone',
    worlds: ({ operates, faults }) => operates === 'on erasures' && faults.wallJumps !== NEVER,
    edits: [{ file: 'erasure/eraser.js', find: 'monotonicMs() - since)', replace: '0)' }],
  },
  {
    name: 'eraser-waits-for-all',
    what: 'an eraser waits also for a generation that cannot follow',
    worlds: erasesHalf,
    edits: [
      { file: 'erasure/eraser.js', find: 'if (canFollow && positions.some', replace: 'if (positions.some' },
    ],
  },
  {
    name: 'replaced-not-asked',
    what: 'a write does not ask the generation from which other processes may still answer',
    worlds: ({ operates, listsAsRedis }) => listsAsRedis && operates === 'on generations',
    edits: [
      {
        file: 'adapters/redis/active-generation.js',
        find: 'if (other !== undefined && other !== active) this.#replaced',
        replace: 'if (false) this.#replaced',
      },
    ],
  },
  {
    name: 'recheck-adds-twice',
    what: 'a recheck that goes on adds events again',
    edits: [{ file: 'audit/recheck.js', find: 'if (index < this.size) return;', replace: '' }],
  },
  {
    name: 'unskip-not-again',
    what: 'a rebuild that looks again at skipped events takes a first generation for its own',
    worlds: losesLists,
    edits: [
      {
        file: 'projector/rebuilder.js',
        find: 'if (unreadable > 0 && generation === active) return this.#begin(state, building);',
        replace: '',
      },
    ],
  },
  {
    name: 'sound-lists-forgotten',
    what: 'lists that were found right while a log that was put back was shorter are not known as such later',
    worlds: isPutBack,
    edits: [{ file: 'read/log-regression.js', find: '(isShorter || isNewer)', replace: 'isShorter' }],
  },
  {
    name: 'put-back-not-awaited',
    what: 'a verification does not know of lists that a crash has just put back to before an erasure',
    worlds: (options) =>
      options.operates === 'on erasures' && options.verifyEveryMs < 150 && crashesLists(options),
    edits: [
      {
        file: 'projector/verifier.js',
        find: 'if (await erasureAcross(this.log, await this.model.positions(active))) return true;',
        replace: '',
      },
    ],
  },
  {
    name: 'switch-from-damaged-lost',
    what: 'lists that were replaced because they may hold an erased owner are active again, and nobody notices it',
    worlds: losesMore,
    edits: [
      {
        file: 'projector/rebuilder.js',
        find: 'if (putBackBefore === undefined && damaged && active === damaged.generation)',
        replace: 'if (false)',
      },
      { file: 'projector/verifier.js', find: ' || active === damaged?.generation', replace: '' },
    ],
  },
  {
    name: 'state-read-while-erased',
    what: 'the state of a tree that was read while an owner was erased is signed',
    worlds: hasSecondAuditor,
    edits: [{ file: 'audit/auditor.js', find: 'standIns.take(events);', replace: '' }],
  },
  {
    name: 'greater-tree-by-time',
    what: 'a witness that shows a greater tree raises the alarm by time alone, while the log is yet to be read',
    worlds: (options) => options.secondAuditor === 'same key' && options.witnessed,
    edits: [{ file: 'audit/greater-tree.js', find: 'tree.position >= head && ', replace: '' }],
  },
  {
    name: 'eraser-waits-for-tree',
    what: 'an eraser waits also for a tree that cannot follow',
    worlds: losesAuditor,
    edits: [
      {
        file: 'erasure/eraser.js',
        find: 'const canFollow = (await this.tree.state()).position >= covered.erasedUpTo;',
        replace: 'const canFollow = true;',
      },
    ],
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
