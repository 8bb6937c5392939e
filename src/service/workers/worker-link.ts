import cluster from 'node:cluster';
import { type Registry } from 'prom-client';
import { within } from '../../async/deadline.js';
import { type ChangeHints } from '../../adapters/change-hints.js';
import { type SharedCounters } from '../../ports/shared-counters.js';
import { type Role } from '../config.js';
import {
  type Answers,
  type Figure,
  type FromWorker,
  type Listening,
  type Question,
  type ToWorker,
  type Topic,
  WORKER_VARIABLE,
  type WorkerIdentity,
} from './messages.js';

/** How long a question to the primary process waits for its answer, in milliseconds: more than it waits for workers. */
const ANSWER_MS = 2_000;

/** Why a worker stops. */
export type WorkerStop = 'stop' | 'replaced' | 'primary gone';

/** A worker's channel to its primary process. */
export class WorkerLink {
  readonly #listeners = new Map<Topic, (() => void)[]>();
  /** Hints of this turn of the event loop: whether another one followed the one that was sent. */
  readonly #hinted = new Map<Topic, boolean>();
  readonly #questions = new Map<number, (answer: never) => void>();
  #lastQuestion = 0;
  #registry: Registry | undefined;
  /** Resolves when the process is to stop. */
  readonly stopped: Promise<WorkerStop>;

  private constructor(readonly identity: WorkerIdentity) {
    this.stopped = new Promise((resolve) => {
      process.on('message', (message: ToWorker) => {
        if (message.kind === 'stop') resolve(message.replaced ? 'replaced' : 'stop');
        else this.#received(message);
      });
      cluster.worker?.once('disconnect', () => {
        // Else Node ends the process here, and cuts the requests in flight.
        if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
        resolve('primary gone');
      });
    });
    process.channel?.unref(); // else the process would not end where its start fails
  }

  /** The channel of this process; undefined where it is no worker. */
  static ofThisProcess(): WorkerLink | undefined {
    const identity = process.env[WORKER_VARIABLE];
    if (!cluster.isWorker || identity === undefined) return undefined;
    return new WorkerLink(JSON.parse(identity) as WorkerIdentity);
  }

  /** The first worker has all roles of the settings, the others answer requests. */
  roles(all: ReadonlySet<Role>): ReadonlySet<Role> {
    return this.identity.number === 1 ? all : new Set(['api']);
  }

  listening(listening: Listening): void {
    this.#send({ kind: 'listening', listening });
  }

  /** Hints to and from the other workers. */
  hints(topic: Topic): ChangeHints {
    return {
      send: () => {
        this.#hint(topic);
      },
      listen: (listener) => {
        this.#listeners.set(topic, [...(this.#listeners.get(topic) ?? []), listener]);
      },
    };
  }

  /** Gives the figures of this registry to the primary process when it asks for them. */
  shows(registry: Registry): void {
    this.#registry = registry;
  }

  /** The figures of all workers, as text. Throws where the primary process does not answer. */
  scrape(): Promise<string> {
    return this.#ask({ kind: 'scrape' });
  }

  /** Counters that all workers share. */
  get counters(): SharedCounters {
    return {
      add: (name, amount, seconds) => this.#ask({ kind: 'count', name, amount, seconds }),
      close: () => Promise.resolve(),
    };
  }

  /** Sends the last figures of this process, so that what it has counted stays in the sums. */
  async finish(): Promise<void> {
    await this.#sendFigures(undefined);
  }

  #received(message: Exclude<ToWorker, { kind: 'stop' }>): void {
    switch (message.kind) {
      case 'hint':
        for (const listener of this.#listeners.get(message.topic) ?? []) listener();
        break;
      case 'scrape':
        void this.#sendFigures(message.scrape);
        break;
      case 'answer':
        this.#questions.get(message.number)?.(message.answer as never);
        this.#questions.delete(message.number);
    }
  }

  /** Sends the first hint of a turn of the event loop at once, and one for all that follow in it. */
  #hint(topic: Topic): void {
    if (this.#hinted.has(topic)) {
      this.#hinted.set(topic, true);
      return;
    }
    this.#hinted.set(topic, false);
    this.#send({ kind: 'hint', topic });
    setImmediate(() => {
      const more = this.#hinted.get(topic);
      this.#hinted.delete(topic);
      if (more) this.#hint(topic);
    });
  }

  async #ask<Kind extends Question['kind']>(
    question: Extract<Question, { kind: Kind }>,
  ): Promise<Answers[Kind]> {
    const number = ++this.#lastQuestion;
    const answered = new Promise<Answers[Kind] | undefined>((resolve) => {
      this.#questions.set(number, resolve);
      this.#send({ kind: 'question', number, question });
    });
    try {
      const answer = await within(
        ANSWER_MS,
        answered,
        () => new Error('the primary process does not answer'),
      );
      if (answer === undefined) throw new Error('the primary process has no answer');
      return answer;
    } finally {
      this.#questions.delete(number);
    }
  }

  /** Without values that are no numbers, which JSON does not have. */
  async #sendFigures(scrape: number | undefined): Promise<void> {
    const all = (await this.#registry?.getMetricsAsJSON()) as readonly Figure[] | undefined;
    const figures = (all ?? []).map((figure) => ({
      ...figure,
      values: figure.values.filter(({ value }) => Number.isFinite(value)),
    }));
    await this.#sent({ kind: 'figures', scrape, figures });
  }

  #send(message: FromWorker): void {
    void this.#sent(message);
  }

  /** Resolves when the message is on its way. Never rejects: only the end of the primary process, which `stopped` tells, makes it fail. */
  #sent(message: FromWorker): Promise<void> {
    return new Promise((resolve) => {
      if (!process.connected || !process.send) resolve();
      else
        process.send(message, undefined, undefined, () => {
          resolve();
        });
    });
  }
}
