import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { Auditor } from '../../../src/audit/auditor.js';
import { type AuditorStatus } from '../../../src/audit/auditor-status.js';
import { type AppendHealth } from '../../../src/log/event-log.js';
import { openModel } from './model.js';

/** An alarm, a warning, an auditor or a log that cannot be used, or a refused start. */
export type FoundBy = 'alarm' | 'warning' | 'out of use' | 'start refused';

export interface Finding {
  readonly by: FoundBy;
  readonly message: string;
  /** Of the first event that is not as it was. */
  readonly index?: number | undefined;
  readonly position?: string | undefined;
  /** Readings of the whole log that had ended by then since the alteration, or since the start. */
  readonly readings: number;
}

/** Runs on a DATA_DIR, and may find that it was altered. */
export interface Watcher {
  /** Resolves once the log was read again and nothing is to be signed any more; gives what is wrong, if it is. */
  ready(): Promise<Finding | undefined>;
  /** Looks until something is found, or the log was read again so often. */
  find(readings: number): Promise<Finding | undefined>;
  stop(): Promise<void>;
}

/** A fault that is over by then, in milliseconds since it was first seen, is none: two writers of one file, for instance. */
const LASTING_MS = 1_000;

/** The log is read again within that, in milliseconds, also on a busy machine. */
export const DEADLINE_MS = 120_000;

/** An auditor in this process, on the files of a folder. */
export class AuditorWatcher implements Watcher {
  #readings = 0;
  #last: string | undefined;
  #faultSince: number | undefined;

  private constructor(
    private readonly auditor: Auditor,
    private readonly health: () => AppendHealth,
    private readonly end: () => Promise<void>,
  ) {}

  /** Gives a finding where the start is refused. */
  static async start(folder: string, recheckMs: number): Promise<AuditorWatcher | Finding> {
    try {
      const model = await openModel(folder);
      const { log, store, key } = model;
      const auditor = new Auditor(log, store, key, {
        now: () => new Date(),
        yieldToLoop: () => nextTurn(),
        patienceMs: 0,
        recheckMs,
        recording: { afterMs: 3_600_000, everyMs: 24 * 3_600_000, previousKey: undefined },
        onState: () => undefined,
      });
      const stopping = new AbortController();
      const running = auditor.run(stopping.signal);
      const end = async (): Promise<void> => {
        stopping.abort();
        await running;
        await model.close();
      };
      return new AuditorWatcher(auditor, () => log.health(), end);
    } catch (error) {
      return { by: 'start refused', message: (error as Error).message, readings: 0 };
    }
  }

  async ready(): Promise<Finding | undefined> {
    return this.find(1);
  }

  async find(readings: number): Promise<Finding | undefined> {
    this.#readings = 0;
    // A reading that has ended since the last call may have read the log before it was altered.
    if (this.#last !== undefined) this.#last = this.auditor.status.recheckedAt;
    for (const deadline = performance.now() + DEADLINE_MS; performance.now() < deadline;) {
      const { status } = this.auditor;
      const finding = this.#findingOf(status, readings);
      if (finding) return finding;
      const { state, checkpoint, size, signing } = status;
      const isDone = state === 'live' && checkpoint?.size === size && signing !== undefined;
      if (isDone && this.#readings >= readings) return undefined;
      await delay(2);
    }
    throw new Error(
      `nothing is found, and the log is not read again: ${JSON.stringify(this.auditor.status)}`,
    );
  }

  stop(): Promise<void> {
    return this.end();
  }

  #findingOf(
    { alarm, recheckedAt, signing, times, reason }: AuditorStatus,
    wanted: number,
  ): Finding | undefined {
    if (recheckedAt !== this.#last) {
      this.#last = recheckedAt;
      this.#readings += 1;
    }
    const readings = this.#readings;
    if (alarm) {
      const { message, index, position } = alarm;
      return { by: 'alarm', message, index, position, readings };
    }
    const health = this.health();
    const fault = health.state === 'ok' ? reason : health.reason;
    if (fault !== undefined) {
      this.#faultSince ??= performance.now();
      if (performance.now() - this.#faultSince >= LASTING_MS)
        return { by: 'out of use', message: fault, readings };
    }
    if (readings < wanted) return undefined; // an alarm may follow
    const warning = signing?.warnings[0] ?? times?.message;
    return warning === undefined ? undefined : { by: 'warning', message: warning, readings };
  }
}
