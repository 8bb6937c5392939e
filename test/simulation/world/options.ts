import { Random } from '../random.js';
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

const NO_FAULTS: FaultTimes = {
  ...{ apiDies: NEVER, projectorDies: NEVER, projectorStops: NEVER, auditorDies: NEVER },
  ...{ freezes: NEVER, wallJumps: NEVER, badNetwork: NEVER, witnessCrashes: NEVER },
  ...{ logCrashes: NEVER, logCrashesInSync: NEVER, listsCrash: NEVER, listsForget: NEVER },
};

/** The share of worlds in which a few kinds of trouble come again and again, so that they meet each other. */
const NARROW = 0.5;

/** Answers that come late, on all connections or on some. */
const late = ({ manners }: Options, random: Random, mostMs: number): Manners => ({
  ...manners,
  ...{ slow: 0.1 + 0.5 * random.next(), slowMs: random.between(50, mostMs) },
  slowConnections: random.chance(0.5) ? 1 : random.next(),
});

type NarrowWorld = (options: Options, random: Random) => Partial<Options>;

/** What such worlds are about. */
const NARROW_WORLDS: readonly [NarrowWorld, ...NarrowWorld[]] = [
  /** Lists that go back to before an erasure, in any generation. */
  (options, random) => {
    const crashing: Partial<Options> = {
      ...{ audits: true, erases: true, listsAsRedis: true, operates: 'on both', putBackAtMs: NEVER },
      ...{ ofErased: 0.5, operatesEveryMs: random.between(200, 1_500), crashesNearSteps: random.next() },
      ...{ verifyEveryMs: random.between(100, 10_000), losesSwitches: random.chance(0.5) },
      listsLoseMs: random.chance(0.4) ? 1_000 : random.between(1_000, 5_000),
      manners: random.chance(0.5) ? options.manners : late(options, random, 1_500),
      faults: { ...NO_FAULTS, listsCrash: random.between(300, 3_000) },
    };
    const kind = random.next();
    if (kind < 0.6) return crashing;
    // Back to before they were rebuilt for that, once the rebuild is closed.
    if (kind < 0.8)
      return {
        ...crashing,
        ...{ operates: 'on erasures', operatesEveryMs: random.between(2_000, 6_000), ofErased: 0.8 },
        ...{ clients: 2, ids: 20, thinkMs: random.between(300, 800), freezesNearSteps: 0, pastEvents: 0 },
        ...{
          verifyEveryMs: random.between(30, 150),
          losesSwitches: false,
          crashesNearSteps: 0.6 * random.next(),
        },
        ...{ listsLoseMs: random.between(3_000, 10_000), graceMs: random.between(50, 500) },
        manners: { ...options.manners, slow: 0, lostRequests: 0, lostAnswers: 0 },
        faults: { ...NO_FAULTS, listsCrash: random.between(2_000, 5_000) },
      };
    // Verifications while so little is written that nobody has noticed it.
    return {
      ...crashing,
      ...{ operates: 'on erasures', operatesEveryMs: random.between(500, 1_500), ofErased: 0.8 },
      ...{ clients: 2, ids: 6, thinkMs: random.between(300, 800), freezesNearSteps: 0, pastEvents: 0 },
      ...{ verifyEveryMs: random.between(30, 150), losesSwitches: false, crashesNearSteps: 0.5 },
      manners: { ...options.manners, slow: 0, lostRequests: 0, lostAnswers: 0 },
      faults: { ...NO_FAULTS, listsCrash: random.between(600, 2_000) },
    };
  },
  /** Orders to erase that are interrupted, and clocks that are set back. */
  ({ manners }, random) => {
    const interrupted: Partial<Options> = {
      ...{ audits: true, erases: true, operates: 'on erasures', putBackAtMs: NEVER },
      operatesEveryMs: random.between(150, 800),
      faults: {
        ...NO_FAULTS,
        ...{ logCrashes: random.between(300, 3_000), logCrashesInSync: random.between(300, 3_000) },
        ...{ badNetwork: random.between(500, 3_000), wallJumps: random.between(500, 3_000) },
      },
    };
    if (random.chance(0.5)) return interrupted;
    // Verifications that read the log while some streams of an owner are erased and others are not.
    return {
      ...interrupted,
      ...{ owners: 1, ids: 3, clients: 6, thinkMs: random.between(30, 90), ofErased: 0.5 },
      ...{ erasesInSteps: true, crashesNearSteps: 0, freezesNearSteps: 0, pastEvents: 0 },
      ...{ eventsARead: 10 + random.below(50), verifyEveryMs: random.between(50, 200) },
      manners: { ...manners, lostRequests: 0, lostAnswers: 0 },
      faults: { ...NO_FAULTS, auditorDies: random.between(200, 600) },
    };
  },
  /** Erasures that are broken off half-way, and rebuilds that read past them. */
  ({ erasesInSteps, manners }, random) => ({
    ...{ audits: true, erases: true, operates: 'on both', putBackAtMs: NEVER },
    ...{ ofErased: 0.5, erasesInSteps: erasesInSteps || random.chance(0.5) },
    ...{ operatesEveryMs: random.between(150, 1_500), freezesNearSteps: random.next() },
    eventsARead: 5 + random.below(50),
    manners: { ...manners, lostAnswers: 0.2 * random.next() ** 2 },
    faults: {
      ...NO_FAULTS,
      auditorDies: random.chance(0.7) ? NEVER : random.between(300, 3_000),
      logCrashes: random.between(500, 5_000),
    },
  }),
  /** Lists that are lost again and again, near steps of rebuilds with other skips. */
  (options, random) => ({
    ...{ clients: 1 + random.below(2), thinkMs: random.between(20, 2_000), losesSwitches: true },
    ...{ operates: 'on skips', strangeEvents: true, operatesEveryMs: random.between(100, 1_000) },
    forgetsNearSteps: 0.2 * random.next(),
    manners: random.chance(0.5) ? options.manners : late(options, random, 500),
    faults: { ...NO_FAULTS, listsForget: random.between(1_000, 6_000) },
  }),
  /** The same beside commands to roll back, where none is active for long: the log is read in small pieces. */
  (options, random) => ({
    ...{ pastEvents: 20 + random.below(random.chance(0.5) ? 100 : 500), eventsARead: 5 + random.below(25) },
    ...{ clients: 1, thinkMs: random.between(200, 2_000), losesSwitches: random.chance(0.3) },
    ...{ operates: 'on generations', strangeEvents: random.chance(0.3), projectors: 2 },
    ...{ operatesEveryMs: random.between(300, 2_000), forgetsNearSteps: 0.2 * random.next() },
    manners: random.chance(0.3) ? options.manners : late(options, random, 1_500),
    faults: {
      ...{ ...NO_FAULTS, freezes: random.chance(0.3) ? NEVER : random.between(200, 2_000) },
      listsForget: random.between(300, random.chance(0.7) ? 2_000 : 20_000),
      listsCrash: random.chance(0.5) ? NEVER : random.between(500, 10_000),
    },
  }),
  /** Verifications while generations replace each other. */
  ({ faults }, random) => ({
    ...{ operates: 'on generations', operatesEveryMs: random.between(200, 1_500) },
    ...{ verifyEveryMs: random.between(100, 1_000), crashesNearSteps: random.next(), losesSwitches: true },
    faults: { ...NO_FAULTS, listsCrash: faults.listsCrash, projectorDies: random.between(300, 3_000) },
  }),
  /** Short bounds of lists, which are behind or another generation, and processes that know late what the log holds. */
  (options, random) => ({
    ...{ apis: 2, clients: 4 + random.below(3), owners: 1 + random.below(2), lists: 0.5, thinkMs: 200 },
    ...{ writeWaitMs: Math.round(random.between(10, 2_000)), pastEvents: 0 },
    manners: late(options, random, 1_500),
    ...(random.chance(0.5) && {
      ...{ operates: 'on generations', operatesEveryMs: random.between(150, 1_000), listsAsRedis: true },
    }),
    faults: {
      ...{ ...NO_FAULTS, apiDies: options.faults.apiDies, freezes: random.between(200, 2_000) },
      listsCrash: random.chance(0.5) ? NEVER : random.between(300, 5_000),
      listsForget: random.chance(0.5) ? NEVER : random.between(1_000, 6_000),
    },
  }),
  /** A log that comes back as it was, beside processes that know late what it holds. */
  (options, random) => {
    const putBack = {
      ...{ apis: 2, clients: 4 + random.below(3), owners: 1 + random.below(2), lists: 0.5 },
      ...{ audits: false, thinkMs: random.between(30, 300), freezesNearSteps: random.next() },
      putBackAtMs: options.durationMs * (0.2 + 0.4 * random.next()),
      manners: late(options, random, 1_500),
      faults: { ...NO_FAULTS, freezes: random.between(200, 2_000), apiDies: options.faults.apiDies },
    };
    const kind = random.next();
    // Where hardly any list is asked for, it is noticed when the lists were built again already.
    if (kind < 0.15) return { ...putBack, lists: 0.005 * random.next() };
    // With many writes, lists hold what came since a process asked for the end of the log; no start makes it forget that.
    if (kind > 0.65)
      return {
        ...putBack,
        ...{ clients: 6, thinkMs: random.between(30, 100), lists: 0.2 * random.next() },
        ...{ freezesNearSteps: 0, faults: NO_FAULTS },
      };
    return putBack;
  },
];

