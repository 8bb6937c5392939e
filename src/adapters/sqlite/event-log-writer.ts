import { Worker } from 'node:worker_threads';
import { type AppendHealth, LogUnavailable, OutcomeUnknown } from '../../ports/event-log.js';
import { within } from '../../async/deadline.js';
import { AppendHealthTracker } from '../append-health.js';
import {
  type AppendOrder,
  type BatchOutcome,
  type EraseOrder,
  type LogAnswers,
  type LogNotice,
  type LogWork,
  type OpenedLog,
  type Written,
} from './event-log-work.js';
import { WorkerCalls } from './worker-call.js';

type LogCalls = WorkerCalls<LogWork, LogAnswers, OpenedLog, LogNotice>;

/** The most appends of one transaction: enough to share its fsync, few enough to take milliseconds. */
const MAX_BATCH = 500;

export interface WriterLimits {
  /** The most appends that wait; one more is refused, since an unbounded queue hides a slow disk. */
  readonly maxQueued: number;
  /** How long an append, opening or closing may take, in milliseconds. */
  readonly deadlineMs: number;
}

interface Pending {
  readonly order: AppendOrder;
  readonly resolve: (outcome: Written | 'wrong revision') => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
  handedOver: boolean;
}

/**
 * Appends to the writer thread. One batch is in flight at a time; appends that arrive meanwhile form the next one: the
 * slower the disk, the more appends share an fsync.
 */
export class EventLogWriter {
  readonly #queue = new Set<Pending>();
  #inFlight: readonly Pending[] = [];
  #handOver: NodeJS.Immediate | undefined;
  /** Why no append is accepted any more. */
  #stopped: string | undefined;
  /** Called when nothing is waiting or in flight. */
  #idle: (() => void) | undefined;
  /** Whether a file of the log was taken away, so that reads may be old or wrong. */
  #filesTaken = false;
  #closing = false;
  readonly #health: AppendHealthTracker;

  private constructor(
    readonly identity: string,
    private readonly file: string,
    private readonly worker: Worker,
    private readonly calls: LogCalls,
    private readonly limits: WriterLimits,
    private readonly committed: (appends: number) => void,
    onHealth: (health: AppendHealth) => void,
  ) {
    this.#health = new AppendHealthTracker(onHealth);
  }

  /**
   * Starts the thread and opens the file. `committed` is called after each commit, `onHealth` as AppendHealthTracker
   * says.
   */
  static async open(
    file: string,
    limits: WriterLimits,
    committed: (appends: number) => void,
    onHealth: (health: AppendHealth) => void,
  ): Promise<EventLogWriter> {
    const worker = new Worker(new URL('./event-log.worker.js', import.meta.url), { workerData: { file } });
    let writer: EventLogWriter | undefined;
    let ended: string | undefined;
    const calls: LogCalls = new WorkerCalls(worker, {
      file,
      maxQueued: Infinity,
      deadlineMs: Infinity,
      unavailable: (message) => new LogUnavailable(message),
      explain: (thrown) => new LogUnavailable((thrown as Error).message),
      onNotice: (notice) => {
        if (writer) writer.#noticed(notice);
      },
      onEnd: (how) => {
        ended ??= how;
        if (writer) writer.#lose(`the writer of ${file} ${how}: start again`);
      },
    });
    const opening = calls.open();
    try {
      const { identity, failing } = await within(limits.deadlineMs, opening, () => {
        return new LogUnavailable(
          `${file} was not open after ${limits.deadlineMs} ms: check the disk, then start again`,
        );
      });
      writer = new EventLogWriter(identity, file, worker, calls, limits, committed, onHealth);
      if (failing !== undefined) writer.#health.failed(failing);
      return writer;
    } catch (error) {
      worker.unref(); // not terminated: a thread that is ended inside SQLite takes the process with it
      void opening.catch(() => undefined).then(() => calls.close());
      throw ended === undefined ? error : new LogUnavailable(`the writer of ${file} ${ended}`);
    }
  }

  /** Throws LogUnavailable or OutcomeUnknown, as the port says. */
  append(order: AppendOrder): Promise<Written | 'wrong revision'> {
    return new Promise((resolve, reject) => {
      this.assertReady();
      const timer = setTimeout(() => {
        this.#expire(pending);
      }, this.limits.deadlineMs);
      const pending: Pending = { order, resolve, reject, timer, handedOver: false };
      this.#queue.add(pending);
      this.#next();
    });
  }

  /** Erases events and records it. Without a deadline: it may take a second for each 100,000 events. */
  async erase(order: EraseOrder): Promise<Written | undefined> {
    this.assertReady();
    const outcome = await this.calls.call({ kind: 'erase', order });
    if (outcome.kind === 'committed') {
      if (outcome.outcomes) this.committed(1);
      return outcome.outcomes;
    }
    const { reason, written, stop } = outcome;
    if (stop) this.stop(`${reason}; nothing is written before a restart`);
    else this.#health.failed(reason);
    throw written === 'nothing' ? new LogUnavailable(reason) : new OutcomeUnknown(reason);
  }

  /** Removes what erased events have left in the files. Throws LogUnavailable where it has to be repeated. */
  async scrub(): Promise<void> {
    this.assertReady();
    const reason = await this.calls.call({ kind: 'scrub' });
    if (reason !== undefined) throw new LogUnavailable(reason);
  }

