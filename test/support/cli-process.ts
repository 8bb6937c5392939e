import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { CLI } from './http-cli.js';

const STOP_MS = 5_000;

/** A `plants` that runs: what it says can be waited for, and it can be spoken to. */
export class CliProcess {
  stdout = '';
  stderr = '';
  static readonly #started: ChildProcess[] = [];
  readonly #ended: Promise<unknown>;
  #hasEnded = false;

  private constructor(private readonly child: ChildProcess) {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.#ended = once(child, 'close').then(() => (this.#hasEnded = true));
    CliProcess.#started.push(child);
  }

  /** Ends what a failed test has left running. */
  static killAll(): void {
    for (const child of CliProcess.#started.splice(0)) child.kill('SIGKILL');
  }

  /** Ends what runs in order, so that it counts for coverage; what does not end, as after a failed test, at once. */
  static async stopAll(): Promise<void> {
    const all = CliProcess.#started.filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    );
    const impatient = setTimeout(() => {
      CliProcess.killAll();
    }, STOP_MS);
    await Promise.all(all.map((child) => (child.kill('SIGTERM'), once(child, 'close'))));
    clearTimeout(impatient);
    CliProcess.killAll();
  }

  /** Starts it with pipes, as a script does. */
  static piped(args: readonly string[], settings: Readonly<Record<string, string>>): CliProcess {
    return new CliProcess(
      spawn(process.execPath, ['--no-warnings', CLI, ...args], { env: environment(settings) }),
    );
  }

  /** Starts it on a terminal of its own, by util-linux' `script`: what it says, on either stream, is in `stdout`. */
  static onTerminal(args: readonly string[], settings: Readonly<Record<string, string>>): CliProcess {
    const command = [process.execPath, '--no-warnings', CLI, ...args]
      .map((word) => `'${word.replaceAll("'", "'\\''")}'`)
      .join(' ');
    return new CliProcess(
      spawn('script', ['--quiet', '--return', '--command', `exec ${command}`, '/dev/null'], {
        env: { ...environment(settings), TERM: 'xterm', SHELL: '/bin/sh' },
      }),
    );
  }

  /** Resolves when it has said something like that. Rejects where it ends without. */
  async says(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.stdout + this.stderr)) {
      if (this.#hasEnded)
        throw new Error(`it ended without saying ${String(pattern)}: ${this.stdout}${this.stderr}`);
      await Promise.race([
        once(this.child.stdout ?? this.child, 'data'),
        once(this.child.stderr ?? this.child, 'data'),
        this.#ended,
      ]);
    }
  }

  /** The lines of its standard output, from now on. */
  lines(): AsyncIterable<string> {
    if (!this.child.stdout) throw new Error('it has no standard output');
    return createInterface({ input: this.child.stdout });
  }

  /** Types at its terminal. */
  type(text: string): void {
    this.child.stdin?.write(text);
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Resolves with the exit status. */
  async ended(): Promise<number | null> {
    await this.#ended;
    return this.child.exitCode;
  }
}

const environment = (settings: Readonly<Record<string, string>>): Record<string, string> => {
  const { NODE_V8_COVERAGE: coverage, PATH = '' } = process.env;
  return { PATH, ...(coverage === undefined ? {} : { NODE_V8_COVERAGE: coverage }), ...settings };
};
