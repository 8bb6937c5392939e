import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { NO_SKIPS } from '../../src/domain/skips.js';
import { EventRefused } from '../../src/domain/errors.js';
import { type Position, type RecordedEvent, START } from '../../src/log/event-log.js';
import { type RowChange } from '../../src/lists/read-model.js';
import { changeOf } from '../../src/projection/changes.js';
import { all } from '../support/log-events.js';
import { Disk, type Files } from './disk.js';
import { Random } from './random.js';
import { DATA, type Step } from './recording.js';

/** Result of the recorded run, which each crash state is compared with. */
export interface Reference {
  /** The events before some of them were erased. */
  readonly original: readonly RecordedEvent[];
  /** All events at the end. */
  readonly final: readonly RecordedEvent[];
  /** The number of events before the one that records the erasure. */
  readonly erasedAt: number;
  readonly originalLists: ListsByFold;
  readonly finalLists: ListsByFold;
  readonly signingKey: string;
  readonly auditKey: string;
}

/** An event, to be compared. */
export const textOfEvent = ({ revision, ...event }: RecordedEvent): string =>
  JSON.stringify({ ...event, revision: String(revision) });

/** The lists of all owners at any position, by the events. */
export class ListsByFold {
  readonly #changes = new Map<string, RowChange[]>();

  constructor(events: readonly RecordedEvent[]) {
    for (const event of events) {
      const change = changeOf(event, NO_SKIPS);
      if (!change || change instanceof EventRefused) continue;
      const changes = this.#changes.get(change.owner) ?? [];
      this.#changes.set(change.owner, [...changes, change]);
    }
  }

  get owners(): string[] {
    return [...this.#changes.keys()];
  }

  /** The rows of an owner at a position, in order of id, as JSON. */
  textAt(owner: string, upTo: Position): string {
    const rows = new Map<number, string>();
    for (const { position, id, row } of this.#changes.get(owner) ?? []) {
      if (position > upTo) break;
      if (row === undefined) rows.delete(id);
      else rows.set(id, row);
    }
    const ordered = [...rows].sort(([one], [other]) => one - other);
    return JSON.stringify(ordered.map(([id, row]) => ({ id, row })));
  }
}

/** Writes the files of a state into a new folder in `parent`, and returns it. */
export const placed = (files: Files, parent: string): string => {
  const folder = join(parent, randomUUID());
  mkdirSync(folder);
  for (const [path, content] of files) {
    const file = join(folder, path);
    mkdirSync(content === 'folder' ? file : dirname(file), { recursive: true });
    if (content !== 'folder') writeFileSync(file, content, { mode: 0o600 });
  }
  return folder;
};

/** Finds the result of the run by its steps alone. */
export const referenceOf = async (steps: readonly Step[], parent: string): Promise<Reference> => {
  const final = await eventsAfter(steps, parent);
  const erasedAt = final.events.findIndex(({ type }) => type === 'OwnerErased');
  // The last state before the erasure: it and its record are one transaction.
  let [before, after] = [0, steps.length];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    const { events } = await eventsAfter(steps.slice(0, middle), parent);
    if (events.length > erasedAt) after = middle;
    else before = middle;
  }
  const { events: original } = await eventsAfter(steps.slice(0, before), parent);
  return {
    original,
    final: final.events,
    erasedAt,
    originalLists: new ListsByFold(original),
    finalLists: new ListsByFold(final.events),
    signingKey: final.signingKey,
    auditKey: final.auditKey,
  };
};

const eventsAfter = async (steps: readonly Step[], parent: string) => {
  const disk = new Disk();
  for (const step of steps) disk.apply(step);
  const folder = placed(disk.afterPowerCut('all', new Random(0)), parent);
  const data = join(folder, DATA);
  mkdirSync(data, { recursive: true });
  const textOf = (file: string): string => {
    try {
      return readFileSync(join(data, file), 'utf8');
    } catch {
      return ''; // not yet made
    }
  };
  const log = await openSqliteEventLog(join(data, 'events.db'));
  const events = await all(log.readAll(START));
  await log.close();
  const keys = { signingKey: textOf('signing-key.json'), auditKey: textOf('audit-key.pem') };
  rmSync(folder, { recursive: true });
  return { events, ...keys };
};
