import { generateKeyPairSync } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '../../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../../src/log/sqlite/event-log.js';
import { openSqliteTreeStore } from '../../../src/audit/sqlite/tree-store.js';
import { openAuditKey, originOf } from '../../../src/audit/key.js';
import { openCheckpoint } from '../../../src/transparency/checkpoint.js';
import { leafOf } from '../../../src/audit/leaf.js';
import { GrowingTree, leafHash } from '../../../src/transparency/merkle.js';
import { type NewLeaf } from '../../../src/audit/stored-tree.js';
import { AUDIT_STREAM } from '../../../src/domain/stream.js';
import { START } from '../../../src/log/event-log.js';
import { newEvent } from '../log-events.js';
import { alterFile } from '../past-triggers.js';
import { type Expected, type Kind, type Place, type State } from './kind.js';
import { signLeaves, streamOf, timeOf } from './model.js';
import { signCheckpoint } from '../../../src/transparency/sign.js';

/** The first byte of a page. https://sqlite.org/fileformat2.html#b_tree_pages */
const INDEX_LEAF = 10;
const TABLE_LEAF = 13;

const pageBytesOf = (file: Buffer): number => file.readUInt16BE(16);

/** Writes bytes into a file, and leaves its size and its inode as they are. */
const overwrite = (file: string, bytes: Uint8Array, at: number): void => {
  const handle = openSync(file, 'r+');
  writeSync(handle, bytes, 0, bytes.length, at);
  closeSync(handle);
};

/** Finds a text in a page of this type, with no digit behind it. */
const found = (file: Buffer, type: number, text: string): number | undefined => {
  const pageBytes = pageBytesOf(file);
  for (let at = file.indexOf(text); at >= 0; at = file.indexOf(text, at + 1)) {
    const behind = file[at + text.length] ?? 0;
    if (behind >= 0x30 && behind <= 0x39) continue;
    if (file[at - (at % pageBytes)] === type) return at;
  }
  return undefined;
};

/** True if SQLite finds an error: pages keep what is not used any more, and is not read. */
const isFaulty = (file: string): boolean => {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  try {
    const row = database.prepare('PRAGMA integrity_check(1)').get() as { integrity_check: string };
    return row.integrity_check !== 'ok';
  } finally {
    database.close();
  }
};

/** Changes the last letter of a text, which `textOf` makes of a plant's number, in pages of this type. */
const letter =
  (type: number, textOf: (id: number) => string, expected: (id: number) => Expected): Kind['alter'] =>
  ({ folder, model: { events, records }, random }) => {
    const file = join(folder, 'events.db');
    const bytes = readFileSync(file);
    for (;;) {
      const id = random(events);
      const text = textOf(id);
      const at = records.includes(id) ? undefined : found(bytes, type, text);
      if (at === undefined) continue;
      const last = at + text.length - 1;
      overwrite(file, Buffer.from('X'), last);
      if (type !== INDEX_LEAF || isFaulty(file)) return expected(id);
      overwrite(file, bytes.subarray(last, last + 1), last);
    }
  };

/** Fills one page with zeros. */
const zeroPage =
  (name: string, type: number): Kind['alter'] =>
  ({ folder, random }) => {
    const file = join(folder, name);
    const bytes = readFileSync(file);
    const pageBytes = pageBytesOf(bytes);
    const pages = Array.from({ length: bytes.length / pageBytes }, (_, page) => page * pageBytes).filter(
      (at) => at > 0 && bytes[at] === type,
    );
    overwrite(file, Buffer.alloc(pageBytes), pages[random(pages.length)] ?? 0);
    return { says: name.replace('.', '\\.') };
  };

/** Puts a file in the place of another: by writing over it, or by its name. */
const put = (from: string, to: string, random: Place['random']): void => {
  if (random(2) === 0) {
    copyFileSync(from, to);
    return;
  }
  copyFileSync(from, `${to}.new`);
  renameSync(`${to}.new`, to);
};

const restoreOlder =
  (says: string, ...names: readonly string[]): Kind['alter'] =>
  ({ folder, model, random }) => {
    for (const name of names) put(join(model.older, name), join(folder, name), random);
    return { says };
  };

const remove = ({ folder }: Place, ...names: readonly string[]): void => {
  for (const name of names) rmSync(join(folder, name));
};

const changeName = ({ folder }: Place, seq: number): void => {
  alterFile(
    join(folder, 'events.db'),
    `UPDATE events SET data = replace(data, '"n', '"N') WHERE seq = ${seq} AND type = 'PlantCreated'`,
  );
};

