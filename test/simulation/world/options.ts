import { type Manners } from './network.js';

/** Instead of a time: so rarely that it never happens. A number that JSON can hold. */
export const NEVER = 1e12;

/** Mean milliseconds between two faults of a kind; NEVER for none. */
export interface FaultTimes {
  readonly apiDies: number;
  readonly projectorDies: number;
  readonly projectorStops: number;
  readonly freezes: number;
  readonly logCrashes: number;
  /** In the middle of a sync, with what was appended since the one before. */
  readonly logCrashesInSync: number;
  readonly listsCrash: number;
  readonly listsForget: number;
  readonly badNetwork: number;
  readonly wallJumps: number;
  readonly auditorDies: number;
  readonly witnessCrashes: number;
}

/** Drawn by one seed. */
export interface Options {
  readonly owners: number;
  readonly ids: number;
  readonly clients: number;
  readonly apis: number;
  readonly projectors: number;
  /** Longest pause of a client between two operations. */
  readonly thinkMs: number;
  readonly lists: number;
  readonly keys: number;
  /** Greatest difference of clocks, as a share. */
  readonly drift: number;
  readonly manners: Manners;
  readonly bad: Manners;
  readonly faults: FaultTimes;
  /** The mean time between two of an operator's commands, in milliseconds. */
  readonly operatesEveryMs: number;
  /** The operator's commands: in some worlds one of them is repeated, so that it meets most faults. */
  readonly operates: 'on all' | 'on erasures' | 'on generations' | 'on skips' | 'on both';
  /** An auditor signs the log, and owners are erased. */
  readonly audits: boolean;
  /** Signs, too, with a tree of its own: with the same key, or with one of its own. */
  readonly secondAuditor: 'none' | 'same key' | 'own key';
  /** One of the two is lost for good as it erases an owner. */
  readonly losesAuditor: boolean;
  /** A witness cosigns their checkpoints, if they have the same key. */
  readonly witnessed: boolean;
  readonly erases: boolean;
  /** Share of requests of owners who are erased now and then. */
  readonly ofErased: number;
  /** A newer version writes events that this one cannot read. */
  readonly strangeEvents: boolean;
  /** Share of steps of a rebuild or of an erasure after which something soon crashes. */
  readonly crashesNearSteps: number;
  /** Share of such steps right after which a process that takes part freezes. */
  readonly freezesNearSteps: number;
  /** Share of such steps after which the lists soon lose everything. */
  readonly forgetsNearSteps: number;
  /** When the log comes back as it was before its last events, in milliseconds of the world; NEVER for not at all. */
  readonly restoredAtMs: number;
  /** In the log when the world begins. */
  readonly pastEvents: number;
  /** At most, in one answer of the log. */
  readonly eventsARead: number;
  /** See ListManners. */
  readonly listsAsRedis: boolean;
  /** As in EventStoreDB: see LogManners. */
  readonly erasesInSteps: boolean;
  readonly erasesForMs: number;
  /**
   * Greatest age of the lists that a crash leaves: the last second is on no disk, and a replica may be further behind.
   */
  readonly listsLoseMs: number;
  /** The lists may lose a switch alone, and crash soon after the first one. */
  readonly losesSwitches: boolean;
  readonly graceMs: number;
  readonly verifyEveryMs: number;
  /** As WRITE_WAIT_MS. */
  readonly writeWaitMs: number;
  /** Time of the world in which faults happen. */
  readonly durationMs: number;
}

/** Worlds with fewer faults, features and clients, for shrinking. */
export const simpler = (options: Options): Options[] => {
  const less: Options[] = [];
  for (const [kind, meanMs] of Object.entries(options.faults))
    if (meanMs !== NEVER) less.push({ ...options, faults: { ...options.faults, [kind]: NEVER } });
  if (options.restoredAtMs !== NEVER) less.push({ ...options, restoredAtMs: NEVER });
  if (options.secondAuditor !== 'none') less.push({ ...options, secondAuditor: 'none', losesAuditor: false });
  if (options.operatesEveryMs !== NEVER) less.push({ ...options, operatesEveryMs: NEVER });
  for (const feature of ['audits', 'witnessed', 'erases', 'strangeEvents'] as const)
    if (options[feature]) less.push({ ...options, [feature]: false });
  for (const number of ['clients', 'owners', 'ids', 'apis', 'projectors'] as const)
    if (options[number] > 1) less.push({ ...options, [number]: options[number] - 1 });
  for (const number of [
    'drift',
    'crashesNearSteps',
    'freezesNearSteps',
    'forgetsNearSteps',
    'pastEvents',
  ] as const)
    if (options[number] > 0) less.push({ ...options, [number]: 0 });
  return less;
};
