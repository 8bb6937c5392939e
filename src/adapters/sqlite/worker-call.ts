import { type Worker } from 'node:worker_threads';
import { BUSY_TIMEOUT_MS } from './database.js';
import { type FileFault } from './file-names.js';

/** A call that is not answered by then has failed: twice what a statement waits for a lock. */
const CALL_DEADLINE_MS = 2 * BUSY_TIMEOUT_MS;

/** `deadline` is of the monotonic clock that all threads share, in nanoseconds. Opening answers the files' identity. */
export interface Order<Work> {
  readonly call: number;
  readonly deadline: bigint;
  readonly work: Work | 'open' | 'close';
}

/** What was thrown, as plain data: between threads, and from native code, an error loses its class. */
interface Failure {
  readonly name: string;
  readonly message: string;
  readonly errcode: number | undefined;
}

export type Reply =
  | { readonly call: number; readonly answer: unknown }
  | { readonly call: number; readonly failure: Failure }
  /** Nothing is written any more. Posted once, before the call fails that has found it. */
  | { readonly fault: FileFault };

export const failureOf = (thrown: unknown): Failure => {
  const { name = '', message = String(thrown), errcode } = Object(thrown) as Partial<Failure>;
  return { name, message, errcode };
};

/** What was thrown on the way to a file: one of the port's own errors, or else what `other` makes of it. */
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
  readonly timer: NodeJS.Timeout;
}

/** What the callers of a thread need to know of its store. */
export interface CalledStore {
  readonly file: string;
  /** Calls that may be unanswered at once. One more is refused. */
  readonly maxQueued: number;
  readonly unavailable: (message: string, options?: ErrorOptions) => Error;
  /** The port's error for what the thread threw. */
  readonly explain: (thrown: unknown) => Error;
  /** Called when the thread finds that one of the files was taken away. */
  readonly onFault: () => void;
}

/** Calls of a thread that writes a file: its fsyncs do not hold up the event loop. `Answers` is by the kind of work. */
export class WorkerCalls<Work extends { readonly kind: keyof Answers }, Answers> {
  /** Calls that the thread has not answered, those whose caller has given up included. */
  readonly #calls = new Map<number, Call>();
  readonly #exited: Promise<void>;
  #lastCall = 0;
  #death: Error | undefined;
  #fault: FileFault | undefined;

  constructor(
    private readonly worker: Worker,
    private readonly store: CalledStore,
  ) {
    worker.on('message', (reply: Reply) => {
      this.#settle(reply);
    });
    worker.on('error', (error) => {
      this.#die(error);
    });
    this.#exited = new Promise((resolve) => {
      worker.once('exit', (code) => {
        this.#die(new Error(`exit code ${code}`));
        resolve();
      });
    });
  }

  get isAlive(): boolean {
    return !this.#death;
  }

  /** What the thread has found to have happened to one of the files. */
  get fault(): FileFault | undefined {
    return this.#fault;
  }

  /** Opens the file. Gives the identity of the files that the thread has open. */
  open(): Promise<string> {
    return this.#post('open') as Promise<string>;
  }

  async call<W extends Work>(work: W): Promise<Answers[W['kind']]> {
    const { file, maxQueued, unavailable } = this.store;
    if (this.#calls.size >= maxQueued)
      throw unavailable(`${file}: ${maxQueued} writes are waiting for the disk already`);
    return this.#post(work) as Promise<Answers[W['kind']]>;
  }

  /** Ends the thread after the calls before; gives up waiting at the deadline. */
  async close(): Promise<void> {
    try {
      await this.#post('close');
    } catch {
      // Ending a thread that hangs inside SQLite would take the process with it. It ends when the disk is back.
      if (!this.#death) {
        this.worker.unref();
        return;
      }
    }
    await this.#exited;
  }

  #post(work: Order<Work>['work']): Promise<unknown> {
    if (this.#death) return Promise.reject(this.#death);
    return new Promise((resolve, reject) => {
      const call = ++this.#lastCall;
      const timer = setTimeout(() => {
        reject(this.store.unavailable(`${this.store.file}: no answer within ${CALL_DEADLINE_MS} ms`));
      }, CALL_DEADLINE_MS);
      this.#calls.set(call, { resolve, reject, timer });
      const deadline = process.hrtime.bigint() + BigInt(CALL_DEADLINE_MS) * 1_000_000n;
      this.worker.postMessage({ call, deadline, work } satisfies Order<Work>);
    });
  }

  #settle(reply: Reply): void {
    if ('fault' in reply) {
      this.#fault = reply.fault;
      this.store.onFault();
      return;
    }
    const call = this.#calls.get(reply.call);
    this.#calls.delete(reply.call);
    if (!call) return;
    clearTimeout(call.timer);
    if ('failure' in reply) call.reject(this.store.explain(reply.failure));
    else call.resolve(reply.answer as never);
  }

  #die(cause: Error): void {
    this.#death ??= this.store.unavailable(`${this.store.file}: its writer thread died (${cause.message})`, {
      cause,
    });
    for (const { reject, timer } of this.#calls.values()) {
      clearTimeout(timer);
      reject(this.#death);
    }
    this.#calls.clear();
  }
}
