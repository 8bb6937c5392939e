import { takeCoverage } from 'node:v8';

/** What Jest tells lane.ts: a file of tests that begins, or that all have run. */
export type LaneMessage = { readonly file: string } | { readonly failed: boolean };

/** As much as is used of https://jestjs.io/docs/configuration#custom-reporters */
interface Results {
  readonly numFailedTests: number;
  readonly numFailedTestSuites: number;
  readonly numRuntimeErrorTestSuites: number;
  readonly wasInterrupted: boolean;
}

/**
 * Jest's reporter for a lane of `npm test`: it sends lane.ts how far Jest is, and prints what failed as soon as it has,
 * and nothing of what passed: where only the end of the output is kept, the failures of all lanes must be within it.
 */
export default class LaneReporter {
  onTestFileStart(test: { readonly path: string }): void {
    this.#tell({ file: test.path });
  }

  onTestResult(test: { readonly path: string }, result: { readonly failureMessage?: string | null }): void {
    if (result.failureMessage) process.stderr.write(`FAIL ${test.path}\n${result.failureMessage}\n`);
  }

  onRunComplete(_: unknown, results: Results): void {
    // Now, since Jest might have to be killed: what a killed process has covered is lost.
    if (process.env.NODE_V8_COVERAGE !== undefined) takeCoverage();
    this.#tell({
      failed:
        results.numFailedTests + results.numFailedTestSuites + results.numRuntimeErrorTestSuites > 0 ||
        results.wasInterrupted,
    });
  }

  #tell(message: LaneMessage): void {
    process.send?.(message);
  }
}
