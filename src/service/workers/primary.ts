import cluster from 'node:cluster';
import { type Logger } from 'pino';
import { type BackoffRange, backoffMs } from '../../async/backoff.js';
import { StartError } from '../start-error.js';
import {
  type Answers,
  type Figure,
  type FromWorker,
  type Listening,
  type Question,
  type Topic,
  WORKER_VARIABLE,
  type WorkerIdentity,
} from './messages.js';
import { RunningWorker, type WorkerEnd } from './running-worker.js';
import { SummedFigures } from './summed-figures.js';

/** The pauses before a worker that has ended is started again. */
const PAUSES: BackoffRange = { firstMs: 100, longestMs: 10_000 };

/** A worker that has run for so long, in milliseconds, has not failed: the next pause is the first one again. */
const STEADY_MS = 30_000;

/** A worker has ended before it listened, and has said why on standard error. */
export class WorkerNotStarted extends Error {
  override readonly name = 'WorkerNotStarted';

  constructor(readonly exitStatus: number) {
    super('a worker could not start');
  }
}

/** Where one worker runs, and is started again. */
interface Place {
  readonly number: number;
  /** The worker that serves; undefined while another one is about to be started. */
  current: RunningWorker | undefined;
  /** The worker that starts in its place. */
  next: RunningWorker | undefined;
  failures: number;
  restarts: number;
  timer: NodeJS.Timeout | undefined;
}

/** Starts, replaces and stops the workers of a service, and passes their messages on. It answers no request itself. */
export class Primary {
  readonly #places: readonly Place[];
  readonly #running = new Set<RunningWorker>();
  readonly #figures = new SummedFigures();
  readonly #counters = new Map<string, { total: number; readonly until: number }>();
  /** Hints that are passed on at the end of this turn of the event loop, with the worker that sent each. */
  readonly #hints = new Map<Topic, RunningWorker | 'several'>();
  #stopping = false;
  #replacing: Promise<void> | undefined;
  #replaceAgain = false;

