import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Auditor } from '../../src/audit/auditor.js';
import { Eraser } from '../../src/erasure/eraser.js';
import { isInProgress, readErasures } from '../../src/erasure/erasures.js';
import { type EventLog, START } from '../../src/log/event-log.js';
import { activeOf } from '../../src/lists/generations.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { type TreeStore } from '../../src/audit/tree-store.js';
import { Projector } from '../../src/projection/projector.js';
import { all } from '../support/log-events.js';
import { until } from '../support/waiting.js';
import { ListsByFold, type Reference } from './reference.js';
import { type SignerKey } from '../../src/transparency/sign.js';

interface Stores {
  readonly log: EventLog;
  readonly model: ReadModelStore;
  readonly tree: TreeStore;
  readonly key: SignerKey;
}

const now = (): Date => new Date();

const projectorOf = ({ log, model }: Stores): Projector =>
  new Projector(log, model, now, randomUUID(), () => undefined);

/**
 * Lets a service go on with stores until the lists are the fold of the log; with `toTheEnd` also until each erasure is
 * over and all events are signed. Returns what does not come true.
 */
export const goOn = async (
  stores: Stores,
  { originalLists }: Reference,
  toTheEnd: boolean,
): Promise<string | undefined> => {
  const { log, tree, model, key } = stores;
  const over = new AbortController();
  const running = [projectorOf(stores).run(over.signal)];
  const problems: string[] = [];
  if (toTheEnd) {
    const recheckMs = 3_600_000;
    const yieldToLoop = (): Promise<unknown> => nextTurn();
    const auditor = new Auditor(log, tree, key, {
      ...{ now, yieldToLoop, patienceMs: 0, recheckMs },
      onState: ({ reason, alarm }) =>
        problems.push(...[reason, alarm?.message].filter((one) => one !== undefined)),
    });
    const eraser = new Eraser(log, model, tree, {
      ...{ now, onDone: () => undefined },
      onProblem: (reason) => problems.push(reason),
    });
    running.push(auditor.run(over.signal), eraser.run(over.signal));
  }
  try {
    if (toTheEnd) {
      await until(
        async () => !(await readErasures(log)).all.some(isInProgress),
        () => problems,
      );
      await until(
        async () => (await tree.latestCheckpoint())?.size === (await tree.tree()).size,
        () => problems,
      );
    }
    await until(async () => listsAreTheFold(log, model, originalLists.owners));
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    over.abort();
    await Promise.all(running);
  }
};

/** True if the lists that are answered from have reached the end of the log, and are its fold. */
const listsAreTheFold = async (
  log: EventLog,
  model: ReadModelStore,
  owners: readonly string[],
): Promise<boolean> => {
  const active = activeOf(await model.generations())?.generation;
  if (active === undefined) return false;
  const head = await log.head();
  if ((await model.anchors(active)).some(({ position }) => position < head)) return false;
  const lists = new ListsByFold(await all(log.readAll(START)));
  for (const owner of owners) {
    const { rows } = await model.page(active, owner, undefined, 10_000);
    if (JSON.stringify(rows) !== lists.textAt(owner, head)) return false;
  }
  return true;
};
