import { type Position } from '../../log/event-log.js';
import {
  type Alarm,
  AlarmStands,
  type Mark,
  type SignedCheckpoint,
  StateAltered,
  type StoredCosignature,
  type StateGrowth,
  type StateSnapshot,
  type StoredState,
  type StoredTree,
  type TreeGrowth,
  TreeMoved,
  TreeStore,
  TreeUnavailable,
} from '../tree-store.js';
import { type Database, explainSqliteError, prepareRows, SQLITE, sqliteCode } from '../../sqlite/database.js';
import { nodesOf, storedEntries } from '../../transparency/read-trie.js';
import { FileNames, type FileFault } from '../../sqlite/file-names.js';
import { assertScrubbed, inTransaction, SCRUB } from '../../sqlite/open-file.js';
import { nodeReader, stateChecker, stateReader, stateWrites } from './tree-state.js';
import { keepAdvice, openTreeFile } from './tree-schema.js';

const PORT_ERRORS = [TreeUnavailable, TreeMoved, AlarmStands, StateAltered] as const;

/** The port's error for what SQLite has thrown. */
const treeError = (thrown: unknown, file: string): Error => {
  if (thrown instanceof Error && PORT_ERRORS.some((known) => thrown instanceof known)) return thrown;
  const code = sqliteCode(thrown);
  if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB)
    return unavailable(`${file} is damaged, or no SQLite database: ${keepAdvice(file)}`, { cause: thrown });
  return unavailable(explainSqliteError(thrown, file), { cause: thrown });
};

const unavailable = (message: string, options?: ErrorOptions): TreeUnavailable =>
  new TreeUnavailable(message, options);

/**
 * The error for a file that was taken away. No new tree is begun automatically, as signed checkpoints cannot be made
 * again.
 */
const takenAway = (file: string, { path, message }: FileFault): TreeUnavailable =>
  unavailable(
    `${message}, and nothing is signed any more: ${
      path.endsWith('-wal') || path.endsWith('-shm')
        ? `stop the service in order (SIGTERM, not SIGKILL), by which everything that was signed comes into ${file}; move aside what stands at ${path}, then start again`
        : `keep ${file}-wal; stop the service in order (SIGTERM, not SIGKILL), put ${file} back from where it was moved or from a backup, then start again`
    }`,
  );

/** Bytes of a hash. */
const HASH_BYTES = 32;

/** The queries and writes of a connection. They throw SQLite's errors. */
const prepare = (db: Database) => {
  const checkpoints =
    'SELECT size, root, note, state_note AS stateNote, signed_at AS signedAt FROM checkpoints';
  const marks = 'SELECT idx AS "index", before FROM marks';
  return {
    state: stateReader(db),
    node: nodeReader(db),
    checkState: stateChecker(db),
    tree: prepareRows(db, 'SELECT size, position, hashes FROM tree'),
    tile: prepareRows<{ hashes: Uint8Array }>(db, 'SELECT hashes FROM tiles WHERE level = ? AND idx = ?'),
    markOfIndex: prepareRows<Mark>(db, `${marks} WHERE idx <= ? ORDER BY idx DESC LIMIT 1`),
    markOfPosition: prepareRows<Mark>(db, `${marks} WHERE before < ? ORDER BY before DESC LIMIT 1`),
    latest: prepareRows<CheckpointRow>(db, `${checkpoints} ORDER BY size DESC LIMIT 1`),
    at: prepareRows<CheckpointRow>(db, `${checkpoints} WHERE size = ?`),
    from: prepareRows<CheckpointRow>(db, `${checkpoints} WHERE size >= ? ORDER BY size LIMIT 1`),
    cosignatures: prepareRows<StoredCosignature>(
      db,
      'SELECT note, line FROM cosignatures JOIN checkpoints USING (size) ORDER BY size, line',
    ),
    scrubbed: prepareRows<{ erasures: number }>(db, 'SELECT erasures FROM scrubbed'),
    alarm: prepareRows<{ number: number; text: string }>(
      db,
      'SELECT number, text FROM alarms WHERE lifted_at IS NULL',
    ),
    putTree: db.prepare('UPDATE tree SET size = ?, position = ?, hashes = ?'),
    putTile: db.prepare('REPLACE INTO tiles (level, idx, hashes) VALUES (?, ?, ?)'),
    putMark: db.prepare('INSERT INTO marks (idx, before) VALUES (?, ?)'),
    putCheckpoint: db.prepare(
      'INSERT INTO checkpoints (size, root, note, state_note, signed_at) VALUES (?, ?, ?, ?, ?)',
    ),
    putCosignature: db.prepare('INSERT OR IGNORE INTO cosignatures (size, line) VALUES (?, ?)'),
    removeCosignatures: db.prepare('DELETE FROM cosignatures WHERE size = ?'),
    putAlarm: db.prepare('INSERT INTO alarms (text) VALUES (?)'),
    liftAlarm: db.prepare('UPDATE alarms SET lifted_at = ?, lifted_by = ?, reason = ? WHERE number = ?'),
    putScrubbed: db.prepare('REPLACE INTO scrubbed (only, erasures) VALUES (1, ?)'),
    growState: stateWrites(db),
  };
};

