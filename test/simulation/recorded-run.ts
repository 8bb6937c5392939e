import { mkdirSync, openSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { plantStream } from '../../src/domain/stream.js';
import { type Answer, Connection, type Sent } from '../support/history-client.js';
import { runCli } from '../support/http-cli.js';
import { TestService } from '../support/service.js';
import { until } from '../support/waiting.js';
import { BACKUP, DATA, ERASED_OWNER, MARKS, type RunReport, type Seen } from './recording.js';

const OWNERS = ['alice', 'bob', 'Zoë/1', ERASED_OWNER] as const;

/** Clients of each owner, so that commits have more than one append. */
const CLIENTS = 2;

/**
 * Has a service do all that it does with files, and reports what its clients have seen: a first start, creates and
 * deletes, checkpoints, a backup, an erasure, a rebuild, a process that is killed, a stop, further starts.
 */
class RecordedRun {
  readonly #seen: Record<string, Seen> = {};
  readonly #marks: number;
  #requests = 0;
  #plants = 0;
  /** Clients create no more plants than that. */
  #most = 0;
  #stopping = false;
  /** True while the owner that is erased writes. */
  #isThere = true;

  private constructor(
    private readonly folder: string,
    private readonly service: TestService,
  ) {
    this.#marks = openSync(join(folder, MARKS), 'a');
  }

  /** `events`: how many each of its parts adds at least. */
  static async record(folder: string, report: string, events: number): Promise<void> {
    mkdirSync(join(folder, 'away'));
    const service = await TestService.start({ DATA_DIR: join(folder, DATA) });
    const run = new RecordedRun(folder, service);
    await run.#first(events);
    await service.start();
    await run.#second(events);
    await service.start();
    await run.#load(() => run.#written(events));
    await service.stop();
    writeFileSync(report, JSON.stringify({ seen: run.#seen } satisfies RunReport));
  }

  /** Writes, checkpoints and a backup, and a stop, which brings everything into the databases. */
  async #first(events: number): Promise<void> {
    await this.#load(async () => {
      await this.#written(events);
      this.#most += events;
      const backup = await this.#plantsCommand('backup', '--to', join(this.folder, BACKUP));
      this.#mark('backup', { kind: 'backup', events: backup.events as number });
    });
    await this.service.stop();
  }

  /** An erasure, a rebuild, and a process that is killed. */
  async #second(events: number): Promise<void> {
    await this.#load(async () => {
      await this.#written(events);
      this.#most += events;
      await this.#erase();
      this.#most += events;
      await this.#plantsCommand('rebuild');
      await this.#written(events);
      this.#most += events;
      await this.#reached(this.#most - events / 2);
      await this.#stopped();
      await this.service.kill();
    });
  }

  /** Stops the process between two calls: the effect of a call that a kill interrupts is not known. */
  async #stopped(): Promise<void> {
    const tasks = `/proc/${this.service.pid}/task`;
    const isStopped = (task: string): boolean =>
      /\) [tT] /.test(readFileSync(`${tasks}/${task}/stat`, 'utf8'));
    this.service.signal('SIGSTOP');
    let looks = 0; // at each call it stands still for strace, too
    await until(() => (looks = readdirSync(tasks).every(isStopped) ? looks + 1 : 0) > 20);
  }

  async #plantsCommand(...args: string[]): Promise<Record<string, unknown>> {
    const { status, stdout, stderr } = await runCli([...args, '--json'], this.service.env);
    if (status !== 0) throw new Error(`plants ${args.join(' ')}: ${stderr}`);
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>;
  }

  async #erase(): Promise<void> {
    this.#isThere = false;
    const token = await this.service.token('edda', 'plants:erase');
    const connection = new Connection();
    const body = JSON.stringify({ owner: ERASED_OWNER, reason: 'asked' });
    const path = '/operations/erasures';
    const ordered = await this.#send(connection, token, { method: 'POST', path, body });
    const { erasure } = JSON.parse(ordered.answer.body) as { erasure: string };
    for (;;) {
      const shown = await this.#send(connection, token, { method: 'GET', path: `${path}/${erasure}` });
      if ((JSON.parse(shown.answer.body) as { state: string }).state !== 'finished') continue;
      this.#seen[shown.id] = { kind: 'erased', erasure };
      break;
    }
    connection.close();
  }

  /** Has clients write, and read checkpoints, while `work` goes on; they end when the service does. */
  async #load(work: () => Promise<void>): Promise<void> {
    this.#stopping = false;
    await this.service.ready();
    const clients = OWNERS.flatMap((owner) => Array.from({ length: CLIENTS }, () => this.#write(owner)));
    await work();
    this.#stopping = true;
    await Promise.all(clients);
  }

  async #write(owner: string): Promise<void> {
    const token = await this.service.token(owner);
    const connection = new Connection();
    const isOver = (): boolean => this.#stopping || (!this.#isThere && owner === ERASED_OWNER);
    for (;;) {
      await until(() => isOver() || this.#plants < this.#most);
      if (isOver()) break;
      const plant = (this.#plants += 1);
      const stream = plantStream(owner, plant);
      const body = JSON.stringify({ id: plant, name: `${owner} ${'fern '.repeat(plant % 20)}`, tag: owner });
      try {
        const made = await this.#send(connection, token, { method: 'POST', path: '/plants', body });
        this.#noteWrite(made, stream, 'PlantCreated');
        if (plant % 4 === 1) await this.#readCheckpoint(connection, token);
        if (plant % 4 !== 0) continue;
        const path = `/plants/${plant}`;
        const deleted = await this.#send(connection, token, { method: 'DELETE', path });
        this.#noteWrite(deleted, stream, 'PlantDeleted');
      } catch {
        return; // it was killed
      }
    }
    connection.close();
  }

  #noteWrite({ id, answer }: { readonly id: string; readonly answer: Answer }, stream: string, type: string) {
    const position = answer.headers['plants-position'];
    if (answer.status < 300 && typeof position === 'string')
      this.#seen[id] = { kind: 'written', position, stream, type };
  }

  async #readCheckpoint(connection: Connection, token: string): Promise<void> {
    const sent = { method: 'GET', path: '/log/checkpoint' } as const;
    const { id, answer } = await this.#send(connection, token, sent);
    if (answer.status === 200) this.#seen[id] = { kind: 'signed', note: answer.body };
  }

  async #send(
    connection: Connection,
    token: string,
    sent: Sent,
  ): Promise<{ readonly id: string; readonly answer: Answer }> {
    const id = `run-${(this.#requests += 1)}`;
    const headers = {
      authorization: `Bearer ${token}`,
      'x-request-id': id,
      ...(sent.body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    return { id, answer: await connection.send(this.service.url, { ...sent, headers }) };
  }

  /** Lets clients create so many plants more, and waits for that. */
  async #written(events: number): Promise<void> {
    this.#most = this.#plants + events;
    await this.#reached(this.#most);
  }

  async #reached(plants: number): Promise<void> {
    await until(() => this.#plants >= plants);
  }

  #mark(id: string, seen: Seen): void {
    this.#seen[id] = seen;
    writeSync(this.#marks, `${id}\n`);
  }
}

const [, , folder = '', report = '', events = ''] = process.argv;
await RecordedRun.record(folder, report, Number(events));
