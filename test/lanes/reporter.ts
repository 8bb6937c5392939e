import { appendFileSync, mkdirSync } from 'node:fs';
import { basename } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** The folder that keeps failures until the end of all lanes, when they are printed once more. */
export const FAILURES_FOLDER = 'build/failures';

/** The least time between two lines of progress, in milliseconds: a run of 20 minutes must not print thousands. */
const PROGRESS_MS = 15_000;

/** The most characters that are printed of a file's failures at once: a difference of two long texts has millions. */
const FAILURE_LENGTH = 6_000;

/** The part that is printed once more at the end, without the lines of the test: CI keeps some 4,000 characters. */
const REPEATED_LENGTH = 2_000;

/** Files that are named at the end, the slowest first. */
const SLOWEST = 5;

/** As much as is used of https://jestjs.io/docs/configuration#custom-reporters */
interface Results {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numPassedTestSuites: number;
  readonly numFailedTestSuites: number;
  readonly numPendingTestSuites: number;
}

/** Jest's counts after a file of tests. */
interface Progress {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPassedTestSuites: number;
  readonly numFailedTestSuites: number;
  readonly numPendingTestSuites: number;
  readonly numTotalTestSuites: number;
  readonly startTime: number;
}

/**
 * Jest's reporter: prints what failed as soon as it has, and now and then how many files and tests have run. Nothing else
 * of what passed.
 */
export default class LaneReporter {
  #printedAt = -Infinity;
  readonly #seconds: { readonly file: string; readonly seconds: number }[] = [];

  onTestResult(
    test: { readonly path: string },
    result: {
      readonly failureMessage?: string | null;
      readonly perfStats: { readonly runtime: number };
    },
    progress: Progress,
  ): void {
    const { failureMessage } = result;
    if (failureMessage) {
      const told = (message: string, length: number): string =>
        `FAIL ${test.path}\n${shortened(message, length)}\n`;
      process.stderr.write(told(failureMessage, FAILURE_LENGTH));
      mkdirSync(FAILURES_FOLDER, { recursive: true });
      appendFileSync(
        `${FAILURES_FOLDER}/${process.pid}.txt`,
        told(withoutCode(failureMessage), REPEATED_LENGTH),
      );
    }
    this.#seconds.push({
      file: basename(test.path),
      seconds: Math.round(result.perfStats.runtime / 1_000),
    });
    const ended = progress.numPassedTestSuites + progress.numFailedTestSuites + progress.numPendingTestSuites;
    const now = Date.now();
    if (now - this.#printedAt < PROGRESS_MS && ended < progress.numTotalTestSuites) return;
    this.#printedAt = now;
    const seconds = Math.round((now - progress.startTime) / 1_000);
    process.stderr.write(
      `${seconds} s: ${ended} of ${progress.numTotalTestSuites} files, ${progress.numPassedTests} tests passed, ${progress.numFailedTests} failed; last ${basename(test.path)}\n`,
    );
  }

  onRunComplete(_: unknown, results: Results): void {
    const slowest = this.#seconds.sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST);
    process.stderr.write(
      `files: ${results.numPassedTestSuites} passed, ${results.numFailedTestSuites} failed, ${results.numPendingTestSuites} skipped\n` +
        `tests: ${results.numPassedTests} passed, ${results.numFailedTests} failed, ${results.numPendingTests} skipped\n` +
        `slowest: ${slowest.map(({ file, seconds }) => `${file} ${seconds} s`).join(', ')}\n`,
    );
  }
}

/** A failure's message without the lines of the test that Jest shows with it, and without colours. */
const withoutCode = (message: string): string =>
  stripVTControlCharacters(message)
    .split('\n')
    .filter((line) => !/^\s*>?\s*\d* \|/.test(line))
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n');

/** The beginning and the end of a failure's message: the end has the place in the test. */
const shortened = (message: string, length: number): string => {
  if (message.length <= length) return message;
  const half = length / 2;
  return `${message.slice(0, half)}\n… ${message.length - length} characters …\n${message.slice(-half)}`;
};