/** Draws the options of a seed. */
export const drawOptions = (seed: number, durationMs?: number): Options => {
  const options = drawWorld(seed, durationMs);
  const random = new Random(Math.imul(seed + 1, 0x27d4eb2f));
  if (!options.audits || random.chance(0.7)) return options;
  const second = { ...options, secondAuditor: random.pick(['same key', 'own key'] as const) };
  const kind = random.next();
  if (kind < 0.2) return second;
  // The other one has to go on from a half-erased owner, with what it has read before.
  if (kind < 0.5)
    return {
      ...second,
      ...{ erases: true, erasesInSteps: true, losesAuditor: true, ofErased: 0.3, operates: 'on erasures' },
      ...{ operatesEveryMs: random.between(500, 3_000), freezesNearSteps: 0, crashesNearSteps: 0 },
    };
  // Erasures by one, while the other one is away or behind.
  return {
    ...second,
    ...{ erases: true, operates: 'on erasures', ofErased: 0.3 },
    operatesEveryMs: random.between(500, 3_000),
    manners: random.chance(0.5) ? options.manners : late(options, random, 1_500),
    faults: {
      ...options.faults,
      auditorDies: random.between(500, 5_000),
      freezes: random.chance(0.5) ? options.faults.freezes : random.between(500, 3_000),
    },
  };
};

