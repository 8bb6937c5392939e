import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

const CHECK_TIMEOUT_MS = 2_000;

/**
 * A load balancer reduced to what every one of them does: it asks each process for /health/ready at an interval, and
 * names in turn those that answered 200 last. It repeats no request and knows nothing else.
 */
export class ReadyBalancer {
  /** When and why each process was not named any more. */
  readonly refusals: string[] = [];
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
      const refusal = await refusalOf(port);
      if (refusal === undefined) this.#ready.add(port);
      else if (this.#ready.delete(port))
        this.refusals.push(`${new Date().toISOString()} ${port}: ${refusal}`);
      await delay(this.everyMs);
    }
  }
}

/** Why a process is not ready; undefined where it is. */
const refusalOf = (port: number): Promise<string | undefined> =>
  new Promise((resolve) => {
    const path = '/health/ready';
    const check = request({ host: '127.0.0.1', port, path, agent: false, timeout: CHECK_TIMEOUT_MS });
    check
      .on('response', (answer) => {
        text(answer).then(
          (body) => {
            resolve(answer.statusCode === 200 ? undefined : body);
          },
          (error: unknown) => {
            resolve(String(error));
          },
        );
      })
      .on('timeout', () => {
        check.destroy(new Error(`no answer in ${CHECK_TIMEOUT_MS} ms`));
      })
      .on('error', (error) => {
        resolve(String(error));
      })
      .end();
  });
