import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '../../src/sqlite/database.js';
import { openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { openSqliteTreeStore } from '../../src/audit/sqlite/tree-store.js';
import { hashInTree } from '../../src/transparency/erased-events.js';
import { bundleOf, type BundleQuestion } from '../../src/audit/bundle-write.js';
import { ListProofs } from '../../src/audit/list-proofs.js';
import { GrowingTree } from '../../src/transparency/merkle.js';
import { formatVerifierKey } from '../../src/transparency/note.js';
import { signerKey } from '../../src/audit/key.js';
import { PublishedTree } from '../../src/audit/published-tree.js';
import { RedactedInOrder } from '../../src/erasure/erased-while-read.js';
import { GrowingState } from '../../src/audit/growing-state.js';
import { grown } from '../../src/audit/stored-tree.js';
import { AUDIT_STREAM, plantStream } from '../../src/domain/stream.js';
import { type EventLog } from '../../src/log/event-log.js';
import { type StoredTree, type TreeStore } from '../../src/audit/tree-store.js';
import { all, sampleMetadata } from './log-events.js';
import { pastTriggers } from './past-triggers.js';
import { temporaryFolder } from './temporary-folder.js';
import { leafOf } from '../../src/audit/leaf.js';
import { signCheckpoint, type SignerKey } from '../../src/transparency/sign.js';

export const newSigner = (origin = 'plants.example/log'): SignerKey =>
  signerKey(origin, generateKeyPairSync('ed25519').privateKey);

/** The owners of `fill`, the last of them with a name that streams spell otherwise. */
export const OWNERS = ['alice', 'bob', 'Zoë/1'] as const;

const never = (): AbortSignal => new AbortController().signal;

/** A log with its tree, signed when the test wants it. */
export class AuditedLog {
  #plants = 0;

  private constructor(
    readonly folder: string,
    readonly log: EventLog,
    readonly tree: TreeStore,
    readonly key: SignerKey,
  ) {}

  static async open(key = newSigner()): Promise<AuditedLog> {
    const folder = temporaryFolder();
    const log = await openSqliteEventLog(join(folder, 'events.db'));
    const tree = await openSqliteTreeStore(join(folder, 'tree.db'), log.identity());
    return new AuditedLog(folder, log, tree, key);
  }

  /** The proof of an owner's list, or of a page of it. */
  async listProof(owner: string, after?: number, limit = 1_000): Promise<string> {
    const now = (): Date => new Date();
    const nothing = (): undefined => undefined;
    const tree = new PublishedTree(this.log, this.tree, now, nothing, [this.key]);
    const lists = new ListProofs(this.log, this.tree, tree, now, nothing);
    const asked = { owner, after, limit, mayShowOthers: true };
    return (await lists.of(asked, AbortSignal.timeout(5_000))) ?? '';
  }

  /** So many events more: plants of OWNERS in turn, of which every fifth is deleted at once. */
  async fill(events: number): Promise<void> {
    const appends: Promise<unknown>[] = [];
    for (let left = events; left > 0;) {
      const id = (this.#plants += 1);
      const owner = OWNERS[id % OWNERS.length] ?? '';
      const created = { type: 'PlantCreated', data: { id, name: `Φίκος "${id}" 🌿`, tag: 'ficus' } };
      const deleted = { type: 'PlantDeleted', data: { id } };
      const both = (id % 5 === 0 && left > 1 ? [created, deleted] : [created]).map((event) => ({
        id: randomUUID(),
        ...event,
        metadata: sampleMetadata({ actor: { sub: owner } }),
      }));
      left -= both.length;
      appends.push(this.log.append(plantStream(owner, id), 'none', both));
    }
    await Promise.all(appends);
  }

  /** Puts what is new into the tree. Gives the tree. */
  async grow(): Promise<StoredTree> {
    const stored = await this.tree.tree();
    const events = await all(this.log.readAll(stored.position));
    const leaves = events.map((event) => ({
      hash: hashInTree(event, leafOf(event)),
      position: event.position,
    }));
    const growth = leaves.length > 0 ? grown(stored, leaves) : undefined;
    if (growth) await this.tree.append(growth);
    return growth?.tree ?? stored;
  }

  /** Records the last checkpoint in the log, as an auditor does. */
  async record(): Promise<void> {
    const latest = await this.tree.latestCheckpoint();
    if (!latest) throw new Error('nothing was signed');
    const { note, signedAt } = latest;
    const data = { key: formatVerifierKey(this.key), note, treeSince: signedAt };
    const event = { id: randomUUID(), type: 'SigningStarted', data, metadata: sampleMetadata({}) };
    await this.log.append(AUDIT_STREAM, 'none', [event]);
  }

  /** Puts what is new into the tree, and signs it. Gives the checkpoint. */
  async sign(key = this.key): Promise<string> {
    const tree = await this.grow();
    const root = new GrowingTree(tree).root();
    const stateRoot = await this.#stateRoot();
    const checkpoint = { origin: key.name, size: tree.size, root };
    const note = signCheckpoint(checkpoint, key);
    const stateNote = signCheckpoint({ ...checkpoint, stateRoot }, key);
    const signedAt = '2026-01-31T12:00:00.000Z';
    await this.tree.saveCheckpoint({ size: tree.size, root, note, stateNote, signedAt });
    return note;
  }

  /** Brings the state up to the tree. */
  async #stateRoot(): Promise<Uint8Array> {
    const redacted = await RedactedInOrder.from(this.log);
    const opened = await GrowingState.open(this.log, this.tree, redacted, () => Promise.resolve(), never());
    if (!(opened instanceof GrowingState)) throw new Error(opened);
    return (await opened.save()).root;
  }

  async bundle(question: Partial<BundleQuestion> = {}): Promise<string> {
    const signal = never();
    const whole = { from: undefined, owner: undefined, ...question };
    return (await all(bundleOf(this.log, this.tree, whole, () => undefined, signal))).join('');
  }

  /** Changes the file of the tree behind everybody's back, what SQLite's triggers protect too. */
  tamper(sql: string, ...parameters: (string | number | Uint8Array)[]): void {
    this.#change('tree.db', sql, parameters);
  }

  /** Changes the file of the log in the same way. */
  alter(sql: string): void {
    this.#change('events.db', sql, []);
  }

  /** As for a new auditor: nothing that was signed is known. */
  forgetTree(): void {
    for (const table of ['checkpoints', 'tiles', 'marks']) this.tamper(`DELETE FROM ${table}`);
    this.tamper("UPDATE tree SET size = 0, position = '', hashes = x''");
    this.forgetState();
  }

  /** As after an older version: no state. */
  forgetState(): void {
    this.tamper('DELETE FROM state_nodes');
    this.tamper("UPDATE state SET size = 0, position = '', root = 0, next = 1");
  }

  #change(file: string, sql: string, parameters: (string | number | Uint8Array)[]): void {
    const database = new DatabaseSync(join(this.folder, file), { timeout: 5_000 });
    try {
      pastTriggers(database, () => database.prepare(sql).run(...parameters));
    } finally {
      database.close();
    }
  }

  async remove(): Promise<void> {
    await this.tree.close();
    await this.log.close();
    rmSync(this.folder, { recursive: true });
  }
}
