import { Worker } from 'node:worker_threads';
import { type AppendHealth, LogUnavailable, OutcomeUnknown } from '../../ports/event-log.js';
import { AppendHealthTracker } from '../append-health.js';
import {
  type AppendOrder,
  type OpeningReport,
  type WriterReport,
  type WriterRequest,
  type Written,
} from './event-log.worker.js';

/** The most appends of one transaction: enough to amortise its fsync, few enough to be done in milliseconds. */
const MAX_BATCH = 500;

export interface WriterLimits {
  /** How many appends may be waiting. One more is refused: a queue without an end would hide that the disk is slow. */
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

/** A promise, and how to keep it. */
const deferred = (): { promise: Promise<void>; resolve: () => void } => {
  let resolve!: () => void;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
};

/**
 * The side of the writer thread that callers see. One batch is in flight at a time; what arrives meanwhile makes
 * up the next one, so that the slower the disk, the more appends share an fsync.
 */
export class EventLogWriter {
  readonly #queue = new Set<Pending>();
  #inFlight: readonly Pending[] = [];
  #handOver: NodeJS.Immediate | undefined;
  /** Why nothing is accepted any more. */
  #stopped: string | undefined;
  /** Resolves when nothing is waiting or in flight, if someone asked. */
  #idle: (() => void) | undefined;
  /** Since a file of the log was taken away: what is read may be old or wrong. */
  #filesTaken = false;
  #closing = false;
  readonly #health: AppendHealthTracker;
  readonly #finished = deferred();
  readonly #ended = deferred();
  #lost = false;

  private constructor(
    readonly identity: string,
    private readonly file: string,
    private readonly worker: Worker,
    private readonly limits: WriterLimits,
    private readonly committed: (appends: number) => void,
    onHealth: (health: AppendHealth) => void,
  ) {
    this.#health = new AppendHealthTracker(onHealth);
    worker.on('message', (report: WriterReport) => {
      this.#hear(report);
    });
    worker.on('error', (error) => {
      this.#lose(`the writer of ${file} crashed (${error.message}): start again`);
    });
    worker.on('exit', (code) => {
      this.#lose(`the writer of ${file} ended with code ${code}: start again`);
    });
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
    const report = await new Promise<OpeningReport>((resolve) => {
      const fail = (reason: string): void => {
        clearTimeout(timer);
        resolve({ kind: 'not open', reason });
      };
      const timer = setTimeout(() => {
        fail(`${file} was not open after ${limits.deadlineMs} ms: check the disk, then start again`);
      }, limits.deadlineMs);
      worker.once('message', (first: OpeningReport) => {
        clearTimeout(timer);
        resolve(first);
      });
      worker.once('error', (error) => {
        fail(`the writer of ${file} did not start: ${error.message}`);
      });
      worker.once('exit', (code) => {
        fail(`the writer of ${file} ended with code ${code}`);
      });
    });
    worker.removeAllListeners('error').removeAllListeners('exit'); // all of them would take the worker's own, too
    if (report.kind === 'open') {
      const writer = new EventLogWriter(report.identity, file, worker, limits, committed, onHealth);
      if (report.failing !== undefined) writer.#health.failed(report.failing);
      return writer;
    }
    worker.unref(); // not terminated: a thread that is ended inside SQLite takes the whole process with it
    throw new LogUnavailable(report.reason);
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
   * Lets what was handed over finish, then ends the thread. `beforeLast` lets go of the reader: whoever closes
   * the file last tidies up. After a failure the reader must be last, since it cannot write: SQLite would move
   * pages on closing, ignore the errors of that, and delete the write-ahead log that still has them.
   */
  async close(beforeLast: () => void): Promise<void> {
    this.#closing = true;
    const stuck = setTimeout(() => {
      this.#lose(`the writer of ${this.file} did not end within ${this.limits.deadlineMs} ms`);
      this.worker.unref(); // as in `open`
    }, this.limits.deadlineMs);
    if (this.#queue.size + this.#inFlight.length > 0)
      await new Promise<void>((resolve) => (this.#idle = resolve));
    if (!this.#lost) {
      this.#ask({ kind: 'finish' });
      await Promise.race([this.#finished.promise, this.#ended.promise]);
      if (this.#stopped === undefined) beforeLast();
      this.#ask({ kind: 'close' });
      await this.#ended.promise;
    }
    clearTimeout(stuck);
  }

  #ask(request: WriterRequest): void {
    this.worker.postMessage(request);
  }

  #next(): void {
    if (this.#inFlight.length > 0) return;
    if (this.#queue.size === 0) this.#idle?.();
    // Not at once: whatever else this turn of the event loop appends shares the transaction.
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
    this.#ask({ kind: 'append', orders: batch.map(({ order }) => order) });
  }

  #hear(report: WriterReport): void {
    switch (report.kind) {
      case 'committed': {
        const batch = this.#inFlight;
        this.#inFlight = [];
        report.outcomes.forEach((outcome, i) => {
          const pending = batch[i];
          if (!pending) return;
          clearTimeout(pending.timer);
          pending.resolve(outcome);
        });
        this.#health.succeeded();
        this.committed(report.outcomes.length);
        break;
      }
      case 'failed': {
        const batch = this.#inFlight;
        this.#inFlight = [];
        const error =
          report.written === 'nothing'
            ? new LogUnavailable(report.reason)
            : new OutcomeUnknown(report.reason);
        for (const pending of batch) fail(pending, error);
        if (report.stop) this.stop(`${report.reason}; nothing is written before a restart`);
        else this.#health.failed(report.reason);
        break;
      }
      case 'stopped':
        this.#filesTaken = report.files;
        this.#stop(`${report.reason}; nothing is written before a restart`, report.restartHelps);
        this.#finished.resolve();
        break;
      case 'failing':
        this.#health.failed(report.reason);
        break;
      case 'writable':
        this.#health.succeeded();
        break;
      case 'finished':
        this.#finished.resolve();
        break;
    }
    this.#next();
  }

  /** The thread is gone, or as good as that. */
  #lose(reason: string): void {
    this.#lost = true;
    const batch = this.#inFlight;
    this.#inFlight = [];
    for (const pending of batch) fail(pending, new OutcomeUnknown(reason));
    if (this.#stopped === undefined) this.#stop(reason, true);
    this.#next();
    this.#ended.resolve();
  }

  /** An append had no answer in time. What was not handed over is taken back; a late answer changes nothing. */
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
