import { abortAfter, nextTurn } from '../runtime/runtime.js';
import { AUDIT_STREAM, encodeOwner, ownedBy } from '../domain/stream.js';
import { type EventLog, type Position, type RecordedEvent, START } from '../log/event-log.js';
import { type StateSnapshot, type TreeStore } from './tree-store.js';
import {
  BLOCK_EVENTS,
  BLOCK_LEVEL,
  blockLine,
  endLine,
  eventLine,
  headerLine,
  MAX_LINE_BYTES,
  plantsLine,
} from '../transparency/bundle-format.js';
import { type Checkpoint, parseCheckpoint } from '../transparency/checkpoint.js';
import { readRecorded, type Recorded } from './checkpoint-record.js';
import { withCosignatures } from './cosigned-notes.js';
import { notesInFile, readSignedState, type SignedState } from './signed-state.js';
import { knownPosition } from '../history/read.js';
import { ErasedEvents, hashInTree } from '../transparency/erased-events.js';
import { leafOf } from './leaf.js';
import {
  GrowingTree,
  type Hash,
  HASH_BYTES,
  nodesOfRoot,
  ProofRefused,
  type TreeNode,
  verifyInclusion,
} from '../transparency/merkle.js';
import { inclusionProof, nodesOfInclusion } from '../transparency/prove-tree.js';
import { isSame } from '../transparency/bytes.js';
import { type RangeProof } from '../transparency/range-proof.js';
import { entriesFrom, pageProof, rangeProof } from '../transparency/prove-range.js';
import { ownerPrefix, plantKey } from '../transparency/state.js';
import { NoteRefused, parseNote } from '../transparency/note.js';
import { OwnersPlants } from '../transparency/bundle.js';
import { TileRefused, tileReader, tilesOf } from '../transparency/tiles.js';
import { onlyFor, orElse } from '../transparency/refused.js';

/** The least length of a piece of text, in characters: fewer, larger writes. */
const PIECE = 64 * 1024;

/** Tiles in memory, of 8 kB: more than a tree of any size is high, so that none is read twice for one proof. */
const MAX_TILES = 32;

/** Nodes in memory, of some 200 bytes. */
const MAX_NODES = 10_000;

/**
 * Milliseconds that the stored state may differ from that of the last checkpoint: it does for longer only where no
 * auditor runs, or none can sign. The bundle is written without it then.
 */
const STATE_WAIT_MS = 5_000;

/** The events that a bundle holds. */
export interface BundleQuestion {
  /** The first one: its index, or a position of the log, which has leading zeros. The very first one without it. */
  readonly from: string | undefined;
  /** Only those of this owner's plants and requests. */
  readonly owner: string | undefined;
  /**
   * Writes the log as it is now, altered or not: it is not compared with the tree, and plants check proves nothing of it
   * but names the first event that differs from an older bundle. Not with an owner.
   */
  readonly altered?: boolean;
}

export interface Bundled {
  readonly origin: string;
  /** Events that the checkpoint is of. */
  readonly size: number;
  readonly from: number;
  /** Events in the bundle. */
  readonly events: number;
}

/** No bundle can be made. The message is one line. */
export class ExportRefused extends Error {
  override readonly name = 'ExportRefused';
}

/**
 * The text of a bundle, in pieces, up to the checkpoint that was signed last. Each event is compared with the stored
 * tree, and what proves it is verified against the checkpoint, before it is handed over, unless it is asked for as it was
 * `altered`. Returns what it holds.
 * `onProgress` is told how many of how many events were looked at.
 *
 * Throws ExportRefused; UnknownPosition for a `from` that is no position of this log; EventRefused, TreeUnavailable and
 * LogUnavailable; and the signal's reason.
 */
