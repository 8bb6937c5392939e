import { monotonicMs, randomId } from '../runtime/runtime.js';
import { assertNoSkip, countOwned, orderErasure, UnknownOwner } from '../erasure/order.js';
import { knownPosition } from '../history/read.js';
import { START } from '../log/event-log.js';
import { BackupRefused, type CopiedLog } from '../log/backup.js';
import { type TreeStore } from '../audit/tree-store.js';
import { readRebuilds } from '../commands/read-rebuilds.js';
import { OperationRefused } from '../commands/rebuilds.js';
import {
  cancelRebuild,
  type Operator,
  requestRebuild,
  requestRollback,
} from '../commands/record-rebuilds.js';
import { readErasure } from './erasure-status.js';
import { recordRun } from './last-runs.js';
import { type LongOperation, longOperation, type OperationProgress } from './long-operation.js';
import { type Operations, type RebuildEstimate } from './operations.js';
import { readPastOperations } from './past-operations.js';
import { readUnread, type SkipRequest, skipUnread } from './skip-unread.js';
import { activeGeneration, readStatus, type System } from './status.js';
import { type Verification, type VerifyListsOptions } from './verification.js';

/** Events that are read to estimate the duration of a rebuild: a second at most. */
const SAMPLE = 20_000;

/** The duration of a rebuild, as a multiple of reading the log: it writes, and reads again to verify. Measured. */
const TIMES_READING = 4;

/** The duration under constant requests, for which it pauses, as a multiple of that without. Measured: 74 s and 13 s. */
const TIMES_UNDER_TRAFFIC = 6;

/** The parts of a process that operations are carried out on. */
export interface OperatedSystem extends System {
  /** The folder where the last runs are recorded. */
  readonly dataDir: string;
  /** Compares the lists, as `verifyLists` does. */
  readonly verify: (options: Omit<VerifyListsOptions, 'tree'>) => Promise<Verification>;
  /** Makes backups of the event log; undefined where it is on servers, which have their own. */
  readonly backUp:
    | ((
        file: string,
        report: (progress: OperationProgress) => void,
        signal: AbortSignal,
      ) => Promise<CopiedLog>)
    | undefined;
  /** The auditor's tree; undefined where this process has none. */
  readonly tree: TreeStore | undefined;
  /** Called where DATA_DIR cannot be written, so that metrics do not show a run. */
  readonly onUnrecorded: (error: unknown) => void;
}

/** Carries out operations in this process, on its own stores. */
export class LocalOperations implements Operations {
  constructor(
    private readonly system: OperatedSystem,
    private readonly operator: Operator,
  ) {}

  status() {
    return readStatus(this.system);
  }

  async past(limit: number, before?: string) {
    const { log } = this.system;
    const from = before === undefined ? undefined : await knownPosition(log, before, '?before');
    return readPastOperations(log, from, limit);
  }

  estimate(rate: number | null, signal: AbortSignal): LongOperation<RebuildEstimate> {
    return longOperation(signal, (report, ended) => this.#estimate(rate, report, ended));
  }

  async rebuild({ rate, unskip }: Readonly<{ rate: number | null; unskip: boolean }>): Promise<string> {
    const { log, now } = this.system;
    const rebuild = this.operator.commandId ?? randomId();
    await requestRebuild(log, { rebuild, rate, unskip }, this.operator, now);
    return rebuild;
  }

  cancel(rebuild?: string): Promise<string> {
    const { log, now } = this.system;
    return cancelRebuild(log, `by ${this.operator.actor.sub}`, this.operator, now, rebuild);
  }

  rollback(reason: string): Promise<string> {
    return requestRollback(this.system.log, reason, this.operator, this.system.now);
  }

  verify(signal: AbortSignal) {
    const { system } = this;
    return longOperation(signal, (onProgress, ended) =>
      system.verify({
        signal: ended,
        onProgress,
        onCompared: (differing) =>
          this.#recorded(recordRun(system.dataDir, 'verify', { at: system.now().toISOString(), differing })),
      }),
    );
  }

  unread(position: string) {
    return readUnread(this.system, position);
  }

  skip(wanted: SkipRequest) {
    return skipUnread(this.system, wanted, this.operator);
  }

  async countOwned(owner: string): Promise<number> {
    const { log } = this.system;
    const cannot = await log.whyNotErase();
    if (cannot !== undefined) throw new OperationRefused(cannot);
    await assertNoSkip(log, owner);
    const events = await countOwned(log, owner);
    if (events === 0) throw new UnknownOwner('the log holds no event of that owner: nothing is to be erased');
    return events;
  }

  erase({ owner, reason }: Readonly<{ owner: string; reason: string }>): Promise<string> {
    const { log, now } = this.system;
    const erasure = this.operator.commandId ?? randomId();
    return orderErasure(log, { erasure, owner, reason }, this.operator, now);
  }

  erasure(id: string) {
    return readErasure(this.system, id);
  }

  async lift(reason: string) {
    if (!this.system.tree)
      throw new OperationRefused(
        'there is no tree of an auditor here: ask a process that has the role auditor, or use its DATA_DIR',
      );
    return this.system.tree.lift(this.operator.actor.sub, reason);
  }

  backup(file: string, signal: AbortSignal): LongOperation<CopiedLog> {
    const { backUp, dataDir, now } = this.system;
    if (!backUp)
      throw new BackupRefused(
        'EVENT_LOG is not a file but EventStoreDB: back it up and restore it as docs/runbook.md, section 4, says',
      );
    const at = now().toISOString(); // what is written after this may be missing in it
    return longOperation(signal, async (report, ended) => {
      const made = await backUp(file, report, ended);
      await this.#recorded(recordRun(dataDir, 'backup', { at, head: made.head, events: made.events }));
      return made;
    });
  }

  async #estimate(
    rate: number | null,
    report: (progress: OperationProgress) => void,
    signal: AbortSignal,
  ): Promise<RebuildEstimate> {
    const { log } = this.system;
    const { building } = await readRebuilds(log);
    const head = await log.head();
    const counted = log.count(START, head);
    const began = monotonicMs();
    const sample = { events: 0, ms: 0 };
    let total = 0;
    for await (const { position } of log.readAll(START)) {
      signal.throwIfAborted();
      total += 1;
      if (total <= SAMPLE) Object.assign(sample, { events: total, ms: monotonicMs() - began });
      else if (counted !== undefined || position > head) break; // else counting is reading
      report({ phase: 'counting', unit: 'events', done: total, total: counted ?? null });
    }
    total = counted ?? total;
    const quickest = (total * sample.ms * TIMES_READING) / Math.max(1, sample.events) / 1_000;
    const atRate = rate === null ? 0 : total / rate;
    return {
      events: total,
      sampled: sample.events,
      estimatedSeconds: tenths(Math.max(quickest, atRate)),
      estimatedSecondsUnderTraffic: tenths(Math.max(quickest * TIMES_UNDER_TRAFFIC, atRate)),
      active: (await activeGeneration(this.system)) ?? null,
      underWay: building?.rebuild ?? null,
    };
  }

  /** Waits for the record of a run, which has succeeded whether it is recorded or not. */
  async #recorded(record: Promise<void>): Promise<void> {
    try {
      await record;
    } catch (error) {
      this.system.onUnrecorded(error);
    }
  }
}

const tenths = (seconds: number): number => Number(seconds.toFixed(1));