type Prepared = ReturnType<typeof prepare>;

/** Each call holds up its thread for as long as SQLite takes, its fsyncs included. */
class SqliteTreeStore extends TreeStore {
  readonly #file: string;
  readonly #db: Database;
  readonly #names: FileNames;
  readonly #prepared: Prepared;
  #isClosed = false;

  constructor(file: string, db: Database) {
    super();
    this.#file = file;
    this.#db = db;
    this.#prepared = prepare(db);
    this.#names = new FileNames(file);
  }

  tree(): Promise<StoredTree> {
    return this.#read(treeNow);
  }

  append(growth: TreeGrowth): Promise<void> {
    return this.#write('NORMAL', (prepared) => {
      const { from, tree, tiles, marks } = growth;
      const { size } = treeNow(prepared);
      if (size !== from) throw new TreeMoved(`the tree has ${size} leaves, not ${from}`);
      const { tile, putTile, putMark, putTree } = prepared;
      for (const { level, index, from: width, hashes } of tiles) {
        const held = tile.get(level, index)?.hashes ?? new Uint8Array();
        if (held.length !== width * HASH_BYTES)
          throw unavailable(
            `${this.#file}: tile ${index} of level ${level} holds ${held.length} bytes, not ${width} hashes: ${keepAdvice(this.#file)}`,
          );
        putTile.run(level, index, Buffer.concat([held, hashes]));
      }
      for (const { index, before } of marks) putMark.run(index, before);
      putTree.run(tree.size, tree.position, tree.hashes);
    });
  }

  state(): Promise<StoredState> {
    return this.readState(({ size, position, trie }) => ({ size, position, root: trie.hash }));
  }

  growState(growth: StateGrowth): Promise<StoredState> {
    return this.#write('NORMAL', ({ growState }) => growState(growth));
  }

  checkState(after: number): Promise<number | undefined> {
    return this.#read(({ checkState }) => inTransaction(this.#db, 'BEGIN', () => checkState(after)));
  }

  readState<T>(read: (snapshot: StateSnapshot) => T): Promise<T> {
    return this.#read(({ state, node }) =>
      inTransaction(this.#db, 'BEGIN', () => {
        const found = state();
        return read({ ...found, node: nodesOf(node), entries: () => storedEntries(node, found.trie) });
      }),
    );
  }

  tile(level: number, index: number): Promise<Uint8Array> {
    return this.#read(({ tile }) => tile.get(level, index)?.hashes ?? new Uint8Array());
  }

  markOfIndex(index: number): Promise<Mark | undefined> {
    return this.#read(({ markOfIndex }) => markOfIndex.get(index));
  }

  markOfPosition(position: Position): Promise<Mark | undefined> {
    return this.#read(({ markOfPosition }) => markOfPosition.get(position));
  }

  saveCheckpoint({ size, root, note, stateNote, signedAt }: SignedCheckpoint): Promise<void> {
    return this.#write('FULL', (prepared) => {
      const alarm = alarmOf(prepared.alarm.get());
      if (alarm) throw new AlarmStands(alarm.message);
      const signed = prepared.latest.get()?.size;
      const leaves = treeNow(prepared).size;
      if (size > leaves || size <= (signed ?? -1))
        throw new TreeMoved(
          `a checkpoint of size ${size} is not the next one: the tree has the size ${leaves}, the last checkpoint ${signed ?? 'none'}`,
        );
      prepared.putCheckpoint.run(size, root, note, stateNote ?? null, signedAt);
    });
  }

  latestCheckpoint(): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ latest }) => checkpointOf(latest.get()));
  }

  checkpoint(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ at }) => checkpointOf(at.get(size)));
  }

  checkpointFrom(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ from }) => checkpointOf(from.get(size)));
  }

  cosignatures(): Promise<readonly StoredCosignature[]> {
    return this.#read(({ cosignatures }) => cosignatures.all());
  }

  cosign(size: number, line: string, forgotten: readonly number[]): Promise<void> {
    return this.#write('NORMAL', ({ putCosignature, removeCosignatures }) => {
      for (const one of forgotten) removeCosignatures.run(one);
      putCosignature.run(size, line);
    });
  }

  raise(alarm: Alarm): Promise<void> {
    return this.#write('FULL', (prepared) => {
      if (!prepared.alarm.get()) prepared.putAlarm.run(JSON.stringify(alarm));
    });
  }

  alarm(): Promise<Alarm | undefined> {
    return this.#read(({ alarm }) => alarmOf(alarm.get()));
  }

  lift(by: string, reason: string): Promise<Alarm | undefined> {
    return this.#write('FULL', ({ alarm, liftAlarm }) => {
      const lifted = alarm.get();
      if (lifted) liftAlarm.run(new Date().toISOString(), by, reason, lifted.number);
      return alarmOf(lifted);
    });
  }

  scrub(erasures: number): Promise<void> {
    return this.#asked(() => {
      this.#db.exec(SCRUB);
      assertScrubbed(this.#file, unavailable);
      this.#transact('FULL', ({ putScrubbed }) => {
        putScrubbed.run(erasures);
      });
    });
  }

  scrubbed(): Promise<number> {
    return this.#read(({ scrubbed }) => scrubbed.get()?.erasures ?? 0);
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      // Moves all pages, as far as nobody else reads: the drop-in's `close` does not while a statement is not yet
      // garbage collected.
      this.#db.exec('PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // It stays in the write-ahead log.
    } finally {
      this.#db.close();
    }
  }

  #read<T>(ask: (prepared: Prepared) => T): Promise<T> {
    return this.#asked(() => ask(this.#prepared));
  }

  /** Leaves that a loss of power undoes are appended again; a checkpoint or an alarm must never be undone. */
  #write<T>(synchronous: 'NORMAL' | 'FULL', work: (prepared: Prepared) => T): Promise<T> {
    return this.#asked(() => this.#transact(synchronous, work));
  }

  #transact<T>(synchronous: 'NORMAL' | 'FULL', work: (prepared: Prepared) => T): T {
    this.#db.exec(`PRAGMA synchronous = ${synchronous}`);
    const answer = inTransaction(this.#db, 'BEGIN IMMEDIATE', () => work(this.#prepared));
    this.#assertInPlace(); // what was written into a file without a name is gone when it is closed
    return answer;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
  async #asked<T>(work: () => T): Promise<T> {
    if (this.#isClosed) throw unavailable(`the tree in ${this.#file} has been closed`);
    this.#assertInPlace();
    try {
      return work();
    } catch (error) {
      throw treeError(error, this.#file);
    }
  }

  /** SQLite continues to use deleted files: what is signed then would be lost. */
  #assertInPlace(): void {
    let fault: FileFault | undefined;
    try {
      fault = this.#names.fault();
    } catch (error) {
      throw unavailable(
        `${this.#file} cannot be looked at (${(error as Error).message}): let the user of this process search its folder`,
        { cause: error },
      );
    }
    if (fault) throw takenAway(this.#file, fault);
  }
}

const treeNow = ({ tree }: Prepared): StoredTree => tree.get() as StoredTree;

type CheckpointRow = Omit<SignedCheckpoint, 'stateNote'> & { readonly stateNote: string | null };

const checkpointOf = (row: CheckpointRow | undefined): SignedCheckpoint | undefined =>
  row && { ...row, stateNote: row.stateNote ?? undefined };

const alarmOf = (row: { readonly text: string } | undefined): Alarm | undefined =>
  row && (JSON.parse(row.text) as Alarm);

/**
 * Opens the tree of a log in one SQLite file; the file and its folder are created if missing. Several connections may
 * have it open. Throws TreeUnavailable, in one line that says what to do, also for the tree of another log.
 */
// eslint-disable-next-line @typescript-eslint/require-await -- what it throws must be a rejection
export const openSqliteTreeStore = async (file: string, logIdentity: string): Promise<TreeStore> => {
  let db: Database | undefined;
  try {
    db = openTreeFile(file, logIdentity);
    // After a crash the last checkpoint may stand and not be durable: it is before anybody reads it.
    db.exec('PRAGMA wal_checkpoint(PASSIVE)');
    return new SqliteTreeStore(file, db);
  } catch (error) {
    db?.close();
    throw treeError(error, file);
  }
};