export async function* bundleOf(
  log: EventLog,
  store: TreeStore,
  { from: asked, owner, altered = false }: BundleQuestion,
  onProgress: (events: number, total: number) => void,
  signal: AbortSignal,
): AsyncGenerator<string, Bundled, undefined> {
  const proven = owner === undefined ? undefined : await provenOf(store, owner);
  const signed =
    proven?.signed ?? (await store.latestCheckpoint()) ?? (altered ? await lastRecorded(log) : undefined);
  if (!signed)
    throw new ExportRefused('no checkpoint has been signed yet: run a service with the role auditor first');
  const { note } = signed;
  const checkpoint = readCheckpoint(note);
  const { size } = checkpoint;
  const tree = new StoredNodes(store, size);
  const from = await firstIndex(log, store, asked, size);
  const bundle = { ...notesInFile(signed, await withCosignatures(store, note)), from };
  const before = owner === undefined ? await tree.subtreesBefore(from) : undefined;
  const running = before && new GrowingTree({ size: from, hashes: Buffer.concat(before) });
  const owned =
    proven && owner !== undefined && from === 0 ? new OwnersPlants(owner, proven.stateRoot) : undefined;
  const isMeant = owner === undefined ? () => true : ownedBy(owner);

  let piece = `${headerLine(owner === undefined ? { ...bundle, before: before ?? [] } : { ...bundle, owner })}\n`;
  let [next, events] = [from, 0];
  const erased = new ErasedEvents();
  for await (const event of eventsFrom(log, store, from, size)) {
    const index = next++;
    erased.add(event, index);
    if (isMeant(event.stream)) {
      const leaf = leafOf(event);
      const hash = hashInTree(event, leaf);
      if (!altered) await tree.compare(index, hash, event);
      running?.append(hash);
      owned?.add(event);
      const proof = owner === undefined ? undefined : await tree.proofOf(index, hash, checkpoint);
      const line = eventLine({ leaf: leaf.toString('utf8'), hash, index, ...(proof ? { proof } : {}) });
      if (Buffer.byteLength(line) > MAX_LINE_BYTES)
        throw new ExportRefused(`event ${index}, ${name(event)}, is too long for a bundle`);
      piece += `${line}\n`;
      events += 1;
    }
    if (next % BLOCK_EVENTS === 0) {
      if (owner === undefined) piece += `${await tree.blockLine(index, checkpoint, altered)}\n`;
      onProgress(next - from, size - from);
      await nextTurn(); // lets an abort of `signal` arrive
      signal.throwIfAborted();
    }
    if (piece.length < PIECE) continue;
    yield piece;
    piece = '';
  }
  if (next < size && !altered)
    throw new ExportRefused(
      `the log ends before event ${next}, and a checkpoint of size ${size} was signed: it has lost events, or is another log`,
    );
  if (from === 0 && owner === undefined && !altered && erased.unrecorded.size > 0)
    throw new ExportRefused(
      'an owner was erased while the bundle was being written: try again in some seconds',
    );
  if (running && !altered && !isSame(running.root(), checkpoint.root)) throw damaged();
  onProgress(next - from, size - from);
  if (proven && owned) piece += `${ownersLine(owned, proven)}\n`;
  yield `${piece}${endLine(events)}\n`;
  return { origin: checkpoint.origin, size, from, events };
}

/** A checkpoint, and what stands beside the plants of an owner in the state that it commits to. */
type ProvenState = SignedState<RangeProof>;

/**
 * The last checkpoint with what proves the plants of an owner; undefined where it commits to no state, where that is not
 * the stored one for STATE_WAIT_MS, and where the owner has no plant: to prove that takes an entry of another one. Throws
 * ExportRefused where the stored state is not the one that was signed.
 */
const provenOf = async (store: TreeStore, owner: string): Promise<ProvenState | undefined> => {
  const prefix = ownerPrefix(encodeOwner(owner));
  const state = await readSignedState(store, abortAfter(STATE_WAIT_MS), (stored, root) =>
    besideOf(stored, root, prefix),
  ).catch(onlyFor([RangeError], refuse));
  return state?.found && { ...state, found: state.found };
};

const besideOf = (
  { trie, node }: StateSnapshot,
  stateRoot: Hash,
  prefix: Uint8Array,
): RangeProof | undefined => {
  if (!isSame(trie.hash, stateRoot)) throw new RangeError('the state is another');
  const last = pageProof(node, trie, {
    prefix,
    after: plantKey(prefix, Number.MAX_SAFE_INTEGER),
    page: [],
  })?.before;
  const [first] = last ? entriesFrom(node, trie, plantKey(prefix, Number.MIN_SAFE_INTEGER)) : [];
  return last && first && rangeProof(node, trie, first.key, last.key);
};

/** The line that proves that no plant is missing. Throws ExportRefused where it does not. */
const ownersLine = (owned: OwnersPlants, { found: beside }: ProvenState): string => {
  orElse(() => owned.areAll(beside), [ProofRefused], refuse);
  return plantsLine(beside);
};

/**
 * The last checkpoint that the log records. An auditor whose tree.db is new, and contradicts the records, has signed
 * none: the altered log is exported up to this one.
 */
const lastRecorded = async (log: EventLog): Promise<Recorded | undefined> => {
  const last = await log.readLast(AUDIT_STREAM);
  const recorded = last && readRecorded(last);
  return typeof recorded === 'object' ? recorded : undefined;
};

const readCheckpoint = (note: string): Checkpoint =>
  orElse(() => parseCheckpoint(parseNote(note).text), [NoteRefused], refuse);

const damaged = (cause?: unknown): ExportRefused =>
  new ExportRefused('the stored tree does not come to the checkpoint that was signed: it is damaged', {
    cause,
  });

const refuse = (cause: unknown): never => {
  throw damaged(cause);
};

const name = ({ stream, revision }: RecordedEvent): string => `${stream} revision ${revision}`;