  constructor(
    of: number,
    private readonly logger: Logger,
    /** The variables of workers, and undefined for those that they must not inherit. */
    private readonly environment: Readonly<Record<string, string | undefined>>,
  ) {
    // Also on systems where it is not the default: every worker gets its share, and none loses a connection as it ends.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    this.#places = Array.from({ length: of }, (_, at) => ({
      number: at + 1,
      current: undefined,
      next: undefined,
      failures: 0,
      restarts: 0,
      timer: undefined,
    }));
  }

  /**
   * Starts the first worker, and once it listens the others. Throws WorkerNotStarted, or StartError, where one ends
   * before it listens; all have ended then.
   */
  async start(): Promise<Listening> {
    const [first, ...others] = this.#places;
    if (!first) throw new RangeError('a service has at least one worker');
    try {
      const listening = await this.#started(first);
      await Promise.all(others.map((place) => this.#started(place)));
      return listening;
    } catch (error) {
      this.#stopping = true;
      this.kill();
      await Promise.all([...this.#running].map(({ ended }) => ended));
      throw error;
    }
  }

  /** Replaces all workers, one after the other, without a moment in which nobody listens. */
  replaceAll(): void {
    if (this.#stopping) return;
    if (this.#replacing) {
      this.#replaceAgain = true;
      return;
    }
    this.#replacing = this.#replaceEach().finally(() => {
      this.#replacing = undefined;
      if (!this.#replaceAgain) return;
      this.#replaceAgain = false;
      this.replaceAll();
    });
  }

  /** Stops all workers. Resolves with whether each has ended well. */
  async stop(): Promise<boolean> {
    this.#stopping = true;
    for (const { timer } of this.#places) clearTimeout(timer);
    const ends = await Promise.all([...this.#running].map((worker) => worker.stop({ replaced: false })));
    return ends.every(({ code }) => code === 0);
  }

  /** Ends all workers at once. */
  kill(): void {
    this.#stopping = true;
    for (const worker of this.#running) worker.kill();
  }

  async #started(place: Place): Promise<Listening> {
    const worker = this.#begin(place);
    const listening = await worker.listening;
    if (listening) {
      place.current = worker;
      return listening;
    }
    const { code, signal } = await worker.ended;
    if (code) throw new WorkerNotStarted(code);
    throw new StartError(
      `worker ${place.number} was ended before it listened${signal === null ? '' : ` (${signal})`}: start again`,
    );
  }

  #begin(place: Place): RunningWorker {
    const { number, restarts } = place;
    const identity: WorkerIdentity = { number, of: this.#places.length, primary: process.pid, restarts };
    const worker = new RunningWorker(
      number,
      { ...this.environment, [WORKER_VARIABLE]: JSON.stringify(identity) },
      (message) => {
        this.#received(worker, message);
      },
    );
    this.#running.add(worker);
    void worker.ended.then((end) => {
      this.#running.delete(worker);
      this.#figures.ended(worker.id);
      this.#ended(place, worker, end);
    });
    return worker;
  }

  /** Starts another worker where one has ended that was not told to. */
  #ended(place: Place, worker: RunningWorker, { code, signal }: WorkerEnd): void {
    if (this.#stopping || worker !== place.current || worker.isLeaving) return;
    const about = { worker: place.number, workerPid: worker.pid, code, signal };
    if (performance.now() - worker.startedAt > STEADY_MS) place.failures = 0;
    place.restarts += 1;
    place.current = place.next;
    if (place.next) {
      this.logger.error(about, 'a worker has ended; the one that was to replace it goes on');
      return;
    }
    const pauseMs = backoffMs(place.failures++, PAUSES);
    this.logger.error({ ...about, pauseMs }, 'a worker has ended, and another one is started in its place');
    place.timer = setTimeout(() => {
      place.current = this.#begin(place);
    }, pauseMs);
  }

  async #replaceEach(): Promise<void> {
    this.logger.info('the workers are replaced, one after the other');
    for (const place of this.#places) {
      if (this.#stopping) return;
      if (!(await this.#replace(place))) {
        this.logger.error(
          { worker: place.number },
          'a new worker could not start, as it has said before: the workers that run go on',
        );
        return;
      }
    }
    this.logger.info('all workers were replaced');
  }

  /** Whether the new worker listens; the old one has ended then. */
  async #replace(place: Place): Promise<boolean> {
    clearTimeout(place.timer);
    const next = this.#begin(place);
    if (place.current) place.next = next;
    else place.current = next;
    const listening = await next.listening;
    place.next = undefined;
    if (!listening) return this.#stopping;
    place.failures = 0;
    const before = place.current;
    place.current = next;
    if (before !== next) await before.stop({ replaced: true });
    return true;
  }

  #received(worker: RunningWorker, message: Exclude<FromWorker, { kind: 'listening' }>): void {
    switch (message.kind) {
      case 'hint':
        this.#hint(worker, message.topic);
        break;
      case 'figures':
        this.#figures.received(worker.id, message.scrape, message.figures);
        break;
      case 'question':
        void this.#answer(worker, message.number, message.question);
    }
  }

  /** Passes a hint on to the other workers, once for all that come in the same turn of the event loop. */
  #hint(from: RunningWorker, topic: Topic): void {
    if (this.#hints.size === 0)
      setImmediate(() => {
        for (const [hinted, sender] of this.#hints)
          for (const worker of this.#running)
            if (worker !== sender) worker.tell({ kind: 'hint', topic: hinted });
        this.#hints.clear();
      });
    const sender = this.#hints.get(topic) ?? from;
    this.#hints.set(topic, sender === from ? from : 'several');
  }

  async #answer(worker: RunningWorker, number: number, question: Question): Promise<void> {
    let answer: Answers[Question['kind']] | undefined;
    try {
      answer = question.kind === 'count' ? this.#count(question) : await this.#scrape();
    } catch (error) {
      this.logger.error({ err: error }, 'a question of a worker failed');
    }
    worker.tell({ kind: 'answer', number, answer });
  }

  #count({ name, amount, seconds }: Extract<Question, { kind: 'count' }>): Answers['count'] {
    const now = performance.now();
    const found = this.#counters.get(name);
    const counter = found && found.until > now ? found : { total: 0, until: now + seconds * 1_000 };
    if (counter !== found) {
      this.#counters.set(name, counter);
      setTimeout(() => {
        if (this.#counters.get(name) === counter) this.#counters.delete(name);
      }, seconds * 1_000).unref();
    }
    counter.total += amount;
    return { total: counter.total, msLeft: Math.ceil(counter.until - now) };
  }

  #scrape(): Promise<string> {
    const serving = this.#places.flatMap(({ current }) => (current ? [current] : []));
    const restarts = this.#places.reduce((sum, place) => sum + place.restarts, 0);
    return this.#figures.text(
      [...this.#running],
      [
        figure('plants_workers', 'gauge', 'Workers that run, of those that WORKERS wants.', serving.length),
        figure(
          'plants_worker_restarts_total',
          'counter',
          'Workers that ended unexpectedly and were started again.',
          restarts,
        ),
        figure(
          'process_start_time_seconds',
          'gauge',
          'Start time of the primary process since unix epoch in seconds.',
          Math.floor(Date.now() / 1_000 - process.uptime()),
        ),
      ],
    );
  }
}

const figure = (name: string, type: 'gauge' | 'counter', help: string, value: number): Figure => ({
  name,
  help,
  type,
  aggregator: 'sum',
  values: [{ value, labels: {} }],
});
