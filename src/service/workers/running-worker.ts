import cluster, { type Worker } from 'node:cluster';
import { type FromWorker, type Listening, type ToWorker } from './messages.js';

/** How a worker ended. */
export interface WorkerEnd {
  readonly code: number | null;
  readonly signal: string | null;
}

/** How long a worker may take to end once it was told to, in milliseconds: it gives itself 20 s (SHUTDOWN_MS). */
const END_MS = 22_000;

/** How long a worker may take until it listens, in milliseconds. */
const START_MS = 60_000;

/** A connection that the primary process has accepted. */
interface Connection {
  close(): void;
}

/** Connections that were handed to a worker which has not taken them yet, with that worker. */
const handedOver = new Map<Connection, Worker>();

/**
 * Ends the connections that a worker has not taken when it dies. Node's cluster forgets them, and their clients would
 * wait for an answer until the primary process ends. It closes its handle of a connection that a worker has taken.
 */
const endUntaken = (worker: Worker): void => {
  const send = worker.process.send.bind(worker.process) as (...sent: unknown[]) => boolean;
  worker.process.send = (...sent: unknown[]) => {
    // Otherwise a callback: a message of ours.
    const connection = typeof sent[1] === 'object' ? (sent[1] as Connection | null) : null;
    if (connection && !handedOver.has(connection)) {
      const close = connection.close.bind(connection);
      connection.close = () => {
        handedOver.delete(connection);
        close();
      };
    }
    if (connection) handedOver.set(connection, worker);
    return send(...sent);
  };
  worker.once('exit', () => {
    for (const [connection, taker] of handedOver) if (taker === worker) connection.close();
  });
};

/** A worker process, from its start to its end. */
export class RunningWorker {
  readonly #worker: Worker;
  readonly startedAt = performance.now();
  /** Where it listens; undefined where it ended before, or was not there in time. */
  readonly listening: Promise<Listening | undefined>;
  readonly ended: Promise<WorkerEnd>;
  /** Whether it was told to end. */
  isLeaving = false;

  /** Starts it. `onMessage` gets its messages, but for the one that it listens. */
  constructor(
    readonly number: number,
    environment: Readonly<Record<string, string | undefined>>,
    onMessage: (message: Exclude<FromWorker, { kind: 'listening' }>) => void,
  ) {
    const worker = cluster.fork(environment);
    this.#worker = worker;
    endUntaken(worker);
    worker.on('error', () => undefined); // a message that it did not take: it has ended
    this.ended = new Promise((resolve) => {
      worker.once('exit', (code: number | null, signal: string | null) => {
        resolve({ code, signal });
      });
    });
    this.listening = new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.kill();
      }, START_MS);
      worker.on('message', (message: FromWorker) => {
        if (message.kind !== 'listening') {
          onMessage(message);
          return;
        }
        clearTimeout(timer);
        resolve(message.listening);
      });
      void this.ended.then(() => {
        clearTimeout(timer);
        resolve(undefined);
      });
    });
  }

  /** Unique among all workers of the primary process. */
  get id(): number {
    return this.#worker.id;
  }

  get pid(): number | undefined {
    return this.#worker.process.pid;
  }

  tell(message: ToWorker): void {
    if (this.#worker.isConnected()) this.#worker.send(message, () => undefined);
  }

  /** Asks for its figures. */
  ask(scrape: number): void {
    this.tell({ kind: 'scrape', scrape });
  }

  /** Tells it to stop, and kills it where it does not. Resolves with its end. */
  async stop(how: { readonly replaced: boolean }): Promise<WorkerEnd> {
    this.isLeaving = true;
    this.tell({ kind: 'stop', ...how });
    const timer = setTimeout(() => {
      this.kill();
    }, END_MS);
    const end = await this.ended;
    clearTimeout(timer);
    return end;
  }

  kill(): void {
    this.isLeaving = true;
    this.#worker.process.kill('SIGKILL');
  }
}