/** In each world some kinds of faults are common, some rare, and some never happen. */
const drawWorld = (seed: number, durationMs = 30_000): Options => {
  const random = new Random(Math.imul(seed + 1, 0x85ebca6b));
  const mean = (least: number, most: number): number =>
    random.chance(0.4) ? NEVER : random.between(least, most);
  const share = (most: number): number => (random.chance(0.5) ? 0 : most * random.next() ** 2);
  const manners = (worse: number): Manners => ({
    lostRequests: share(0.02 * worse),
    lostAnswers: share(0.02 * worse),
    slow: share(0.05 * worse),
    slowMs: 1_000 * random.next(),
    slowConnections: 1,
    latencyMs: 0.2 + 5 * random.next() ** 3,
    syncMs: 0.2 + 20 * random.next() ** 3,
  });
  const drawn = {
    owners: 1 + random.below(4),
    ids: 1 + random.below(6),
    clients: 1 + random.below(6),
    apis: 1 + random.below(2),
    projectors: 1 + random.below(2),
    thinkMs: 20 + 600 * random.next() ** 2,
    lists: 0.2 + 0.5 * random.next(),
    keys: random.next(),
    drift: random.chance(0.5) ? 0 : 0.005 * random.next(),
    manners: manners(1),
    bad: manners(10),
    faults: {
      apiDies: mean(1_000, 20_000),
      projectorDies: mean(1_000, 20_000),
      projectorStops: mean(2_000, 30_000),
      freezes: mean(2_000, 30_000),
      logCrashes: mean(2_000, 30_000),
      listsCrash: mean(2_000, 30_000),
      listsForget: mean(20_000, 200_000),
      badNetwork: mean(3_000, 30_000),
      wallJumps: mean(5_000, 60_000),
      auditorDies: mean(2_000, 30_000),
      witnessCrashes: mean(5_000, 60_000),
    },
    operatesEveryMs: mean(1_000, 20_000),
    audits: random.chance(0.5),
    erases: random.chance(0.5),
    strangeEvents: random.chance(0.3),
    graceMs: random.chance(0.5) ? 2_000 + 8_000 * random.next() : 15 * 60_000,
    verifyEveryMs: 2_000 + 10_000 * random.next(),
    durationMs: durationMs * (0.5 + random.next()),
    witnessed: random.chance(0.5),
  };
  const logCrashesInSync = mean(1_000, 20_000);
  // What was added later has numbers of its own, so that it leaves the worlds of known seeds as they are.
  const added = new Random(Math.imul(seed + 1, 0xc2b2ae35));
  const behind = new Random(Math.imul(seed + 1, 0x165667b1));
  // An auditor would raise an alarm, as it should.
  const isPutBack = !drawn.audits && added.chance(0.3);
  const options = {
    ...drawn,
    // Decisions about them are lost with the log.
    strangeEvents: drawn.strangeEvents || (isPutBack && added.chance(0.5)),
    faults: { ...drawn.faults, logCrashesInSync },
    crashesNearSteps: random.chance(0.5) ? 0 : random.next(),
    pastEvents: random.chance(0.95) ? 0 : 800 + random.below(600),
    operates: 'on all' as const,
    listsAsRedis: random.chance(0.4),
    erasesInSteps: random.chance(0.5),
    freezesNearSteps: added.chance(0.7) ? 0 : added.next(),
    eventsARead: added.chance(0.7) ? 500 : 5 + added.below(100),
    ofErased: 0.1,
    putBackAtMs: isPutBack ? drawn.durationMs * (0.2 + 0.4 * added.next()) : NEVER,
    writeWaitMs: added.chance(0.5) ? 2_000 : Math.round(2_000 * added.next() ** 2),
    listsLoseMs: behind.chance(0.8) ? 1_000 : behind.between(1_000, 5_000),
    ...{ losesSwitches: false, forgetsNearSteps: 0, secondAuditor: 'none' as const, losesAuditor: false },
  };
  const often = { operatesEveryMs: 300 + 1_500 * random.next() };
  if (random.chance(0.1)) {
    // What an erasure leaves is to be seen before a rebuild mends it, and reading the log takes several batches.
    const verifyEveryMs = 1_000 + 2_000 * random.next();
    const pastEvents = random.chance(0.7) ? options.pastEvents : 800 + random.below(600);
    // A plant's deletion is to be erased while somebody has read that it was created.
    const ofErased = added.chance(0.5) ? options.ofErased : 0.5;
    const freezesNearSteps = added.chance(0.3) ? options.freezesNearSteps : added.next();
    const eventsARead = added.chance(0.3) ? options.eventsARead : 5 + added.below(50);
    const erasing = { operates: 'on erasures' as const, audits: true, erases: true, ofErased };
    return {
      ...options,
      ...often,
      ...erasing,
      ...{ verifyEveryMs, pastEvents, freezesNearSteps, eventsARead, putBackAtMs: NEVER },
    };
  }
  if (random.chance(0.1)) {
    // Several applies of a generation that is built, of which the next one begins while one is late.
    const pastEvents = random.chance(0.7) ? options.pastEvents : 1_300 + random.below(1_000);
    return { ...options, ...often, operates: 'on generations', strangeEvents: true, pastEvents };
  }
  if (random.chance(0.15)) {
    // Late answers and frozen processes: what a process knows of the log is old, while lists are behind.
    const slowConnections = added.chance(0.4) ? 1 : 0.1 + 0.5 * added.next();
    const late = {
      ...{ slow: 0.2 + 0.4 * random.next(), slowMs: 300 + 1_000 * random.next() },
      slowConnections,
    };
    const freezes = 500 + 1_500 * random.next();
    return {
      ...options,
      ...{ apis: 2, clients: 3 + random.below(4), lists: 0.5 },
      manners: { ...options.manners, ...late },
      faults: { ...options.faults, freezes },
    };
  }
  if (!added.chance(NARROW)) return options;
  return { ...options, ...added.pick(NARROW_WORLDS)(options, added) };
};
