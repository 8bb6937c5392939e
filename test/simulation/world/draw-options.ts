import { Random } from '../random.js';
import { late, LATER_NARROW_WORLDS, NARROW_ERASURES, NARROW_WORLDS } from './narrow-worlds.js';
import { type Manners } from './network.js';
import { NEVER, type Options } from './options.js';

/** The share of worlds in which a few kinds of trouble come again and again, so that they meet each other. */
const NARROW = 0.5;

/** The share of the others in which it is a kind that was added later. */
const LATER_NARROW = 0.35;

/** And that in which it is one of NARROW_ERASURES. */
const ERASURES = 0.3;

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
  // Later options are drawn from generators of their own, so that known seeds keep their worlds.
  const added = new Random(Math.imul(seed + 1, 0xc2b2ae35));
  const behind = new Random(Math.imul(seed + 1, 0x165667b1));
  // An auditor would raise an alarm, as it should.
  const isRestored = !drawn.audits && added.chance(0.3);
  const options = {
    ...drawn,
    // Decisions about them are lost with the log.
    strangeEvents: drawn.strangeEvents || (isRestored && added.chance(0.5)),
    faults: { ...drawn.faults, logCrashesInSync },
    crashesNearSteps: random.chance(0.5) ? 0 : random.next(),
    pastEvents: random.chance(0.95) ? 0 : 800 + random.below(600),
    operates: 'on all' as const,
    listsAsRedis: random.chance(0.4),
    ...{ erasesInSteps: random.chance(0.5), erasesForMs: 0 },
    freezesNearSteps: added.chance(0.7) ? 0 : added.next(),
    eventsARead: added.chance(0.7) ? 500 : 5 + added.below(100),
    ofErased: 0.1,
    restoredAtMs: isRestored ? drawn.durationMs * (0.2 + 0.4 * added.next()) : NEVER,
    writeWaitMs: added.chance(0.5) ? 2_000 : Math.round(2_000 * added.next() ** 2),
    listsLoseMs: behind.chance(0.8) ? 1_000 : behind.between(1_000, 5_000),
    ...{ losesSwitches: false, forgetsNearSteps: 0, secondAuditor: 'none' as const, losesAuditor: false },
  };
  const often = { operatesEveryMs: 300 + 1_500 * random.next() };
  if (random.chance(0.1)) {
    // Reading a long log takes several batches: a verification may find the traces of an erasure before a rebuild.
    const verifyEveryMs = 1_000 + 2_000 * random.next();
    const pastEvents = random.chance(0.7) ? options.pastEvents : 800 + random.below(600);
    // A plant's deletion is to be erased after a reader has read its creation.
    const ofErased = added.chance(0.5) ? options.ofErased : 0.5;
    const freezesNearSteps = added.chance(0.3) ? options.freezesNearSteps : added.next();
    const eventsARead = added.chance(0.3) ? options.eventsARead : 5 + added.below(50);
    const erasing = { operates: 'on erasures' as const, audits: true, erases: true, ofErased };
    return {
      ...options,
      ...often,
      ...erasing,
      ...{ verifyEveryMs, pastEvents, freezesNearSteps, eventsARead, restoredAtMs: NEVER },
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
  if (added.chance(NARROW)) return { ...options, ...added.pick(NARROW_WORLDS)(options, added) };
  const later = new Random(Math.imul(seed + 1, 0x7feb352d));
  const kind = later.next();
  if (kind < LATER_NARROW) return { ...options, ...later.pick(LATER_NARROW_WORLDS)(options, later) };
  if (kind >= LATER_NARROW + ERASURES) return options;
  return { ...options, ...later.pick(NARROW_ERASURES)(options, later) };
};
