import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { restore } from '../../src/log/sqlite/backup.js';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { openSqliteReadModel } from '../../src/lists/sqlite/lists.js';
import { whyNotToBegin, whyNotToStart } from '../../src/service/start-check.js';
import { openSqliteTreeStore } from '../../src/audit/sqlite/tree-store.js';
import { openNote } from '../../src/transparency/checkpoint.js';
import { openAuditKey, originOf } from '../../src/audit/key.js';
import { recheck } from '../../src/audit/recheck.js';
import { readErasures } from '../../src/erasure/erasures.js';
import { openLocalKey } from '../../src/http/auth/local-key.js';
import { lastRun } from '../../src/operations/last-runs.js';
import { plantStream } from '../../src/domain/stream.js';
import { type EventLog, START } from '../../src/log/event-log.js';
import { type ReadModelStore } from '../../src/lists/read-model-store.js';
import { type TreeStore } from '../../src/audit/tree-store.js';
import { all, newEvent } from '../support/log-events.js';
import { never } from '../support/waiting.js';
import { type ListsByFold, type Reference, textOfEvent } from './reference.js';
import { goOn } from './recovered-service.js';
import { BACKUP, DATA, ERASED_OWNER, type Seen } from './recording.js';

/** Seen by clients before a power cut. */
export interface Promised {
  /** The last position of a write that was acknowledged. */
  readonly written: number;
  readonly notes: readonly string[];
  /** An erasure was shown as finished. */
  readonly erased: boolean;
  /** The events of a backup that was reported as made. */
  readonly backup: number | undefined;
}

export const NOTHING_PROMISED: Promised = { written: 0, notes: [], erased: false, backup: undefined };

/** Adds one more thing that was seen. */
export const promisedBy = (before: Promised, seen: Seen): Promised => {
  switch (seen.kind) {
    case 'written':
      return { ...before, written: Math.max(before.written, Number(seen.position)) };
    case 'signed':
      return before.notes.includes(seen.note) ? before : { ...before, notes: [...before.notes, seen.note] };
    case 'erased':
      return { ...before, erased: true };
    case 'backup':
      return { ...before, backup: seen.events };
  }
};

/** Backups that were restored and found right: most states have the same one. */
const goodBackups = new Set<string>();

/** Opens the files of a crash state as the service does, and gathers what is wrong with them. */
export class CrashStateCheck {
  readonly faults: string[] = [];
  readonly #data: string;
  /** True once an erasure is recorded as finished after the service has gone on. */
  #isErased = false;

  constructor(
    private readonly folder: string,
    private readonly reference: Reference,
    private readonly promised: Promised,
    /** Lets a service go on with the files until all that was begun is over, an erasure included. */
    private readonly goesOn: boolean,
  ) {
    this.#data = join(folder, DATA);
  }

