import { type Random } from '../random.js';
import { type Manners } from './network.js';
import { type FaultTimes, NEVER, type Options } from './options.js';

const NO_FAULTS: FaultTimes = {
  ...{ apiDies: NEVER, projectorDies: NEVER, projectorStops: NEVER, auditorDies: NEVER },
  ...{ freezes: NEVER, wallJumps: NEVER, badNetwork: NEVER, witnessCrashes: NEVER },
  ...{ logCrashes: NEVER, logCrashesInSync: NEVER, listsCrash: NEVER, listsForget: NEVER },
};

/** Answers that come late, on all connections or on some. */
export const late = ({ manners }: Options, random: Random, mostMs: number): Manners => ({
  ...manners,
  ...{ slow: 0.1 + 0.5 * random.next(), slowMs: random.between(50, mostMs) },
  slowConnections: random.chance(0.5) ? 1 : random.next(),
});

/** No answer is late or lost. */
const prompt = ({ manners }: Options): Manners => ({
  ...manners,
  ...{ slow: 0, lostRequests: 0, lostAnswers: 0 },
});

type NarrowWorld = (options: Options, random: Random) => Partial<Options>;

/** Lists that go back to before an erasure, in any generation. */
const backBeforeErasure: NarrowWorld = (options, random) => ({
  ...{ audits: true, erases: true, listsAsRedis: true, operates: 'on both', restoredAtMs: NEVER },
  ...{ ofErased: 0.5, operatesEveryMs: random.between(200, 1_500), crashesNearSteps: random.next() },
  ...{ verifyEveryMs: random.between(100, 10_000), losesSwitches: random.chance(0.5) },
  listsLoseMs: random.chance(0.4) ? 1_000 : random.between(1_000, 5_000),
  manners: random.chance(0.5) ? options.manners : late(options, random, 1_500),
  faults: { ...NO_FAULTS, listsCrash: random.between(300, 3_000) },
});

/** Back to before they were rebuilt for that, once the rebuild is closed. */
const backBeforeRebuilt: NarrowWorld = (options, random) => ({
  ...{ operates: 'on erasures', operatesEveryMs: random.between(2_000, 6_000), ofErased: 0.8 },
  ...{ clients: 2, ids: 20, thinkMs: random.between(300, 800), freezesNearSteps: 0, pastEvents: 0 },
  ...{ verifyEveryMs: random.between(30, 150), losesSwitches: false, crashesNearSteps: 0.6 * random.next() },
  ...{ listsLoseMs: random.between(3_000, 10_000), graceMs: random.between(50, 500) },
  manners: prompt(options),
  faults: { ...NO_FAULTS, listsCrash: random.between(2_000, 5_000) },
});