/** The index that is asked for. Throws ExportRefused where the checkpoint does not reach so far. */
const firstIndex = async (
  log: EventLog,
  store: TreeStore,
  asked: string | undefined,
  size: number,
): Promise<number> => {
  if (asked === undefined) return 0;
  if (/^(0|[1-9]\d{0,15})$/.test(asked)) {
    if (Number(asked) <= size) return Number(asked);
    throw new ExportRefused(`--from ${asked}: the last signed checkpoint is of size ${size}`);
  }
  const position = await knownPosition(log, asked, '--from');
  const mark = (await store.markOfPosition(position)) ?? { index: 0, before: START };
  let index = mark.index;
  for await (const event of log.readAll(mark.before)) {
    if (index >= size) break;
    if (event.position >= position) return index;
    index += 1;
  }
  throw new ExportRefused(
    `--from ${asked}: the last signed checkpoint does not reach that far yet: try again in some seconds`,
  );
};

/** The events from one index up to, but without, another. */
async function* eventsFrom(
  log: EventLog,
  store: TreeStore,
  from: number,
  to: number,
): AsyncGenerator<RecordedEvent, void, undefined> {
  if (from === to) return;
  const { index: first, before }: { index: number; before: Position } = (await store.markOfIndex(from)) ?? {
    index: 0,
    before: START,
  };
  let index = first;
  for await (const event of log.readAll(before)) {
    if (index >= from) yield event;
    index += 1;
    if (index === to) return;
  }
}

/** The stored nodes of a tree, which callers verify before they use them: the file may have been altered. */
class StoredNodes {
  readonly #tiles = new Map<string, Uint8Array>();
  /** Nodes that were computed from tiles: many proofs share them. */
  readonly #nodes = new Map<string, Hash>();

  constructor(
    private readonly store: TreeStore,
    private readonly size: number,
  ) {}

  /** The complete subtrees that the first events consist of. */
  async subtreesBefore(events: number): Promise<Hash[]> {
    const nodes = nodesOfRoot(events);
    const read = await this.#reader(nodes);
    return nodes.map(({ level, index }) => read(level, index));
  }

  /** Throws ExportRefused where the log now has another event than the tree. */
  async compare(index: number, hash: Hash, event: RecordedEvent): Promise<void> {
    const tile = this.#tiles.get(keyOf(0, Math.floor(index / BLOCK_EVENTS))) ?? (await this.#tileOf(index));
    const at = (index % BLOCK_EVENTS) * HASH_BYTES;
    if (!isSame(tile.subarray(at, at + HASH_BYTES), hash))
      throw new ExportRefused(
        `event ${index} of the log, ${name(event)}, is not the one that was signed: the log was altered`,
      );
  }

  /** Throws ExportRefused where it does not prove the event. */
  async proofOf(index: number, hash: Hash, { size, root }: Checkpoint): Promise<Hash[]> {
    const proof = await this.#proof(index);
    verified({ index, leafHash: hash, size, root, proof });
    return proof;
  }

  /** The line after a block whose last event has this index. Throws ExportRefused where it does not prove it. */
  async blockLine(last: number, { size, root }: Checkpoint, altered: boolean): Promise<string> {
    const block = Math.floor(last / BLOCK_EVENTS);
    const proof = (await this.#proof(last)).slice(BLOCK_LEVEL);
    const read = await this.#reader([{ level: BLOCK_LEVEL, index: block }]);
    const blocks = Math.ceil(size / BLOCK_EVENTS);
    if (!altered) verified({ index: block, leafHash: read(BLOCK_LEVEL, block), size: blocks, root, proof });
    return blockLine({ block, proof });
  }

  async #proof(index: number): Promise<Hash[]> {
    return inclusionProof(index, this.size, await this.#reader(nodesOfInclusion(index, this.size)));
  }

  async #tileOf(index: number): Promise<Uint8Array> {
    await this.#reader([{ level: 0, index }]);
    return this.#tiles.get(keyOf(0, Math.floor(index / BLOCK_EVENTS))) ?? new Uint8Array();
  }

  async #reader(nodes: readonly TreeNode[]): Promise<(level: number, index: number) => Hash> {
    const tiles = tilesOf(nodes, this.size);
    for (const { level, index } of tiles) {
      const key = keyOf(level, index);
      if (level === 'entries') continue;
      const tile = this.#tiles.get(key) ?? (await this.store.tile(level, index));
      this.#tiles.delete(key); // so that the first key is the one that was wanted longest ago
      this.#tiles.set(key, tile);
    }
    while (this.#tiles.size > MAX_TILES) this.#tiles.delete(String(this.#tiles.keys().next().value));
    if (this.#nodes.size > MAX_NODES) this.#nodes.clear();
    const read = tileReader((level, index) => this.#tiles.get(keyOf(level, index)));
    return (level, index) => {
      const key = keyOf(level, index);
      const hash = this.#nodes.get(key) ?? orElse(() => read(level, index), [TileRefused], refuse);
      this.#nodes.set(key, hash);
      return hash;
    };
  }
}

const keyOf = (level: number | 'entries', index: number): string => `${level}/${index}`;

const verified = (inclusion: Parameters<typeof verifyInclusion>[0]): void => {
  try {
    verifyInclusion(inclusion);
  } catch (error) {
    onlyFor([ProofRefused], refuse)(error);
  }
};
