import { randomUUID } from 'node:crypto';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { openAuditKey, originOf } from '../../../src/audit/key.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { GrowingTree, leafHash } from '../../../src/transparency/merkle.js';
import { formatVerifierKey } from '../../../src/transparency/note.js';
import { grown, type NewLeaf } from '../../../src/audit/stored-tree.js';
import { AUDIT_STREAM, plantStream } from '../../../src/domain/stream.js';
import { type EventLog, type NewEvent } from '../../../src/log/event-log.js';
import { type TreeStore } from '../../../src/audit/tree-store.js';
import { all, sampleMetadata } from '../log-events.js';
import { signCheckpoint, type SignerKey } from '../../../src/transparency/sign.js';

/** Between two events of the model, in milliseconds: the last of its records is less than an hour old. */
const EVENT_EVERY_MS = 100;

/** Checkpoints of the model. */
const CHECKPOINTS = 40;

/** A DATA_DIR that was signed, of which copies are altered. All of it is data: it is sent to another process. */
export interface Model {
  /** DATA_DIR as it was left: events.db, tree.db and audit-key.pem. */
  readonly folder: string;
  /** The same when the log held `olderEvents`. */
  readonly older: string;
  readonly olderEvents: number;
  readonly events: number;
  /** The sizes of the stored checkpoints. */
  readonly checkpoints: readonly number[];
  /** The indices of the events that record a checkpoint. */
  readonly records: readonly number[];
  /** When the first event was decided, in milliseconds since 1970. */
  readonly began: number;
}

/** When the model's event with this index was decided, and when the checkpoint of so many events was signed. */
export const timeOf = ({ began }: Pick<Model, 'began'>, index: number): string =>
  new Date(began + index * EVENT_EVERY_MS).toISOString();

/** The stream of the plant with this number. */
export const streamOf = (id: number): string => plantStream(`owner ${id % 50}`, id);

/** Appends leaves to a stored tree and signs it, at a time of its own. */
export const signLeaves = async (
  store: TreeStore,
  key: SignerKey,
  leaves: readonly NewLeaf[],
  signedAt: string,
): Promise<string> => {
  const growth = grown(await store.tree(), leaves);
  await store.append(growth);
  const { size } = growth.tree;
  const root = new GrowingTree(growth.tree).root();
  const note = signCheckpoint({ origin: key.name, size, root }, key);
  await store.saveCheckpoint({ size, root, note, signedAt });
  return note;
};

const createdAt = (id: number, decidedAt: string): NewEvent => ({
  id: randomUUID(),
  type: 'PlantCreated',
  data: { id, name: `n${id}`, tag: '' },
  metadata: sampleMetadata({ decidedAt }),
});

/** Makes the model in a folder: a log of so many events, 40 checkpoints of it, of which the log records two. */
export const makeModel = async (folder: string, events: number): Promise<Model> => {
  const model = {
    folder: join(folder, 'model'),
    older: join(folder, 'older'),
    events,
    began: Date.now() - events * EVENT_EVERY_MS,
  };
  mkdirSync(model.folder);
  let open = await openModel(model.folder);
  const step = Math.floor(events / CHECKPOINTS);
  const checkpoints = Array.from({ length: CHECKPOINTS }, (_, i) =>
    i === CHECKPOINTS - 1 ? events : (i + 1) * step,
  );
  const records: number[] = [];
  let written = 0;
  let olderEvents = 0;
  let record: string | undefined;
  for (const [nth, size] of checkpoints.entries()) {
    if (record !== undefined) {
      const data = {
        key: formatVerifierKey(open.key),
        note: record,
        treeSince: timeOf(model, checkpoints[0] ?? 0),
      };
      const type = records.length === 0 ? 'SigningStarted' : 'CheckpointRecorded';
      const metadata = sampleMetadata({ decidedAt: timeOf(model, written) });
      const event = { id: randomUUID(), type, data, metadata };
      await open.log.append(AUDIT_STREAM, records.length === 0 ? 'none' : 0n, [event]);
      records.push(written);
      written += 1;
    }
    const appends: Promise<unknown>[] = [];
    for (; written < size; written++)
      appends.push(open.log.append(streamOf(written), 'none', [createdAt(written, timeOf(model, written))]));
    await Promise.all(appends);
    const { position } = await open.store.tree();
    const leaves = (await all(open.log.readAll(position))).map((event) => ({
      hash: leafHash(leafOf(event)),
      position: event.position,
    }));
    const note = await signLeaves(open.store, open.key, leaves, timeOf(model, size));
    record = nth === 0 || nth === CHECKPOINTS - 5 ? note : undefined;
    if (nth !== CHECKPOINTS - 12) continue;
    await open.close();
    cpSync(model.folder, model.older, { recursive: true });
    olderEvents = size;
    open = await openModel(model.folder);
  }
  await open.close();
  return { ...model, olderEvents, checkpoints, records };
};

interface OpenModel {
  readonly log: EventLog;
  readonly store: TreeStore;
  readonly key: SignerKey;
  close(): Promise<void>;
}

/** Opens the log, the key and the tree of a DATA_DIR. */
export const openModel = async (folder: string): Promise<OpenModel> => {
  const log = await openSqliteEventLog(join(folder, 'events.db'));
  try {
    const { key } = await openAuditKey(folder, originOf(log.identity()));
    const store = await openSqliteTreeStore(join(folder, 'tree.db'), log.identity());
    const close = async (): Promise<void> => {
      await store.close();
      await log.close();
    };
    return { log, store, key, close };
  } catch (error) {
    await log.close();
    throw error;
  }
};
