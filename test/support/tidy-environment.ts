import type { EnvironmentContext, JestEnvironmentConfig } from '@jest/environment';
import { TestEnvironment } from 'jest-environment-node';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stillOpen } from './still-open.js';

/** For what a file of tests has closed. */
const GONE_MS = 3_000;

/**
 * Node's environment. It removes the temporary folders of a file of tests, and names a file that has left something open,
 * which would keep Jest from ending.
 */
export default class TidyEnvironment extends TestEnvironment {
  readonly #file: string;
  readonly #before = new Set(stillOpen());
  readonly #folder = mkdtempSync(join(tmpdir(), 'plants-tests-'));

  constructor(config: JestEnvironmentConfig, context: EnvironmentContext) {
    super(config, context);
    this.#file = context.testPath;
    chmodSync(this.#folder, 0o711); // a test that gives up its rights still gets to its own folder
    this.global.FOLDER_OF_TESTS = this.#folder;
  }

  override async teardown(): Promise<void> {
    await super.teardown();
    const deadline = performance.now() + GONE_MS;
    let left = this.#left();
    while (left.length > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      left = this.#left();
    }
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 });
    if (left.length > 0) process.stderr.write(`${this.#file} has left open: ${left.join(', ')}\n`);
  }

  /** Timers aside: this wait is one. */
  #left(): string[] {
    return stillOpen().filter((thing) => thing !== 'timer' && !this.#before.has(thing));
  }
}
