import { type Manners } from './network.js';

/** Instead of a time: so rarely that it never happens. A number that JSON can hold. */
export const NEVER = 1e12;

/** How often each fault comes, as the mean time between two of them in milliseconds; NEVER for none. */
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

/** What one seed draws. */
export interface Options {
  readonly owners: number;
  readonly ids: number;
  readonly clients: number;
  readonly apis: number;
  readonly projectors: number;
  /** How long clients pause between two operations at most, in milliseconds. */
  readonly thinkMs: number;
  readonly lists: number;
  readonly keys: number;
  /** How much clocks differ at most, as a share. */
  readonly drift: number;
  readonly manners: Manners;
  readonly bad: Manners;
  readonly faults: FaultTimes;
  /** The mean time between two of an operator's commands, in milliseconds. */
  readonly operatesEveryMs: number;
  /** Which commands: in some worlds one thing happens again and again, so that it meets most faults. */
  readonly operates: 'on all' | 'on erasures' | 'on generations' | 'on skips' | 'on both';
  /** Whether an auditor signs the log, and owners are erased. */
  readonly audits: boolean;
  /** Whether another auditor signs, too, with a tree of its own: with the same key, or with one of its own. */
  readonly secondAuditor: 'none' | 'same key' | 'own key';
  /** Whether one of the two is lost for good as it erases an owner. */
  readonly losesAuditor: boolean;
  /** Whether a witness cosigns their checkpoints, if they have the same key. */
  readonly witnessed: boolean;
  readonly erases: boolean;
  /** How many requests, as a share, are of owners who are erased now and then. */
  readonly ofErased: number;
  /** Whether a newer version writes events that this one cannot read. */
  readonly strangeEvents: boolean;
  /** How often, as a share, something crashes soon after a step of a rebuild or of an erasure. */
  readonly crashesNearSteps: number;
  /** How often, as a share, a process that takes part freezes right after such a step. */
  readonly freezesNearSteps: number;
  /** How often, as a share, the lists lose everything soon after such a step. */
  readonly forgetsNearSteps: number;
  /** When the log comes back as it was before its last events, in milliseconds of the world; NEVER for not at all. */
  readonly putBackAtMs: number;
  /** How many events the log holds when the world begins. */
  readonly pastEvents: number;
  /** How many events one answer of the log has at most. */
  readonly eventsARead: number;
  /** Whether the lists are used as those in Redis are: see ListManners. */
  readonly listsAsRedis: boolean;
  /** Whether events are erased as in EventStoreDB: see LogManners. */
  readonly erasesInSteps: boolean;
  readonly erasesForMs: number;
  /**
   * How old what a crash leaves of the lists may be, in milliseconds: the last second is on no disk, and a replica may be
   * further behind.
   */
  readonly listsLoseMs: number;
  /** Whether the lists may lose a switch alone, and crash soon after the first one. */
  readonly losesSwitches: boolean;
  readonly graceMs: number;
  readonly verifyEveryMs: number;
  /** How long a write waits for the lists, in milliseconds: what WRITE_WAIT_MS sets. */
  readonly writeWaitMs: number;
  /** How long faults happen, in milliseconds of the world. */
  readonly durationMs: number;
}

/** How many faults, features and clients a world has: shrinking makes it less. */
export const simpler = (options: Options): Options[] => {
  const less: Options[] = [];
  for (const [kind, meanMs] of Object.entries(options.faults))
    if (meanMs !== NEVER) less.push({ ...options, faults: { ...options.faults, [kind]: NEVER } });
  if (options.putBackAtMs !== NEVER) less.push({ ...options, putBackAtMs: NEVER });
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
