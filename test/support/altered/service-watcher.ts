import { setTimeout as delay } from 'node:timers/promises';
import { TestService } from '../service.js';
import { DEADLINE_MS, type Finding, type Watcher } from './watcher.js';

interface Line {
  readonly level?: string;
  readonly msg?: string;
  readonly auditor?: {
    readonly state: string;
    readonly reason?: string;
    readonly alarm?: { readonly message: string; readonly index?: number; readonly position?: string };
  };
}

/** The service in a process of its own, as its log shows it. */
export class ServiceWatcher implements Watcher {
  #seen = 0;
  #warning: Finding | undefined;
  #age = Infinity;
  #readings = 0;

  private constructor(private readonly service: TestService) {}

  /** Gives a finding where the start is refused. */
  static async start(folder: string): Promise<ServiceWatcher | Finding> {
    try {
      return new ServiceWatcher(await TestService.start({ DATA_DIR: folder, AUDIT_RECHECK_SECONDS: '1' }));
    } catch (error) {
      return { by: 'start refused', message: (error as Error).message, readings: 0 };
    }
  }

  async ready(): Promise<Finding | undefined> {
    await this.service.ready();
    return this.find(1);
  }

  async find(readings: number): Promise<Finding | undefined> {
    this.#readings = 0;
    for (const deadline = performance.now() + DEADLINE_MS; performance.now() < deadline;) {
      const lines = this.service.logged as Line[];
      for (; this.#seen < lines.length; this.#seen++) {
        const finding = this.#findingIn(lines[this.#seen] ?? {});
        if (finding?.by === 'warning') this.#warning ??= finding;
        else if (finding) return finding;
      }
      if (this.service.hasEnded)
        return { by: 'out of use', message: this.service.stderr, readings: this.#readings };
      await this.#countReadings();
      if (this.#readings >= readings) return this.#warning; // an alarm could have followed
      await delay(50);
    }
    throw new Error(
      `nothing is found, and the log is not read again: ${JSON.stringify(this.service.logged.slice(-3))}`,
    );
  }

  async stop(): Promise<void> {
    await this.service.leave();
  }

  #findingIn({ level = '', msg = '', auditor }: Line): Finding | undefined {
    const readings = this.#readings;
    if (auditor?.alarm) {
      const { message, index, position } = auditor.alarm;
      return { by: 'alarm', message, index, position, readings };
    }
    if (level === 'fatal' || auditor?.reason !== undefined)
      return { by: 'out of use', message: auditor?.reason ?? msg, readings };
    return level === 'warn' ? { by: 'warning', message: msg, readings } : undefined;
  }

  /** A reading has ended where its age has become less. */
  async #countReadings(): Promise<void> {
    const answer = await fetch(`${this.service.url}/metrics`);
    const [, age] = /^plants_tree_recheck_age_seconds (\S+)$/m.exec(await answer.text()) ?? [];
    if (age === undefined) return;
    if (Number(age) < this.#age) this.#readings += 1;
    this.#age = Number(age);
  }
}
