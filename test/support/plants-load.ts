import { setTimeout as delay } from 'node:timers/promises';
import { type Answer, Connection, type Sent } from './history-client.js';

export interface Way {
  readonly name: string;
  /** The port to send the next request to; undefined where no process can be asked. */
  readonly port: () => number | undefined;
  /** Connections are kept for further requests; else each request has a new one. */
  readonly kept: boolean;
}

/**
 * A client that creates, lists and deletes plants of an owner of its own, one request after the other, repeats none,
 * and knows what each list must be. Any other answer is a failure.
 */
export class LoadClient {
  readonly failures: string[] = [];
  /** Requests with the answer that they must get. */
  answered = 0;
  readonly #connection: Connection;
  #plants: string[] = [];
  #nextId = 0;
  #authorization = '';

  constructor(
    private readonly way: Way,
    /** Gives a token of a new owner. */
    private readonly newToken: () => Promise<string>,
    /** After each plant. */
    private readonly pauseMs: number,
  ) {
    this.#connection = new Connection(way);
  }

  /** Goes on until it is told to stop. */
  async run(over: AbortSignal): Promise<void> {
    await this.#newOwner();
    while (!over.aborted) {
      const name = `plant ${(this.#nextId += 1)}`;
      const body = JSON.stringify({ name, tag: '', id: this.#nextId });
      const oldest = this.#nextId - this.#plants.length;
      const well =
        (await this.#expect('POST', '/plants', 201, undefined, body)) &&
        this.#plants.push(name) > 0 &&
        (await this.#expect('GET', '/plants', 200, listOf(this.#plants))) &&
        (this.#plants.length < 5 ||
          ((await this.#expect('DELETE', `/plants/${oldest}`, 204)) && this.#plants.shift() !== undefined));
      // The effect of a failed request is not known: go on with plants of a new owner.
      if (!well) await this.#newOwner();
      if (this.pauseMs > 0) await delay(this.pauseMs);
    }
    this.#connection.close();
  }

  async #newOwner(): Promise<void> {
    this.#authorization = `Bearer ${await this.newToken()}`;
    this.#plants = [];
  }

  async #expect(
    method: Sent['method'],
    path: string,
    status: number,
    list?: string,
    body?: string,
  ): Promise<boolean> {
    const outcome = await this.#send({ method, path, ...(body !== undefined && { body }) }).then(
      (answer) => {
        if (answer.status !== status) return `${answer.status} ${answer.body}`;
        return list === undefined || answer.body === list ? undefined : `${answer.body}, not ${list}`;
      },
      (error: unknown) => String(error),
    );
    if (outcome === undefined) this.answered += 1;
    else this.failures.push(`${this.way.name}: ${method} ${path}: ${outcome}`);
    return outcome === undefined;
  }

  #send(sent: Sent): Promise<Answer> {
    const port = this.way.port();
    if (port === undefined) return Promise.reject(new Error('no process is ready'));
    const headers = {
      authorization: this.#authorization,
      ...(sent.body !== undefined && { 'content-type': 'application/json' }),
    };
    return this.#connection.send(`http://127.0.0.1:${port}`, { ...sent, headers });
  }
}

const listOf = (names: readonly string[]): string => JSON.stringify(names.map((name) => ({ name, tag: '' })));