  /** Whether appends work, by the outcomes of the last ones. */
  get health(): AppendHealth {
    return this.#health.current;
  }

  /** Throws LogUnavailable where a file of the log was taken away, so that what is read may be old or wrong. */
  assertReadable(): void {
    if (this.#filesTaken) throw new LogUnavailable(this.#stopped);
  }

  /** Throws LogUnavailable if an append would be refused now. */
  assertReady(): void {
    if (this.#stopped !== undefined) throw new LogUnavailable(this.#stopped);
    if (this.#queue.size + this.#inFlight.length >= this.limits.maxQueued)
      throw new LogUnavailable(
        `${this.file} is overloaded: ${this.limits.maxQueued} appends are waiting already`,
      );
  }

  /** Refuses every append from now on. */
  stop(reason: string): void {
    if (this.#stopped === undefined) this.#stop(reason, false);
  }

  #stop(reason: string, restartHelps: boolean): void {
    this.#stopped = reason;
    if (!this.#closing) this.#health.stopped(reason, restartHelps);
    const waiting = [...this.#queue];
    this.#queue.clear();
    for (const pending of waiting) fail(pending, new LogUnavailable(reason));
    this.#next();
  }

  /**
   * Waits for what was handed over, then ends the thread. `beforeLast` closes the reader: the last connection to be
   * closed moves pages into the database. After a failure the reader is the last, as it cannot write: SQLite would
   * move pages, ignore the errors of that, and delete the write-ahead log that still has them.
   */
  async close(beforeLast: () => void): Promise<void> {
    this.#closing = true;
    await within(this.limits.deadlineMs, this.#end(beforeLast), () => {
      return new Error(`the writer of ${this.file} did not end within ${this.limits.deadlineMs} ms`);
    }).catch((error: unknown) => {
      this.#lose((error as Error).message);
      this.worker.unref(); // as in `open`
    });
  }

  async #end(beforeLast: () => void): Promise<void> {
    if (this.#queue.size + this.#inFlight.length > 0)
      await new Promise<void>((resolve) => (this.#idle = resolve));
    await this.calls.call({ kind: 'finish' }).catch(() => undefined); // its death is reported by onEnd
    if (this.#stopped === undefined) beforeLast();
    await this.calls.close();
  }

  #next(): void {
    if (this.#inFlight.length > 0) return;
    if (this.#queue.size === 0) this.#idle?.();
    // In the next turn of the event loop: all appends of this one share the transaction.
    else
      this.#handOver ??= setImmediate(() => {
        this.#handOver = undefined;
        this.#send();
      });
  }

  #send(): void {
    const batch: Pending[] = [];
    for (const pending of this.#queue) {
      if (batch.length === MAX_BATCH) break;
      this.#queue.delete(pending);
      pending.handedOver = true;
      batch.push(pending);
    }
    if (batch.length === 0) return;
    this.#inFlight = batch;
    this.calls.call({ kind: 'append', orders: batch.map(({ order }) => order) }).then(
      (outcome) => {
        this.#settle(batch, outcome);
      },
      // The thread has ended, which onEnd has reported before, or has thrown what `commit` does not expect: else the
      // batch would stay in flight, and no other one follow it.
      (error: unknown) => {
        this.#lose(`the writer of ${this.file} failed (${(error as Error).message}): start again`);
      },
    );
  }

  #settle(batch: readonly Pending[], outcome: BatchOutcome): void {
    this.#inFlight = [];
    if (outcome.kind === 'committed') {
      outcome.outcomes.forEach((result, i) => {
        const pending = batch[i];
        if (!pending) return;
        clearTimeout(pending.timer);
        pending.resolve(result);
      });
      this.#health.succeeded();
      this.committed(outcome.outcomes.length);
    } else {
      const { reason, written, stop } = outcome;
      const error = written === 'nothing' ? new LogUnavailable(reason) : new OutcomeUnknown(reason);
      for (const pending of batch) fail(pending, error);
      if (stop) this.stop(`${reason}; nothing is written before a restart`);
      else this.#health.failed(reason);
    }
    this.#next();
  }

  #noticed(notice: LogNotice): void {
    switch (notice.kind) {
      case 'stopped':
        this.#filesTaken = notice.files;
        this.#stop(`${notice.reason}; nothing is written before a restart`, notice.restartHelps);
        break;
      case 'failing':
        this.#health.failed(notice.reason);
        break;
      case 'writable':
        this.#health.succeeded();
    }
  }

  /** The thread has ended, or does not answer any more. */
  #lose(reason: string): void {
    const batch = this.#inFlight;
    this.#inFlight = [];
    for (const pending of batch) fail(pending, new OutcomeUnknown(reason));
    if (this.#stopped === undefined) this.#stop(reason, true);
    this.#next();
  }

  /** The deadline of an append has passed. One that was not handed over is withdrawn; a late answer changes nothing. */
  #expire(pending: Pending): void {
    const reason = `${this.file} had no answer within ${this.limits.deadlineMs} ms: check the disk and what locks the file`;
    this.#queue.delete(pending);
    this.#health.failed(reason);
    fail(pending, pending.handedOver ? new OutcomeUnknown(reason) : new LogUnavailable(reason));
    this.#next();
  }
}

const fail = (pending: Pending, error: Error): void => {
  clearTimeout(pending.timer);
  pending.reject(error);
};