export const NARROW_WORLDS: readonly [NarrowWorld, ...NarrowWorld[]] = [
  (options, random) => {
    const crashing = backBeforeErasure(options, random);
    const kind = random.next();
    if (kind < 0.6) return crashing;
    if (kind < 0.8) return { ...crashing, ...backBeforeRebuilt(options, random) };
    // Verifications while so little is written that it is not noticed otherwise.
    return {
      ...crashing,
      ...{ operates: 'on erasures', operatesEveryMs: random.between(500, 1_500), ofErased: 0.8 },
      ...{ clients: 2, ids: 6, thinkMs: random.between(300, 800), freezesNearSteps: 0, pastEvents: 0 },
      ...{ verifyEveryMs: random.between(30, 150), losesSwitches: false, crashesNearSteps: 0.5 },
      manners: prompt(options),
      faults: { ...NO_FAULTS, listsCrash: random.between(600, 2_000) },
    };
  },
  /** Orders to erase that are interrupted, and clocks that are set back. */
  ({ manners }, random) => {
    const interrupted: Partial<Options> = {
      ...{ audits: true, erases: true, operates: 'on erasures', restoredAtMs: NEVER },
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
    ...{ audits: true, erases: true, operates: 'on both', restoredAtMs: NEVER },
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
    const restored = {
      ...{ apis: 2, clients: 4 + random.below(3), owners: 1 + random.below(2), lists: 0.5 },
      ...{ audits: false, thinkMs: random.between(30, 300), freezesNearSteps: random.next() },
      restoredAtMs: options.durationMs * (0.2 + 0.4 * random.next()),
      manners: late(options, random, 1_500),
      faults: { ...NO_FAULTS, freezes: random.between(200, 2_000), apiDies: options.faults.apiDies },
    };
    const kind = random.next();
    // With hardly any lists, the loss is noticed only after the lists were built again.
    if (kind < 0.15) return { ...restored, lists: 0.005 * random.next() };
    // With many writes, lists hold what came since a process asked for the end of the log; no start makes it forget that.
    if (kind > 0.65)
      return {
        ...restored,
        ...{ clients: 6, thinkMs: random.between(30, 100), lists: 0.2 * random.next() },
        ...{ freezesNearSteps: 0, faults: NO_FAULTS },
      };
    return restored;
  },
];

/** Answers that are late on three tenths of the connections, so that some of what runs side by side is behind the rest. */
const lateOnSome = ({ manners }: Options, slow: number): Manners => ({
  ...manners,
  ...{ slow, slowMs: 500, slowConnections: 0.3, lostRequests: 0, lostAnswers: 0, latencyMs: 0.5, syncMs: 2 },
});

/** Lists that go back by seconds, where generations that are not active were behind the active one. */
const backWhileBehind: NarrowWorld = (options, random) => ({
  ...{ audits: true, erases: true, listsAsRedis: true, operates: 'on both', restoredAtMs: NEVER },
  ...{
    ofErased: 0.5,
    operatesEveryMs: random.between(300, 1_500),
    verifyEveryMs: random.between(100, 1_000),
  },
  ...{ crashesNearSteps: 0, freezesNearSteps: 0, pastEvents: 0, graceMs: 15 * 60_000 },
  listsLoseMs: random.between(2_000, 5_000),
  manners: lateOnSome(options, 0.3),
  faults: { ...NO_FAULTS, listsCrash: random.between(1_000, 4_000) },
});

/** As NARROW_WORLDS, added later: they take the place of worlds that are not narrow, and leave the others as they are. */
export const LATER_NARROW_WORLDS: readonly [NarrowWorld, ...NarrowWorld[]] = [
  backWhileBehind,
  /** Lists asked for again and again, while generations replace each other and the replaced one is the faster one. */
  (options, random) => ({
    ...{ apis: 1, clients: 6, owners: 1, lists: 0.8, thinkMs: random.between(20, 60) },
    ...{ operates: 'on generations', operatesEveryMs: random.between(150, 1_000), listsAsRedis: true },
    ...{ audits: false, strangeEvents: false, restoredAtMs: NEVER, writeWaitMs: 2_000, graceMs: 15 * 60_000 },
    ...{ crashesNearSteps: 0, freezesNearSteps: 0, pastEvents: 0, durationMs: options.durationMs / 2 },
    manners: lateOnSome(options, 0.15),
    faults: NO_FAULTS,
  }),
  /** A log that was restored and stays shorter than it was, beside owners who are blocked and caught up. */
  ({ durationMs }, random) => ({
    ...{
      audits: false,
      strangeEvents: true,
      restoredAtMs: durationMs / 2,
      pastEvents: 80 + random.below(100),
    },
    ...{ operates: 'on generations', operatesEveryMs: random.between(150, 1_000) },
    ...{ clients: 1, thinkMs: random.between(1_500, 5_000), crashesNearSteps: 0, freezesNearSteps: 0 },
    faults: NO_FAULTS,
  }),
];

/** As LATER_NARROW_WORLDS, added last. */
export const NARROW_ERASURES: readonly [NarrowWorld, ...NarrowWorld[]] = [
  /** Lists that go back while an owner is erased, which takes long, and verifications meanwhile. */
  (options, random) => ({
    ...{ audits: true, erases: true, erasesInSteps: true, listsAsRedis: true, restoredAtMs: NEVER },
    ...{ erasesForMs: random.between(200, 2_000), ofErased: 0.9, operates: 'on erasures', owners: 1 },
    ...{ operatesEveryMs: random.between(1_000, 2_000), crashesNearSteps: 0, freezesNearSteps: 0 },
    ...{ clients: 1, ids: 5, thinkMs: 300, pastEvents: 0, verifyEveryMs: 30, graceMs: 50 },
    ...{ losesSwitches: false, listsLoseMs: 2_500, durationMs: options.durationMs / 2 },
    manners: prompt(options),
    faults: { ...NO_FAULTS, listsCrash: random.between(1_000, 3_000) },
  }),
  /** Lists that go back between the answer that they have followed and its arrival. */
  (options, random) => ({
    ...{ audits: true, erases: true, listsAsRedis: false, listsLoseMs: 2_500, restoredAtMs: NEVER },
    ...{ operates: 'on erasures', operatesEveryMs: random.between(400, 1_500), ofErased: 0.9, owners: 1 },
    ...{ clients: 1, ids: 5, thinkMs: 150, crashesNearSteps: 0, freezesNearSteps: 0, pastEvents: 0 },
    ...{ verifyEveryMs: 5_000, secondAuditor: 'own key', losesAuditor: false },
    manners: {
      ...prompt(options),
      ...{ slow: 0.5, slowMs: random.between(50, 400), slowConnections: 1 },
    },
    faults: { ...NO_FAULTS, listsCrash: random.between(200, 1_500) },
  }),
  /** Lists that go back to before they were rebuilt, of which NARROW_WORLDS has too few to meet a fault twice. */
  (options, random) => ({ ...backBeforeErasure(options, random), ...backBeforeRebuilt(options, random) }),
  backWhileBehind,
];
