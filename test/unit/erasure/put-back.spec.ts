import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { cpSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openSqliteReadModel } from '../../../src/adapters/sqlite/lists.js';
import { stateRootOf } from '../../../src/audit/state-tree/growing-state.js';
import { PlantsState } from '../../../src/audit/state-tree/state.js';
import { lastVerify } from '../../../src/operations/last-runs.js';
import { verify as verifyByHand } from '../../../src/cli/commands/verify.js';
import { erasureAcross } from '../../../src/erasure/erasures.js';
import { erasedStream, ERASURES_STREAM, SKIPS_STREAM } from '../../../src/plants/stream.js';
import { decorate } from '../../../src/ports/decorate.js';
import { type EventLog, type RecordedEvent, START } from '../../../src/ports/event-log.js';
import { type Generation, ReadModelUnavailable } from '../../../src/ports/read-model.js';
import { Load } from '../../../src/projector/load.js';
import { Projector } from '../../../src/projector/projector.js';
import { Verifier } from '../../../src/projector/verifier.js';
import { type Verified, verify } from '../../../src/projector/verify.js';
import { cancelRebuild, requestRebuild, requestRollback } from '../../../src/write/rebuilds.js';
import { readRebuilds } from '../../../src/rebuilds/read.js';
import { Faults } from '../../support/domain-faults.js';
import { ErasingStores, MARKER, now, operator } from '../../support/erasing-stores.js';
import { all } from '../../support/log-events.js';
import { quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';
import { Office } from '../cli/command-for-tests.js';

quickTime();

const MAY_BE_WHY = 'an owner is being erased, and lists differ: that may be why';

/** As where streams are erased one after the other, which is recorded last: a log in which an erasure is not, until `record`. */
const notRecorded = (log: EventLog): { log: EventLog; record: () => void } => {
  let isRecorded = false;
  const erasures = async (): Promise<RecordedEvent[]> => {
    const events = await log.readStream(ERASURES_STREAM);
    return isRecorded ? events : events.slice(0, 1);
  };
  const decorated = decorate(log, {
    readStream: (stream, ...of) => (stream === ERASURES_STREAM ? erasures() : log.readStream(stream, ...of)),
    readLast: async (stream) =>
      stream === ERASURES_STREAM ? (await erasures()).at(-1) : log.readLast(stream),
  });
  return { log: decorated, record: () => (isRecorded = true) };
};

describe('a store that is put back from before an erasure', () => {
  let stores: ErasingStores;
  beforeEach(async () => {
    stores = await ErasingStores.open();
    for (let id = 1; id <= 5; id++) for (const owner of [MARKER, 'bob']) await stores.create(owner, id);
    await stores.listOf(MARKER);
    await stores.signed();
  });
  afterEach(async () => {
    await stores.remove();
  });

  /** Erases MARKER, and puts one file back to what it was before. */
  const eraseAndPutBack = async (name: string): Promise<string> => {
    const old = `old-${name}`;
    await stores.copyFile(name, old);
    for (const id of [6, 7]) for (const owner of [MARKER, 'bob']) await stores.create(owner, id);
    stores.startEraser();
    const erasure = await stores.order(MARKER);
    await stores.finished(erasure);
    await stores.create('bob', 8);
    await stores.signed();
    await stores.close();
    stores.putCopyBack(old, name);
    await stores.open();
    return erasure;
  };

  /** Erases MARKER, after the lists were copied. */
  const eraseBeside = async (copy: string): Promise<void> => {
    await stores.copyFile('lists', copy);
    stores.startEraser();
    await stores.finished(await stores.order(MARKER));
  };

  /** Compares the lists in this file with the log, once: how many plants differ, and what is told of that. */
  const comparedOnce = async (
    name: string,
    log: EventLog = stores.log,
    onProblem = (reason: string): void => {
      throw new Error(reason);
    },
  ): Promise<[number[], Verified[]]> => {
    const left = await openSqliteReadModel(stores.file(name), stores.log.identity());
    const [compared, differences]: [number[], Verified[]] = [[], []];
    const stopping = new AbortController();
    const verifier = new Verifier(log, left, {
      ...{ now: () => new Date(), everyMs: 60_000, load: new Load(), lookEveryMs: 1 },
      last: () => Promise.resolve(undefined),
      onCompared: (differing) => Promise.resolve(void compared.push(differing)),
      onDifference: (found) => Promise.resolve(void differences.push(found)),
      onProblem,
    });
    const running = verifier.run(stopping.signal, () => true);
    await until(() => compared.length > 0);
    stopping.abort();
    await running;
    await left.close();
    return [compared, differences];
  };

  it('makes the state of the tree again, and signs the roots of the log as it is', async () => {
    await eraseAndPutBack('tree.db');
    await stores.create('bob', 9);
    await stores.signed();

    const folded = new PlantsState();
    for await (const event of stores.log.readAll(START)) folded.add(event);
    const signed = await stores.tree.latestCheckpoint();
    expect(signed && stateRootOf(signed)).toEqual(folded.root());
    expect((await stores.tree.state()).root).toEqual(folded.root());
    expect(await stores.tree.alarm()).toBeUndefined();
    expect(await stores.recheck()).toBeUndefined();
  });

  it('rebuilds lists, which hold plants then that nothing in the log deletes, however often that is cancelled', async () => {
    const erasure = await eraseAndPutBack('lists');
    const operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };
    const reason = 'not now';
    await until(() => stores.putBack.length === 1);
    await cancelRebuild(stores.log, reason, operator, () => new Date());
    await until(() => stores.putBack.length === 2);
    await until(async () => (await readRebuilds(stores.log)).promoted !== undefined);
    expect(stores.putBack).toEqual([erasure, erasure]);
    const roll = requestRollback(stores.log, reason, operator, () => new Date());
    await expect(roll).rejects.toThrow('there is nothing to go back to');
    await until(async () => (await stores.model.generations()).length === 1);
    const [active] = await stores.model.generations();
    const { differing } = await verify(stores.log, stores.model, active?.generation ?? (0 as Generation));
    expect([differing, active?.active]).toEqual([0, true]);
  });

  it('rebuilds them again where the store has lost that, too, after the rebuild was closed', async () => {
    stores.graceMs = 0;
    const [file, before] = [stores.file('lists'), stores.file('before-the-switch')];
    const erasure = await eraseAndPutBack('lists');
    const [first] = await stores.model.generations();
    const generation = first?.generation ?? (0 as Generation);
    const head = await stores.log.head();
    await until(async () => (await stores.model.positions(generation)).every((position) => position >= head));
    await until(() => stores.putBack.length === 1);
    await stores.close(); // now its positions do not show any more what it holds
    cpSync(file, before, { recursive: true });
    await stores.open();
    await until(async () => {
      const { damaged, promoted } = await readRebuilds(stores.log);
      return damaged?.generation === generation && promoted === undefined;
    });
    cpSync(before, stores.file('left'), { recursive: true });
    expect(await comparedOnce('left')).toEqual([[5], []]); // no difference that anybody has to be told
    await stores.close();
    stores.putCopyBack('before-the-switch', 'lists');
    await stores.open();
    const isReplaced = async (): Promise<boolean> => {
      const generations = await stores.model.generations();
      return generations.length === 1 && generations[0]?.generation !== generation;
    };
    await until(isReplaced);
    expect(stores.putBack).toEqual([erasure, erasure]);
    const [active] = await stores.model.generations();
    expect(await verify(stores.log, stores.model, active?.generation ?? generation)).toMatchObject({
      differing: 0,
    });
  });

  it('is no difference to a comparison that comes before the projection has noticed it', async () => {
    await eraseBeside('left');
    expect(await comparedOnce('left')).toEqual([[5], []]);
  });

  it('is no difference to a comparison before the erasure is recorded, either: that tells why, and comes again', async () => {
    await eraseBeside('left');
    const { log, record } = notRecorded(stores.log);
    const problems: string[] = [];
    const compared = await comparedOnce('left', log, (problem) => {
      problems.push(problem);
      record();
    });
    expect(compared).toEqual([[5], []]);
    expect(problems).toEqual([MAY_BE_WHY]);
  });

  it('is told by plants verify as what an erasure may have caused, and not recorded as a difference', async () => {
    await eraseBeside('left');
    const model = await openSqliteReadModel(stores.file('left'), stores.log.identity());
    const { log, record } = notRecorded(stores.log);
    const office = await Office.open();
    try {
      const desk = office.desk({ log, model });
      expect(await verifyByHand(desk)).toBe(false);
      expect(office.out).toMatch(
        /^5 differences: .*\nAn owner is being erased, and that may be why: verify again/m,
      );
      expect(await verifyByHand({ ...desk, json: true })).toBe(false);
      expect(office.json).toMatchObject({ differing: 5, erasing: true });
      expect(await lastVerify(desk.dataDir)).toBeUndefined();
      record();
      await verifyByHand(desk);
      expect(await lastVerify(desk.dataDir)).toMatchObject({ differing: 5 });
    } finally {
      await office.close();
      await model.close();
    }
  });

  it('drops lists that are kept for a rollback, which would bring such plants back', async () => {
    const rebuild = { rebuild: randomUUID(), rate: null, unskip: false };
    const operator = { actor: { sub: 'olga' }, correlationId: 'shift 7' };
    await requestRebuild(stores.log, rebuild, operator, () => new Date());
    const generations = async (): Promise<string[]> =>
      (await stores.model.generations()).map(({ generation, active }) => `${generation} ${active}`);
    await until(async () => (await generations()).join() === '1 false,2 true');
    await eraseAndPutBack('lists');
    // The active ones are built again then, so that they may be others by now.
    await until(async () => !(await generations()).includes('1 false'));
  });

  // That they are synced by then is what test/simulation/crash-states.spec.ts shows.
  it('cannot happen to lists by a power cut: their files lack the owner before anything is erased', async () => {
    stores.startEraser((step) => {
      if (step !== 'lists and tree follow') return;
      cpSync(stores.file('lists'), stores.file('left'), { recursive: true });
      for (const shm of readdirSync(stores.file('left')).filter((name) => name.endsWith('-shm')))
        rmSync(join(stores.file('left'), shm)); // which no power cut leaves as it was
    });
    await stores.finished(await stores.order(MARKER));
    const left = await openSqliteReadModel(stores.file('left'), stores.log.identity());
    expect((await left.list(MARKER, undefined, 1_000)).rows).toEqual([]);
    expect((await left.list('bob', undefined, 1_000)).rows).toHaveLength(5);
    await left.close();
  });

  it('does not say so of lists that were begun after it, however far they are', async () => {
    const erasure = await eraseAndPutBack('tree.db');
    const [, between] = await all(stores.log.readStreamsFrom([erasedStream(erasure)]));
    const positions = [between?.position ?? START];
    expect(await erasureAcross(stores.log, positions)).toBe(erasure);
    expect(await erasureAcross(stores.log, positions, await stores.log.head())).toBeUndefined();
  });

  it('does not say so of stores that have followed the erasure, or that are new', async () => {
    writeFileSync(stores.file('other.db'), '');
    await eraseAndPutBack('other.db');
    expect(stores.putBack).toEqual([]);
    expect(await erasureAcross(stores.log, [START, (await stores.tree.tree()).position])).toBeUndefined();
  });
});

