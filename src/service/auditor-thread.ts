import { Worker } from 'node:worker_threads';
import { type Logger } from 'pino';
import { backoffMs, withJitter } from '../runtime/backoff.js';
import { type Bell } from '../runtime/bell.js';
import { pause } from '../runtime/pause.js';
import { monotonicMs, startIdleTimer } from '../runtime/runtime.js';
import { AuditorOfProcess, type AuditorStatus, startingStatus } from '../audit/auditor-status.js';
import { type WitnessStatus } from '../audit/witnessing.js';
import { type EventLog, type ExpectedRevision, type NewEvent } from '../log/event-log.js';
import { type Alarm, TreeUnavailable } from '../audit/tree-store.js';
import { logAuditor, logWitness } from './state-lines.js';
import { type Answer, answerTo, type Failure, ThreadCalls } from './thread-calls.js';
import { type SignerKey } from '../transparency/sign.js';

/** Given to the thread at its start, beside the settings in its environment. */
export interface AuditorData {
  /** The end of an embedded log, as `sharedHeadOf` gives it. */
  readonly shared: SharedArrayBuffer | undefined;
  readonly key: SignerKey;
  readonly previousKey: SignerKey | undefined;
  /** As in AuditorStatus. */
  readonly notice: string | undefined;
}

/** Writes to the tree store for others of this process. */
export type TreeWork =
  | { readonly kind: 'raise'; readonly alarm: Alarm }
  | { readonly kind: 'lift'; readonly by: string; readonly reason: string }
  | { readonly kind: 'scrub'; readonly erasures: number };

export type ToAuditor =
  | { readonly kind: 'stop' }
  | { readonly kind: 'recheck' }
  | { readonly kind: 'write'; readonly call: number; readonly work: TreeWork }
  | { readonly kind: 'appended'; readonly call: number; readonly answer: Answer };

export type FromAuditor =
  /** `isNew`: in another state than before. */
  | { readonly kind: 'status'; readonly status: AuditorStatus; readonly isNew: boolean }
  | { readonly kind: 'witness'; readonly status: WitnessStatus }
  | { readonly kind: 'warning'; readonly message: string }
  | { readonly kind: 'written'; readonly call: number; readonly answer: Answer }
  | {
      readonly kind: 'append';
      readonly call: number;
      readonly stream: string;
      readonly expected: ExpectedRevision;
      readonly events: readonly NewEvent[];
    };

/** The pauses before a thread that has ended is started again, in milliseconds. */
const RESTARTS = { firstMs: 500, longestMs: 30_000 };

/** Limit for the end of the thread at a stop. */
const STOP_MS = 10_000;

/** Limit for a write: the thread may be writing the file again for an erasure. */
const WRITE_MS = 10_000;

/** The longest time of a timer, in milliseconds: writing the file again takes as long as it takes. */
const SCRUB_MS = 2 ** 31 - 1;

/** Most of what the thread makes is garbage at once: with V8's default a state of a million plants took 15 MB more. */
const YOUNG_MB = 8;

const GONE: Failure = { name: 'TreeUnavailable', message: 'the thread of the auditor has ended' };
const LATE: Failure = {
  name: 'TreeUnavailable',
  message: `the auditor does not answer within ${WRITE_MS / 1_000} s`,
};

/**
 * The auditor of this process, in a thread with connections of its own: its work and its fsyncs hold up nobody here. A
 * thread that ends is started again.
 */
export class AuditorThread extends AuditorOfProcess {
  #status: AuditorStatus;
  #worker: Worker | undefined;
  readonly #calls = new ThreadCalls();

  constructor(
    private readonly data: AuditorData,
    private readonly environment: Readonly<Record<string, string>>,
    /** Takes what the thread appends. */
    private readonly log: Pick<EventLog, 'append'>,
    private readonly now: () => Date,
    private readonly logger: Logger,
    /** Rings at each new state. */
    private readonly news: Pick<Bell, 'ring'>,
  ) {
    super();
    this.#status = startingStatus(now(), data.notice);
  }

  get status(): AuditorStatus {
    return this.#status;
  }

  /** As Auditor has it. */
  recheckSoon(): void {
    this.#post({ kind: 'recheck' });
  }

  /** Throws TreeUnavailable. */
  async write(work: TreeWork): Promise<unknown> {
    if (!this.#worker) throw new TreeUnavailable(GONE.message);
    const deadlineMs = work.kind === 'scrub' ? SCRUB_MS : WRITE_MS;
    const answer = await this.#calls.ask(
      (call) => {
        this.#post({ kind: 'write', call, work });
      },
      { late: LATE, deadlineMs },
    );
    if ('value' in answer) return answer.value;
    throw new TreeUnavailable(answer.message);
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures += 1) {
      const since = monotonicMs();
      const reason = await this.#runOnce(signal);
      if (reason === undefined) return;
      if (monotonicMs() - since > RESTARTS.longestMs) failures = 0;
      this.#ended(reason);
      await pause(withJitter(backoffMs(failures, RESTARTS)), signal);
    }
  }

  /** Resolves with why the thread has ended; undefined where `signal` has aborted. */
  async #runOnce(signal: AbortSignal): Promise<string | undefined> {
    const worker = new Worker(new URL('./auditor.worker.js', import.meta.url), {
      workerData: this.data,
      env: this.environment,
      name: 'auditor',
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.#worker = worker;
    let reason = GONE.message;
    worker.on('message', (message: FromAuditor) => {
      this.#told(message);
    });
    worker.on('error', (error) => {
      reason = error.message;
    });
    await new Promise<void>((resolve) => {
      worker.once('exit', resolve);
      const stop = (): void => {
        this.#post({ kind: 'stop' });
        startIdleTimer(() => {
          // Not terminated: a thread that is ended inside SQLite takes the process with it.
          worker.unref();
          resolve();
        }, STOP_MS);
      };
      signal.addEventListener('abort', stop, { once: true });
      worker.once('exit', () => {
        signal.removeEventListener('abort', stop);
      });
    });
    this.#worker = undefined;
    this.#calls.endAll(GONE);
    return signal.aborted ? undefined : reason;
  }

  #ended(reason: string): void {
    const last = this.#status;
    const isNew = last.state !== 'disconnected' || last.reason !== reason;
    const about = { since: this.now(), reason, alarm: undefined, rechecking: undefined };
    this.#status = { ...last, state: 'disconnected', ...about };
    if (isNew) this.#tellState();
  }

  #told(message: FromAuditor): void {
    switch (message.kind) {
      case 'status':
        this.#status = message.status;
        if (message.isNew) this.#tellState();
        return;
      case 'witness':
        logWitness(this.logger, message.status);
        return;
      case 'warning':
        this.logger.warn(message.message);
        return;
      case 'written':
        this.#calls.answered(message.call, message.answer);
        return;
      case 'append':
        void this.#append(message);
    }
  }

  #tellState(): void {
    logAuditor(this.logger, this.#status);
    this.news.ring();
  }

  async #append({ call, stream, expected, events }: FromAuditor & { kind: 'append' }): Promise<void> {
    const answer = await answerTo(() => this.log.append(stream, expected, events));
    this.#post({ kind: 'appended', call, answer });
  }

  #post(message: ToAuditor): void {
    this.#worker?.postMessage(message);
  }
}
