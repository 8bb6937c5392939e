import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createLogger } from '../service/logging/logger.js';
import { type Config, loadConfig } from '../service/config.js';
import { type Service } from '../service/start.js';
import { consoleLink } from './commands/console.js';
import { DEMO_OWNERS } from './demo-plants.js';
import { signToken } from './token.js';

/** The time that the tokens of the demonstration are valid. */
const EXPIRES = '4h';

/** The interval at which the status is asked for an alarm, in milliseconds. */
const LOOK_MS = 250;

/** The time that the alarm may take, in milliseconds: the log is read again each second. */
const ALARM_MS = 60_000;

/** The text that is written into the altered event. */
const FORGED_NAME = 'A plastic fern';

/** The owner whose event is altered. */
const VICTIM = 'alice';

/** A program that alters an event of a file, past the service. */
export type Alter = (
  file: string,
  seq: number,
  name: string,
) => { readonly before: string; readonly after: string };

/** A service for a demonstration, with houseplants and some history, in a folder of its own. */
export class Demo {
  #altered = false;

  private constructor(
    private readonly service: Service,
    private readonly config: Config,
    private readonly alterEvent: Alter,
  ) {}

  /** Starts it and fills it. Settings of the environment have no part in it. Throws what `start` throws. */
  static async start(version: string, alterEvent: Alter): Promise<Demo> {
    const folder = await mkdtemp(join(tmpdir(), 'plants-demo-'));
    const config = loadConfig({
      ...{ HOST: '127.0.0.1', PORT: '0', DATA_DIR: folder, DRAIN_MS: '0' },
      ...{ AUDIT_RECHECK_SECONDS: '1', LOG_LEVEL: 'silent', OWNER_ERASURE: 'on' },
    });
    try {
      const { start } = await import('../service/start.js');
      const service = await start(config, createLogger(config.logLevel), version);
      const demo = new Demo(service, config, alterEvent);
      await demo.#fill();
      return demo;
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  get url(): string {
    return this.service.url;
  }

  get folder(): string {
    return this.config.dataDir;
  }

  /** A link into its console, with everything that a token can allow. */
  async link(owner = VICTIM): Promise<string> {
    const request = { owner, expires: EXPIRES, url: this.url };
    return (await consoleLink(this.config, request, new Date())).link;
  }

  /**
   * Alters an event behind the service's back, and waits for the alarm; `onAltered` is called in between. Resolves with
   * the words of the alarm, undefined where it was altered before; throws where no alarm comes.
   */
  async alter(onAltered: (what: string) => void): Promise<string | undefined> {
    if (this.#altered) return undefined;
    this.#altered = true;
    // The first event of all is the victim's.
    const { before, after } = this.alterEvent(join(this.folder, 'events.db'), 1, FORGED_NAME);
    onAltered(`the first event of the log says "${after}" now, where it said "${before}"`);
    for (const end = Date.now() + ALARM_MS; Date.now() < end;) {
      await delay(LOOK_MS);
      const text = await this.#send('operator', 'GET', '/operations/status', {}, 'plants:operate');
      const { problems } = JSON.parse(text) as { readonly problems: readonly string[] };
      const alarm = problems.find((problem) => problem.startsWith('ALARM'));
      if (alarm !== undefined) return alarm;
    }
    throw new Error('no alarm was raised within a minute: please report this');
  }

  async stop(): Promise<void> {
    await this.service.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  async #fill(): Promise<void> {
    for (const [owner, { plants, gone, renamed }] of Object.entries(DEMO_OWNERS)) {
      const lines = plants.map((plant) => JSON.stringify(plant)).join('\n');
      await this.#send(owner, 'POST', '/plants/import', { type: 'application/x-ndjson', body: lines });
      for (const id of [...gone, ...Object.keys(renamed)]) await this.#send(owner, 'DELETE', `/plants/${id}`);
      for (const plant of plants) {
        const name = renamed[plant.id];
        if (name === undefined) continue;
        const body = JSON.stringify({ ...plant, name });
        await this.#send(owner, 'POST', '/plants', { type: 'application/json', body });
      }
    }
  }

  /** Asks the service with a token of an owner; resolves with the text of the answer. */
  async #send(
    owner: string,
    method: string,
    path: string,
    { type, body }: { readonly type?: string; readonly body?: string } = {},
    scope?: string,
  ): Promise<string> {
    const { token } = await signToken(this.config, { owner, scope, expires: EXPIRES }, new Date());
    const headers = { authorization: `Bearer ${token}`, ...(type !== undefined && { 'content-type': type }) };
    const response = await fetch(this.url + path, { method, headers, ...(body !== undefined && { body }) });
    const text = await response.text();
    if (response.ok) return text;
    throw new Error(`the service of the demonstration answers ${response.status} ${text}`);
  }
}
