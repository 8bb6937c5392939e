import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { openSqliteReadModel } from '../../src/lists/sqlite/lists.js';
import { openSqliteTreeStore } from '../../src/audit/sqlite/tree-store.js';
import { Auditor } from '../../src/audit/auditor.js';
import { type AuditorStatus } from '../../src/audit/auditor-status.js';
import { signerKey } from '../../src/audit/key.js';
import { recheck } from '../../src/audit/recheck.js';
import { Eraser, type ErasureStep } from '../../src/erasure/eraser.js';
import { readErasures } from '../../src/erasure/erasures.js';
import { orderErasure } from '../../src/erasure/order.js';
import { type EventLog } from '../../src/log/event-log.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { type TreeStore } from '../../src/audit/tree-store.js';
import { Projector } from '../../src/projection/projector.js';
import { IdempotentCommands } from '../../src/commands/idempotency.js';
import { runCommand } from '../../src/commands/plant-commands.js';
import { LONG_MS } from './quick-time.js';
import { temporaryFolder } from './temporary-folder.js';
import { until } from './waiting.js';

export const now = (): Date => new Date();
export const operator = { actor: { sub: 'operator' }, correlationId: 'test' };
const yieldToLoop = (): Promise<unknown> => nextTurn();

/** Name of who is erased in tests; it stands in no other text. */
export const MARKER = 'MARKER-of-somebody';

/** Log, lists and tree in one folder, with a projector and an auditor at work. */
export class ErasingStores {
  readonly folder = temporaryFolder();
  readonly #key = signerKey('plants/test', generateKeyPairSync('ed25519').privateKey);
  /** Erasures after which the lists were restored. */
  readonly foreign: string[] = [];
  log!: EventLog;
  model!: ReadModelStore;
  tree!: TreeStore;
  /** Time that a rebuild is kept open after its switch; undefined for the projector's own. */
  graceMs: number | undefined;
  #ends: (() => Promise<unknown>)[] = [];

  private constructor(
    private readonly openLog: ((folder: string) => Promise<EventLog>) | undefined,
    private readonly projects: boolean,
  ) {}

  /** `openLog`: another log than that of a file in the folder. `projects`: whether there are lists, which erasures wait for. */
  static async open(
    openLog?: (folder: string) => Promise<EventLog>,
    { projects = true } = {},
  ): Promise<ErasingStores> {
    const stores = new ErasingStores(openLog, projects);
    await stores.open();
    return stores;
  }

  async open(): Promise<void> {
    this.log = await (this.openLog?.(this.folder) ??
      openSqliteEventLog(this.file('events.db'), { deadlineMs: LONG_MS }));
    this.model = await openSqliteReadModel(this.file('lists'), this.log.identity());
    this.tree = await openSqliteTreeStore(this.file('tree.db'), this.log.identity());
    const projector = new Projector(this.log, this.model, now, randomUUID(), () => undefined, {
      onForeign: (reason) => this.foreign.push(reason),
      ...(this.graceMs !== undefined && { graceMs: this.graceMs }),
    });
    this.startAuditor(this.log, this.tree);
    if (this.projects) this.#start((signal) => projector.run(signal));
  }

  async close(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
    this.#ends = [];
    for (const store of [this.tree, this.model, this.log]) await store.close();
  }

  /** Copies a file or folder, which is complete then: the stores are closed for it, and opened again. */
  async copyFile(name: string, copy: string): Promise<void> {
    await this.close();
    cpSync(this.file(name), this.file(copy), { recursive: true });
    await this.open();
  }

  /** Puts a copy in the place of a file or folder. */
  putCopyBack(copy: string, name: string): void {
    rmSync(this.file(name), { recursive: true });
    renameSync(this.file(copy), this.file(name));
    for (const suffix of ['-wal', '-shm']) rmSync(this.file(name) + suffix, { force: true });
  }

  async remove(): Promise<void> {
    await this.close();
    rmSync(this.folder, { recursive: true });
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  /** The files in which a text occurs as it stands. */
  filesWith(text: string): string[] {
    return readdirSync(this.folder, { recursive: true, encoding: 'utf8' }).filter(
      (file) => statSync(this.file(file)).isFile() && readFileSync(this.file(file)).includes(text),
    );
  }

  #start(run: (signal: AbortSignal) => Promise<void>): () => Promise<void> {
    const over = new AbortController();
    const running = run(over.signal);
    const end = async (): Promise<void> => {
      over.abort();
      await running;
    };
    this.#ends.push(end);
    return end;
  }

  startAuditor(
    log: EventLog,
    tree: TreeStore,
    onState: (status: AuditorStatus) => void = () => undefined,
  ): { readonly auditor: Auditor; readonly end: () => Promise<void> } {
    const times = { patienceMs: 0, recheckMs: 3_600_000 };
    const auditor = new Auditor(log, tree, this.#key, { now, yieldToLoop, ...times, onState });
    return { auditor, end: this.#start((signal) => auditor.run(signal)) };
  }

  startEraser(onStep: (step: ErasureStep) => void = () => undefined, tree = this.tree) {
    const problems: string[] = [];
    const eraser = new Eraser(this.log, this.model, tree, {
      now,
      onStep,
      onDone: () => undefined,
      onProblem: (reason) => problems.push(reason),
    });
    return { eraser, problems, end: this.#start((signal) => eraser.run(signal)) };
  }

  async create(owner: string, id: number, idempotencyKey?: string): Promise<void> {
    const { log } = this;
    const dependencies = { log, now, skips: () => Promise.resolve(new Set<string>()) };
    const command = { type: 'CreatePlant', id, name: `${owner} ${id}`, tag: owner } as const;
    const context = { commandId: randomUUID(), actor: { sub: owner }, correlationId: owner };
    if (idempotencyKey === undefined) await runCommand(dependencies, owner, command, context);
    else await new IdempotentCommands(dependencies).run(owner, command, context, idempotencyKey);
  }

  /** The rows of an owner once the lists have reached the end of the log. */
  async listOf(owner: string): Promise<string> {
    const head = await this.log.head();
    await until(async () => (await this.model.generations()).some(({ active }) => active));
    await until(async () => (await this.model.list(owner, undefined, 1_000)).position >= head);
    return JSON.stringify((await this.model.list(owner, undefined, 1_000)).rows);
  }

  order(owner: string, reason = 'asked'): Promise<string> {
    return orderErasure(this.log, { erasure: randomUUID(), owner, reason }, operator, now);
  }

  async finished(erasure: string): Promise<void> {
    const isFinished = async (): Promise<boolean> =>
      (await readErasures(this.log)).all.some((one) => one.erasure === erasure && one.state === 'finished');
    await until(isFinished);
  }

  /** Resolves when a checkpoint of all events of the log was signed. */
  async signed(): Promise<void> {
    const head = await this.log.head();
    const isSigned = async (): Promise<boolean> => {
      const { size, position } = await this.tree.tree();
      return position >= head && (await this.tree.latestCheckpoint())?.size === size;
    };
    await until(isSigned);
  }

  /** Compares a log with the present tree, or another one. */
  recheck(log = this.log, tree = this.tree) {
    const options = { now, yieldToLoop, patienceMs: 0, keys: [this.#key] };
    return recheck(log, tree, options, new AbortController().signal);
  }
}