/** Alters an event and signs everything again, as someone can who has all files and the key. */
const forge = async ({ folder, model }: Place, index: number): Promise<void> => {
  const events = join(folder, 'events.db');
  alterFile(events, `UPDATE events SET data = replace(data, '"n', '"N') WHERE seq = ${index + 1}`);
  const log = await openSqliteEventLog(events);
  const treeFile = join(folder, 'tree-forged.db');
  const { key } = await openAuditKey(folder, originOf(log.identity()));
  const store = await openSqliteTreeStore(treeFile, log.identity());
  const roots = new Map<number, Uint8Array>();
  const records: { readonly seq: number; readonly data: string }[] = [];
  const whole = new GrowingTree();
  let leaves: NewLeaf[] = [];
  for await (const event of log.readAll(START)) {
    let { data } = event;
    if (event.stream === AUDIT_STREAM) {
      const record = data as { note: string };
      const { size } = openCheckpoint(record.note, key.name, [key]);
      const root = roots.get(size) ?? new Uint8Array(32);
      data = { ...record, note: signCheckpoint({ origin: key.name, size, root }, key) };
      records.push({ seq: whole.size + 1, data: JSON.stringify(data) });
    }
    leaves.push({ hash: leafHash(leafOf({ ...event, data })), position: event.position });
    whole.append(leaves.at(-1)?.hash ?? new Uint8Array(), () => undefined);
    if (!model.checkpoints.includes(whole.size)) continue;
    await signLeaves(store, key, leaves, timeOf(model, whole.size));
    roots.set(whole.size, whole.root());
    leaves = [];
  }
  await store.close();
  await log.close();
  for (const { seq, data } of records)
    alterFile(events, `UPDATE events SET data = '${data.replaceAll("'", "''")}' WHERE seq = ${seq}`);
  renameSync(treeFile, join(folder, 'tree.db'));
};

const anyEvent = ({ model: { records }, random }: Place, from: number, below: number): number => {
  for (;;) {
    const index = from + random(below - from);
    if (!records.includes(index)) return index;
  }
};

/** While nothing runs: under a running service these would be seen by their files before anything is read. */
const STOPPED: readonly State[] = ['restarted', 'started'];

/** Alterations of files that are no SQL, and of several of them. */
export const FILE_KINDS: Readonly<Record<string, Kind>> = {
  'index of the log: a letter': {
    alter: letter(INDEX_LEAF, streamOf, () => ({
      says: 'events\\.db contradicts itself: .* the index was altered',
    })),
  },
  'page of the log: a letter': {
    alter: letter(
      TABLE_LEAF,
      (id) => `"name":"n${id}`,
      (id) => ({ indices: [id], says: 'events\\.db was written over' }), // the latter where it is one of the first pages
    ),
  },
  'page of the log: zeros': { alter: zeroPage('events.db', TABLE_LEAF) },
  'page of the index: zeros': { alter: zeroPage('events.db', INDEX_LEAF) },
  'page of the tree: zeros': { alter: zeroPage('tree.db', TABLE_LEAF) },
  'file of the log: its end cut off': {
    alter: ({ folder, random }) => {
      const file = join(folder, 'events.db');
      truncateSync(file, Math.floor((statSync(file).size * (50 + random(45))) / 100));
      return { says: 'events\\.db' };
    },
  },
  'event: the last one, before it was signed': {
    states: STOPPED,
    alter: async (place) => {
      const { folder, model } = place;
      const log = await openSqliteEventLog(join(folder, 'events.db'));
      const event = { ...newEvent({ id: model.events, name: 'n', tag: '' }), type: 'PlantCreated' };
      const metadata = { ...event.metadata, decidedAt: new Date().toISOString() };
      await log.append('plant-owner/new', 'none', [{ ...event, metadata }]);
      await log.close();
      changeName(place, model.events + 1);
      return { indices: [model.events] };
    },
  },
  'snapshot: events.db': {
    alter: restoreOlder('events\\.db|the log ends after|that the log does not hold', 'events.db'),
  },
  'snapshot: tree.db': { alter: restoreOlder('tree\\.db', 'tree.db') },
  'snapshot: events.db and tree.db': { alter: restoreOlder('events\\.db|tree\\.db', 'events.db', 'tree.db') },
  'tree.db removed': {
    alter: (place) => {
      remove(place, 'tree.db');
      return { says: 'tree\\.db' };
    },
  },
  'tree.db removed, an event before the last record': {
    alter: (place) => {
      const last = place.model.checkpoints.at(-5) ?? 0;
      changeName(place, 1 + anyEvent(place, 0, last));
      remove(place, 'tree.db');
      return { says: 'and its first .* events have another root now|tree\\.db was removed or moved' };
    },
  },
  'tree.db removed, an event after the last record': {
    states: STOPPED,
    alter: (place) => {
      const { events, records } = place.model;
      changeName(place, 1 + anyEvent(place, (records.at(-1) ?? 0) + 1, events));
      remove(place, 'tree.db');
      return { says: 'tree\\.db' };
    },
  },
  'audit key: removed': {
    alter: (place) => {
      remove(place, 'audit-key.pem');
      return { says: 'the key was changed, lost or replaced' };
    },
  },
  'audit key: another one': {
    alter: ({ folder }) => {
      const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
      writeFileSync(join(folder, 'audit-key.pem'), pem);
      return { says: 'the key was changed, lost or replaced' };
    },
  },
  'audit key: damaged': {
    alter: ({ folder, random }) => {
      const file = join(folder, 'audit-key.pem');
      const pem = readFileSync(file);
      overwrite(file, Buffer.from('!'), 40 + random(pem.length - 80));
      return { says: 'audit-key\\.pem is damaged' };
    },
  },
  'tree.db and audit key removed': {
    alter: (place) => {
      remove(place, 'tree.db', 'audit-key.pem');
      return { says: 'tree\\.db|the key was changed, lost or replaced' };
    },
  },
  'everything made and signed again with the key': {
    states: STOPPED,
    alter: async (place) => {
      const index = anyEvent(place, 0, place.model.events);
      await forge(place, index);
      return { indices: [index] };
    },
  },
};