it.each([
  ['', true],
  [', which is recorded later', false],
])(
  'a rebuild begins again where its generation was put back while it was verified to before an erasure%s',
  async (_, isRecorded) => {
    const stores = await ErasingStores.open(undefined, { projects: false });
    stores.startEraser();
    for (let id = 1; id <= 5; id++) await stores.create(MARKER, id);
    const other = await openSqliteReadModel(stores.file('other-lists'), stores.log.identity());
    const faults = new Faults(other);
    let erased: Promise<void> | undefined;
    const eraseOnce = (): void => {
      // The generation that was built stays where it is, as one that has lost what came after.
      faults.every('apply', async (proceed, generation, changes) => {
        if (generation !== 2) return proceed(generation, changes);
        await erased;
        throw new ReadModelUnavailable('it is away');
      });
      erased ??= stores.order(MARKER).then((erasure) => stores.finished(erasure));
    };
    const seen = notRecorded(stores.log);
    if (isRecorded) seen.record();
    const log = decorate(seen.log, {
      readStream: async (stream, ...of) => {
        if (stream === SKIPS_STREAM) await erased; // right before the comparison
        return seen.log.readStream(stream, ...of);
      },
    });
    const [done, problems]: [string[], string[]] = [[], []];
    const projector = new Projector(log, faults.port, now, randomUUID(), () => undefined, {
      onStep: (step) => {
        if (step === 'caught up') eraseOnce();
      },
      onDone: (message) => done.push(message),
      onProblem: (problem) => {
        problems.push(problem);
        if (problem === MAY_BE_WHY) seen.record();
      },
    });
    const over = new AbortController();
    const running = projector.run(over.signal);
    await until(() => projector.status.state === 'live');
    const asked = { rebuild: randomUUID(), rate: null, unskip: false };
    await requestRebuild(stores.log, asked, operator, now);
    await until(async () => (await readRebuilds(stores.log)).building === undefined && done.length > 1);
    expect(done.join()).not.toContain('differ');
    const { promoted } = await readRebuilds(stores.log);
    expect([promoted?.rebuild, promoted?.generation]).toEqual([asked.rebuild, 3]);
    expect(problems.filter((problem) => problem === MAY_BE_WHY)).toHaveLength(isRecorded ? 0 : 1);
    over.abort();
    await running;
    await other.close();
    await stores.remove();
  },
);
