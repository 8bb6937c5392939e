import type { EnvironmentContext, JestEnvironmentConfig } from '@jest/environment';
import { TestEnvironment } from 'jest-environment-node';
import { stillOpen } from './still-open.js';

/** How long what a file of tests has closed may take to be gone, in milliseconds. */
const GONE_MS = 3_000;

/** Node's environment; it names the file of tests that has left something open, which would keep Jest from ending. */
export default class TidyEnvironment extends TestEnvironment {
  readonly #file: string;
  readonly #before = new Set(stillOpen());

  constructor(config: JestEnvironmentConfig, context: EnvironmentContext) {
    super(config, context);
    this.#file = context.testPath;
  }

  override async teardown(): Promise<void> {
    await super.teardown();
    const deadline = performance.now() + GONE_MS;
    let left = this.#left();
    while (left.length > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      left = this.#left();
    }
    if (left.length > 0) process.stderr.write(`${this.#file} has left open: ${left.join(', ')}\n`);
  }

  /** Timers aside: this wait is one. */
  #left(): string[] {
    return stillOpen().filter((thing) => thing !== 'timer' && !this.#before.has(thing));
  }
}
