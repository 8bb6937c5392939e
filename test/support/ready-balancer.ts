import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

/** How long a health check may take, in milliseconds. */
const CHECK_TIMEOUT_MS = 2_000;

/**
 * A load balancer reduced to what every one of them does: it asks each process for /health/ready at an interval, and
 * names in turn those that answered 200 last. It repeats no request and knows nothing else.
 */
export class ReadyBalancer {
  readonly #ready = new Set<number>();
  readonly #checking: Promise<void>[];
  #stopped = false;
  #turn = 0;

  constructor(
    private readonly ports: readonly number[],
    private readonly everyMs: number,
  ) {
    this.#checking = ports.map((port) => this.#check(port));
  }

  /** The port of a process that is ready; undefined where none is. */
  next(): number | undefined {
    const ready = this.ports.filter((port) => this.#ready.has(port));
    this.#turn += 1;
    return ready[this.#turn % ready.length];
  }

  /** Waits until the last check of a process found it ready. */
  async sees(port: number): Promise<void> {
    while (!this.#ready.has(port)) await delay(20);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#checking);
  }

  async #check(port: number): Promise<void> {
    while (!this.#stopped) {
      if ((await readiness(port)) === 200) this.#ready.add(port);
      else this.#ready.delete(port);
      await delay(this.everyMs);
    }
  }
}

/** The status of /health/ready; undefined where there was no answer in time. */
const readiness = (port: number): Promise<number | undefined> =>
  new Promise((resolve) => {
    const path = '/health/ready';
    const check = request({ host: '127.0.0.1', port, path, agent: false, timeout: CHECK_TIMEOUT_MS });
    check
      .on('response', (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      })
      .on('timeout', () => {
        check.destroy();
      })
      .on('error', () => {
        resolve(undefined);
      })
      .end();
  });
