import { type Worker } from 'node:worker_threads';
import { BUSY_TIMEOUT_MS } from './database.js';

/** A call that is not answered after this time has failed, in milliseconds: twice what a statement waits for a lock. */
export const CALL_DEADLINE_MS = 2 * BUSY_TIMEOUT_MS;

/** `deadline` is in nanoseconds of the monotonic clock, which all threads share; undefined for none. */
export interface Order<Work> {
  readonly call: number;
  readonly deadline: bigint | undefined;
  readonly work: Work | 'open' | 'close';
}

/** An error as plain data: between threads, and from native code, it loses its class. */
interface Failure {
  readonly name: string;
  readonly message: string;
  readonly errcode: number | undefined;
}

/** What a thread posts: the answer to a call, or a notice that answers none. */
export type Reply<Notice> =
  | { readonly call: number; readonly answer: unknown }
  | { readonly call: number; readonly failure: Failure }
  | { readonly notice: Notice };

export const failureOf = (thrown: unknown): Failure => {
  const { name = '', message = String(thrown), errcode } = Object(thrown) as Partial<Failure>;
  return { name, message, errcode };
};

/** The port's error of the same name, else what `other` makes of it. */
export const portErrorOf = (
  thrown: unknown,
  portErrors: readonly (new (message: string) => Error)[],
  other: (error: Error) => Error,
): Error => {
  if (thrown instanceof Error && portErrors.some((known) => thrown instanceof known)) return thrown;
  const { name, message, errcode } = failureOf(thrown);
  const PortError = portErrors.find((known) => known.name === name);
  return PortError ? new PortError(message) : other(Object.assign(new Error(message), { errcode }));
};

interface Call {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout | undefined;
}

/** The store that a thread writes, as its callers see it. */
export interface CalledStore<Notice> {
  readonly file: string;
  /** The most calls without an answer; one more is refused. */
  readonly maxQueued: number;
  readonly unavailable: (message: string, options?: ErrorOptions) => Error;
  /** The port's error for what the thread threw. */
  readonly explain: (thrown: unknown) => Error;
  /** How long a call may take, in milliseconds; Infinity where the callers have deadlines of their own. */
  readonly deadlineMs: number;
  readonly onNotice: (notice: Notice) => void;
  /** Called once or more when the thread has ended; `how` is a clause. */
  readonly onEnd?: (how: string) => void;
}

/**
 * Calls of a thread that writes a file, whose fsyncs do not hold up the event loop. `Opened` is the answer to opening,
 * `Answers` are those by the kind of work.
 */
export class WorkerCalls<Work extends { readonly kind: keyof Answers }, Answers, Opened, Notice> {
  /** Calls without an answer, also those past their deadline. */
  readonly #calls = new Map<number, Call>();
  readonly #exited: Promise<void>;
  #lastCall = 0;
  #death: Error | undefined;

  constructor(
    private readonly worker: Worker,
    private readonly store: CalledStore<Notice>,
  ) {
    worker.on('message', (reply: Reply<Notice>) => {
      this.#settle(reply);
    });
    worker.on('error', (error) => {
      this.#die(error, `crashed (${error.message})`);
    });
    this.#exited = new Promise((resolve) => {
      worker.once('exit', (code) => {
        this.#die(new Error(`exit code ${code}`), `ended with code ${code}`);
        resolve();
      });
    });
  }

  get isAlive(): boolean {
    return !this.#death;
  }

  /** Whether every call was answered. */
  get isIdle(): boolean {
    return this.#calls.size === 0;
  }

  /** Opens the file. */
  open(): Promise<Opened> {
    return this.#post('open') as Promise<Opened>;
  }

  /** `deadlineMs`: where this call may take longer than others. */
  async call<W extends Work>(work: W, deadlineMs?: number): Promise<Answers[W['kind']]> {
    const { file, maxQueued, unavailable } = this.store;
    if (this.#calls.size >= maxQueued)
      throw unavailable(`${file}: ${maxQueued} writes are waiting for the disk already`);
    return this.#post(work, deadlineMs) as Promise<Answers[W['kind']]>;
  }

  /** Ends the thread after the calls before it, within the deadline. */
  async close(): Promise<void> {
    try {
      await this.#post('close');
    } catch {
      // Not terminated: a thread that is ended inside SQLite takes the process with it.
      if (!this.#death) {
        this.worker.unref();
        return;
      }
    }
    await this.#exited;
  }

  #post(work: Order<Work>['work'], deadlineMs = this.store.deadlineMs): Promise<unknown> {
    if (this.#death) return Promise.reject(this.#death);
    return new Promise((resolve, reject) => {
      const call = ++this.#lastCall;
      const { file, unavailable } = this.store;
      let timer: NodeJS.Timeout | undefined;
      let deadline: bigint | undefined;
      if (deadlineMs !== Infinity) {
        timer = setTimeout(() => {
          reject(unavailable(`${file}: no answer within ${deadlineMs} ms`));
        }, deadlineMs);
        deadline = process.hrtime.bigint() + BigInt(deadlineMs) * 1_000_000n;
      }
      this.#calls.set(call, { resolve, reject, timer });
      this.worker.postMessage({ call, deadline, work } satisfies Order<Work>);
    });
  }

  #settle(reply: Reply<Notice>): void {
    if ('notice' in reply) {
      this.store.onNotice(reply.notice);
      return;
    }
    const call = this.#calls.get(reply.call);
    this.#calls.delete(reply.call);
    if (!call) return;
    clearTimeout(call.timer);
    if ('failure' in reply) call.reject(this.store.explain(reply.failure));
    else call.resolve(reply.answer as never);
  }

  #die(cause: Error, how: string): void {
    this.#death ??= this.store.unavailable(`${this.store.file}: its writer thread died (${cause.message})`, {
      cause,
    });
    for (const { reject, timer } of this.#calls.values()) {
      clearTimeout(timer);
      reject(this.#death);
    }
    this.#calls.clear();
    this.store.onEnd?.(how);
  }
}