  /** Returns one line for each fault. */
  async run(): Promise<readonly string[]> {
    for (const part of [() => this.#keys(), () => this.#backup(), () => this.#stores()]) {
      try {
        await part();
      } catch (error) {
        this.faults.push(`it cannot be opened: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    return this.faults;
  }

  #check(isRight: boolean, fault: () => string): void {
    if (!isRight) this.faults.push(fault());
  }

  /** Keys, and records of last runs: whole, or not there. */
  async #keys(): Promise<void> {
    const { promised, reference } = this;
    const hasSigned = promised.notes.length > 0;
    await Promise.all([lastRun(this.#data, 'verify'), lastRun(this.#data, 'backup')]);
    for (const [file, text, isNeeded] of [
      ['signing-key.json', reference.signingKey, promised.written > 0],
      ['audit-key.pem', reference.auditKey, hasSigned],
    ] as const) {
      const found = existsSync(join(this.#data, file))
        ? readFileSync(join(this.#data, file), 'utf8')
        : undefined;
      this.#check(
        found === text || (found === undefined && !isNeeded),
        () => `${file} is ${found ?? 'lost'}`,
      );
    }
  }

  async #backup(): Promise<void> {
    const backup = join(this.folder, BACKUP);
    const isThere = existsSync(backup);
    this.#check(isThere || this.promised.backup === undefined, () => 'the backup is lost');
    if (!isThere) return;
    const digest = createHash('sha256').update(readFileSync(backup)).digest('hex');
    if (goodBackups.has(digest)) return;
    const file = join(this.folder, 'restored', 'events.db');
    const { events } = await restore(backup, file, { onProgress: () => undefined, signal: never() });
    this.#check(events >= (this.promised.backup ?? 0), () => `the backup has ${events} events`);
    const log = await openSqliteEventLog(file);
    await this.#events(log, 0);
    await log.close();
    if (this.faults.length === 0) goodBackups.add(digest);
  }

  async #stores(): Promise<void> {
    if (this.promised.erased) this.#erased();
    const files = ['events.db', 'lists', 'tree.db'].map((name) => join(this.#data, name));
    const [logFile = '', lists = '', treeFile = ''] = files;
    const beside = { lists, tree: treeFile };
    const refused = whyNotToStart(logFile, beside);
    if (refused !== undefined) throw new Error(refused);
    const opened: { close(): Promise<void> }[] = [];
    try {
      const log = await openSqliteEventLog(logFile);
      opened.unshift(log);
      if ((await log.head()) === START) {
        const foreign = whyNotToBegin(logFile, log.identity(), beside);
        if (foreign !== undefined) throw new Error(foreign);
      }
      const model = await openSqliteReadModel(lists, log.identity(), (warning) => this.faults.push(warning));
      opened.unshift(model);
      const tree = await openSqliteTreeStore(treeFile, log.identity());
      opened.unshift(tree);
      await this.#opened(log, model, tree);
    } finally {
      for (const store of opened) await store.close();
    }
    if (this.#isErased) this.#erased();
  }

  async #opened(log: EventLog, model: ReadModelStore, tree: TreeStore): Promise<void> {
    await openLocalKey(this.#data);
    const { key } = await openAuditKey(this.#data, originOf(log.identity()));
    await this.#events(log, this.promised.written);
    await all(log.check(START));
    await this.#lists(log, model);
    const options = {
      now: () => new Date(),
      yieldToLoop: () => Promise.resolve(),
      patienceMs: 0,
      keys: [key],
    };
    const alarm = (await tree.alarm()) ?? (await recheck(log, tree, options, never()));
    this.#check(!alarm, () => `the tree contradicts the log: ${alarm?.message ?? ''}`);
    for (const note of this.promised.notes) {
      const { checkpoint } = openNote(Buffer.from(note), [key]);
      const stored = await tree.checkpoint(checkpoint.size);
      this.#check(
        stored !== undefined && Buffer.from(stored.root).equals(checkpoint.root),
        () => `the checkpoint of ${checkpoint.size} that was served is ${stored ? 'another' : 'lost'}`,
      );
    }
    if (this.faults.length > 0) return;
    const fault = await goOn({ log, model, tree, key }, this.reference, this.goesOn);
    this.#check(fault === undefined, () => fault ?? '');
    this.#isErased = (await readErasures(log)).all.some(({ state }) => state === 'finished');
    await log.append(plantStream('after', 1), 'none', [newEvent()]);
  }

  /** The log is a beginning of what it came to be, with everything that was acknowledged. */
  async #events(log: EventLog, least: number): Promise<void> {
    const { original, final, erasedAt } = this.reference;
    const events = await all(log.readAll(START));
    this.#check(
      events.length >= least,
      () => `${events.length} events are left of ${least} acknowledged ones`,
    );
    const expected = events.length > erasedAt ? final : original;
    for (const [index, event] of events.entries()) {
      const known = expected[index];
      if (known && textOfEvent(known) === textOfEvent(event)) continue;
      this.faults.push(`event ${event.position} is another one: ${textOfEvent(event)}`);
      return;
    }
  }

  /** Each generation is the fold of the log at its positions. */
  async #lists(log: EventLog, model: ReadModelStore): Promise<void> {
    const head = await log.head();
    for (const { generation } of await model.generations()) {
      const anchors = await model.anchors(generation);
      this.#check(
        anchors.every(({ position }) => position <= head),
        () => `generation ${generation} is ahead of the log`,
      );
      const { originalLists, finalLists } = this.reference;
      const owners = new Set([...originalLists.owners, ...(await all(model.owners(generation)))]);
      for (const owner of owners) {
        const { rows, position } = await model.page(generation, owner, undefined, 10_000);
        const isRight = (lists: ListsByFold): boolean =>
          lists.textAt(owner, position) === JSON.stringify(rows);
        this.#check(
          isRight(originalLists) || isRight(finalLists),
          () => `generation ${generation} does not hold the fold of ${owner} at ${position}`,
        );
      }
    }
  }

  /**
   * No file has anything of the erased owner. FILE-shm is left out: where SQLite makes it again from a write-ahead log
   * without frames, its unused part is what the memory of this process held, which has read other states. The first
   * frame that is written fills that part with zeros.
   */
  #erased(): void {
    const names = readdirSync(this.#data, { recursive: true, encoding: 'utf8' });
    for (const name of names.filter(
      (one) => !one.endsWith('-shm') && statSync(join(this.#data, one)).isFile(),
    ))
      this.#check(
        !readFileSync(join(this.#data, name)).includes(ERASED_OWNER),
        () => `${name} has the name of an erased owner`,
      );
  }
}
