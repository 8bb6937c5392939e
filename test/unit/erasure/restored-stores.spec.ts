import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { openSqliteReadModel } from '../../../src/lists/sqlite/lists.js';
import { stateRootOf } from '../../../src/audit/signed-state.js';
import { PlantsState } from '../../../src/transparency/plants-state.js';
import { lastRun } from '../../../src/operations/last-runs.js';
import { verify as verifyByHand } from '../../../src/cli/commands/verify.js';
import { erasureAcross } from '../../../src/erasure/erasures.js';
import { ERASURES_STREAM } from '../../../src/domain/stream.js';
import { decorate } from '../../../src/log/decorate.js';
import { type EventLog, type RecordedEvent, START } from '../../../src/log/event-log.js';
import { type Generation } from '../../../src/lists/read-model.js';
import { Load } from '../../../src/projection/load.js';
import { Verifier } from '../../../src/projection/verifier.js';
import { type Verified, verify } from '../../../src/projection/verify.js';
import { requestRebuild } from '../../../src/commands/record-rebuilds.js';
import { readRebuilds } from '../../../src/commands/read-rebuilds.js';
import { ErasingStores, MARKER } from '../../support/erasing-stores.js';
import { quickTime } from '../../support/quick-time.js';
import { until } from '../../support/waiting.js';
import { Office } from '../cli/command-for-tests.js';

quickTime();

const MAY_BE_WHY = 'lists differ while an owner is being erased: they are compared again afterwards';

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

describe('a store that is restored from before an erasure', () => {
  let stores: ErasingStores;
  beforeEach(async () => {
    stores = await ErasingStores.open();
    for (let id = 1; id <= 5; id++) for (const owner of [MARKER, 'bob']) await stores.create(owner, id);
    await stores.listOf(MARKER);
    await stores.signed();
  });
  afterEach(() => stores.remove());

  /** Erases MARKER, and puts one file back to what it was before. */
  const eraseAndRestore = async (name: string): Promise<string> => {
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
    await eraseAndRestore('tree.db');
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

  it('makes lists again, which hold plants then that nothing in the log deletes', async () => {
    await eraseAndRestore('lists');
    const [before] = await stores.model.generations();
    await until(() => stores.foreign.length === 1);
    expect(stores.foreign).toEqual([expect.stringContaining('an owner who was erased since')]);
    await until(async () => {
      const [only, ...others] = await stores.model.generations();
      return only?.active === true && only.generation !== before?.generation && others.length === 0;
    });
    const [active] = await stores.model.generations();
    const { differing } = await verify(stores.log, stores.model, active?.generation ?? (0 as Generation));
    expect(differing).toBe(0);
    expect((await stores.model.list(MARKER, undefined, 100)).rows).toEqual([]);
  });

  it('is no difference to a comparison before the erasure is recorded: that tells why, and comes again', async () => {
    await eraseBeside('left');
    const { log, record } = notRecorded(stores.log);
    const problems: string[] = [];
    const compared = await comparedOnce('left', log, (problem) => {
      problems.push(problem);
      record();
    });
    expect(compared).toEqual([[5], [expect.objectContaining({ differing: 5 })]]); // as nobody makes these again
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
      expect(await lastRun(desk.dataDir, 'verify')).toBeUndefined();
      record();
      await verifyByHand(desk);
      expect(await lastRun(desk.dataDir, 'verify')).toMatchObject({ differing: 5 });
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
    await until(
      async () =>
        (await generations()).length === 2 && (await readRebuilds(stores.log)).promoted !== undefined,
    );
    const kept = (await stores.model.generations()).find(({ active }) => !active)?.generation;
    await eraseAndRestore('lists');
    // The active ones are built again then, so that they may be others by now.
    await until(async () => !(await generations()).includes(`${kept} false`));
  });

  it('does not say so of stores that have followed the erasure, or that are new', async () => {
    writeFileSync(stores.file('other.db'), '');
    await eraseAndRestore('other.db');
    expect(stores.foreign).toEqual([]);
    expect(await erasureAcross(stores.log, [START, (await stores.tree.tree()).position])).toBeUndefined();
  });
});
