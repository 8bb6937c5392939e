import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { openSqliteReadModel } from '../../src/lists/sqlite/lists.js';
import { generationsIn, pathOf } from '../../src/lists/sqlite/lists-folder.js';
import { type PlantCommand } from '../../src/domain/plant.js';
import { DomainError, type DomainErrorCode } from '../../src/domain/errors.js';
import { type Appended, type EventLog, type ExpectedRevision, type Json } from '../../src/log/event-log.js';
import { decorate } from '../../src/log/decorate.js';
import { type Generation } from '../../src/lists/read-model.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { project } from '../../src/projection/projection.js';
import { readSkipsInForce } from '../../src/commands/read-rebuilds.js';
import { type CommandContext, metadataOf, runCommand } from '../../src/commands/plant-commands.js';
import { alterFile } from './past-triggers.js';
import { LONG_MS } from './quick-time.js';
import { temporaryFolder } from './temporary-folder.js';

/** A folder of real stores, gone with all that was opened in it by `remove`. */
export class Stores {
  readonly folder = temporaryFolder();
  #model: ReadModelStore | undefined;
  readonly #opened: { close(): Promise<void> }[] = [];
  #log: Promise<EventLog> | undefined;

  /** The log, the same each time: one process owns it. */
  log(): Promise<EventLog> {
    this.#log ??= openSqliteEventLog(join(this.folder, 'events.db'), { deadlineMs: LONG_MS });
    return this.#log;
  }

  /** The read model of a log: the same one each time, since a folder belongs to one process. */
  async model(log: EventLog): Promise<ReadModelStore> {
    if (!this.#model) {
      this.#model = await openSqliteReadModel(this.#lists, log.identity());
      this.#opened.push(this.#model);
    }
    return this.#model;
  }

  /** The same, as a process sees it that only reads it. */
  async seenModel(log: EventLog): Promise<ReadModelStore> {
    const model = await openSqliteReadModel(this.#lists, log.identity(), undefined, 'read');
    this.#opened.push(model);
    return model;
  }

  /** Changes the lists of all generations, or of this one, behind everybody's back. */
  tamper(sql: string, parameters: readonly (string | number)[] = [], only?: Generation): void {
    for (const generation of only === undefined ? generationsIn(this.#lists) : [only]) {
      const database = new DatabaseSync(pathOf(this.#lists, generation), { timeout: 5_000 });
      try {
        database.prepare(sql).run(...parameters);
      } finally {
        database.close();
      }
    }
  }

  /** Takes the files of all lists away, or that of this generation. */
  removeLists(only?: number): void {
    rmSync(only === undefined ? this.#lists : pathOf(this.#lists, only as Generation), { recursive: true });
  }

  /** Takes the last events from the log, as if it had been restored to an earlier state. */
  cutLog(events: number): void {
    alterFile(
      join(this.folder, 'events.db'),
      `DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq DESC LIMIT ${events});
       UPDATE sqlite_sequence SET seq = (SELECT max(seq) FROM events) WHERE name = 'events'`,
    );
  }

  /** Closes the log: `log` opens it again. */
  async closeLog(): Promise<void> {
    await (await this.#log)?.close();
    this.#log = undefined;
  }

  async remove(): Promise<void> {
    for (const each of this.#opened.splice(0).reverse()) await each.close();
    await this.closeLog();
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #lists(): string {
    return join(this.folder, 'lists');
  }
}

/** As a store that other processes may write, too: a projector has to keep its lease there. */
export const shared = (model: ReadModelStore): ReadModelStore => decorate(model, { isSole: false });

/** When everything in these tests is decided. */
export const NOON = new Date('2026-01-31T12:00:00.000Z');
export const noon = (): Date => NOON;

export const contextOf = (changes: Partial<CommandContext> = {}): CommandContext => ({
  commandId: randomUUID(),
  actor: { sub: 'anne', clientId: 'app' },
  correlationId: 'correlation-1',
  ...changes,
});

/** Runs a command as another client would. */
export const run = (log: EventLog, owner: string, command: PlantCommand): Promise<Appended> =>
  runCommand({ log, now: noon, skips: () => readSkipsInForce(log) }, owner, command, contextOf());

/** `done`, or the code of the command's refusal. */
export const outcomeOf = async (running: Promise<unknown>): Promise<'done' | DomainErrorCode> => {
  try {
    await running;
    return 'done';
  } catch (error) {
    if (error instanceof DomainError) return error.code;
    throw error;
  }
};

/** Appends an event as it is, also one that the codec refuses. */
export const appendRaw = (
  log: EventLog,
  stream: string,
  type: string,
  data: Json,
  expected: ExpectedRevision = 'none',
  at = NOON,
): Promise<Appended> =>
  log.append(stream, expected, [
    { id: randomUUID(), type, data, metadata: metadataOf('PlantCreated', contextOf(), at) },
  ]);

/** Brings a generation to the end of the log. */
export const catchUp = async (
  log: EventLog,
  model: ReadModelStore,
  generation: Generation,
): Promise<void> => {
  const arrived = new AbortController();
  const onProgress = ({ caughtUp }: { caughtUp: boolean }): Promise<void> => {
    if (caughtUp) arrived.abort();
    return Promise.resolve();
  };
  await project(log, model, generation, onProgress, arrived.signal);
};
