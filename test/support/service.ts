import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { loadConfig } from '../../src/service/config.js';
import { type EventLog, type RecordedEvent, START } from '../../src/log/event-log.js';
import { AUDIT_STREAM } from '../../src/domain/stream.js';
import { openEventLog } from '../../src/service/stores.js';
import { signToken } from '../../src/cli/token.js';
import { CLI } from './http-cli.js';
import { all } from './log-events.js';
import { type StoreUrls, storesOfThisRun } from './stores-of-this-run.js';
import { temporaryFolder } from './temporary-folder.js';
import { until } from './waiting.js';

/** The real service in a process of its own, on a data folder that outlives its processes. */
export class TestService {
  #child: ChildProcess | undefined;
  /** Resolves when `#child` has ended and its output is read to the end. */
  #closed: Promise<unknown> = Promise.resolve();
  #url: string | undefined;
  /** Every line of its log, parsed, of all its processes. */
  readonly logged: Record<string, unknown>[] = [];
  /** By its processes. */
  stderr = '';
  /** Ends of its processes that had listened and were sent no signal that ends them. */
  readonly endedUnasked: string[] = [];
  readonly #signalled = new WeakSet<ChildProcess>();

  #log: Promise<EventLog> | undefined;

  private constructor(
    readonly dataDir: string,
    /** Its stores, in the words of the settings; none where it keeps its files in `dataDir`. */
    readonly stores: StoreUrls,
    private readonly settings: Readonly<Record<string, string>>,
  ) {}

  /**
   * Starts it; settings are environment variables. Its stores are new ones, of the kind that this run of the tests
   * is about.
   */
  static async start(settings: Readonly<Record<string, string>> = {}): Promise<TestService> {
    const service = TestService.of(settings);
    await service.start();
    return service;
  }

  /** One that is not started yet. */
  static of(settings: Readonly<Record<string, string>>): TestService {
    return new TestService(settings.DATA_DIR ?? temporaryFolder(), storesOfThisRun(), settings);
  }

  /**
   * As `start`, with a projector that does nothing: no list is ever answered.
   */
  static startBlocked(settings: Readonly<Record<string, string>> = {}): Promise<TestService> {
    const blocked = `--import=${new URL('no-projection.js', import.meta.url).href}`;
    return TestService.start({ ...settings, NODE_OPTIONS: `${settings.NODE_OPTIONS ?? ''} ${blocked}` });
  }

  /** Starts another service on the same data, with other settings: on servers alone. */
  async startBeside(settings: Readonly<Record<string, string>>): Promise<TestService> {
    if (loadConfig(this.env).eventLog.kind === 'sqlite')
      throw new Error('one process owns an embedded log: start another one on servers');
    const service = new TestService(this.dataDir, this.stores, settings);
    await service.start();
    return service;
  }

  get hasEnded(): boolean {
    return this.#child?.exitCode !== null || this.#child.signalCode !== null;
  }

  get url(): string {
    if (this.#url === undefined) throw new Error('the service is not running');
    return this.#url;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** The id of its process. */
  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error('the service is not running');
    return this.#child.pid;
  }

  get env(): Record<string, string> {
    return {
      PATH: process.env.PATH ?? '',
      HOST: '127.0.0.1',
      PORT: '0',
      DRAIN_MS: '0', // tests that are about something else need not wait for balancers
      ...this.stores,
      ...this.settings,
      DATA_DIR: this.dataDir,
    };
  }

  /**
   * Starts a process on the same data, once it listens; `more` are settings of this process alone. Rejects with what
   * it said if it does not get there.
   */
  async start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    if (this.#child?.exitCode === null && this.#child.signalCode === null)
      throw new Error('its process still runs: nobody would end it once there is another');
    const coverage = process.env.NODE_V8_COVERAGE;
    const child = spawn(process.execPath, ['--no-warnings', CLI, 'serve'], {
      env: { ...(coverage ? { NODE_V8_COVERAGE: coverage } : {}), ...this.env, ...more },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    const lines = createInterface({ input: child.stdout });
    const listening = new Promise<string>((resolve, reject) => {
      lines.on('line', (line) => {
        if (child.signalCode === 'SIGKILL' && !line.endsWith('}')) return; // cut in the middle
        const entry = JSON.parse(line) as Record<string, unknown>;
        this.logged.push(entry);
        if (typeof entry.url === 'string') resolve(entry.url);
      });
      this.#closed = once(child, 'close');
      child.once('close', (code, signal) => {
        reject(new Error(`the service ended (${String(code ?? signal)}): ${this.stderr}`));
      });
    });
    this.#url = await listening;
    child.once('close', (code, signal) => {
      if (!this.#signalled.has(child))
        this.endedUnasked.push(`${String(code ?? signal)}: ${this.stderr.slice(-500)}`);
    });
  }

  /** Ends the process at once, as a power cut would. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Asks the process to stop, waits until it has, and gives its exit status. */
  async stop(signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM'): Promise<number | null> {
    return this.#end(signal);
  }

  /** Sends a signal without waiting. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#child) return;
    if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') this.#signalled.add(this.#child);
    this.#child.kill(signal);
  }

  /** Resolves with the exit status when the process has ended and all of its output is read. */
  async ended(): Promise<number | null> {
    const child = this.#child;
    await this.#closed;
    return child?.exitCode ?? null;
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    this.signal(signal);
    const status = await this.ended();
    this.#child = undefined;
    this.#url = undefined;
    return status;
  }

  /** Stops the process, and leaves its data to others. */
  async leave(): Promise<void> {
    await this.stop();
    await (await this.#log)?.close();
  }

  /** Stops the process, which then says what of it was covered, and removes its data. */
  async remove(): Promise<void> {
    await this.leave();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  /** A good token for an owner. */
  async token(owner: string, scope?: string, clientId?: string): Promise<string> {
    const signed = await signToken(
      loadConfig(this.env),
      { owner, scope, clientId, expires: '1h' },
      new Date(),
    );
    return signed.token;
  }

  /** Its log to read, whether it runs or not. */
  log(): Promise<EventLog> {
    this.#log ??= openEventLog(loadConfig(this.env).eventLog, { access: 'read' });
    return this.#log;
  }

  /** Writes to its log past the service, which does not run meanwhile where the log is embedded: it owns that. */
  async writing<T>(work: (log: EventLog) => Promise<T>): Promise<T> {
    const { eventLog } = loadConfig(this.env);
    const pauses = eventLog.kind === 'sqlite' && !this.hasEnded;
    if (pauses) await this.stop();
    const log = await openEventLog(eventLog);
    try {
      return await work(log);
    } finally {
      await log.close();
      if (pauses) await this.start();
    }
  }

  /** All events of its log, in order. */
  async events(): Promise<RecordedEvent[]> {
    return all((await this.log()).readAll(START));
  }

  /** Counts the events of its log, without those that the auditor adds by itself, the first after a minute. */
  async eventCount(): Promise<number> {
    return (await this.events()).filter(({ stream }) => stream !== AUDIT_STREAM).length;
  }

  /** Waits until lists are answered. */
  async ready(): Promise<void> {
    await until(async () => {
      const answer = await fetch(`${this.url}/health/ready`);
      await answer.arrayBuffer();
      return answer.ok;
    });
  }
}
