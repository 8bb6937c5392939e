import { nextTurn } from '../../../src/runtime/runtime.js';
import { pause } from '../../../src/runtime/pause.js';
import { type Position, START } from '../../../src/log/event-log.js';
import {
  type Alarm,
  AlarmStands,
  type Mark,
  type SignedCheckpoint,
  type StateGrowth,
  type StateSnapshot,
  type StoredCosignature,
  type StoredState,
  type StoredTree,
  type TreeGrowth,
  TreeMoved,
  TreeStore,
  TreeUnavailable,
} from '../../../src/audit/tree-store.js';
import {
  EMPTY_TRIE,
  GrowingTrie,
  type StoredNode,
  type TrieState,
} from '../../../src/transparency/growing-trie.js';
import { changesByKey } from '../../../src/transparency/packed-changes.js';
import { nodesOf, storedEntries } from '../../../src/transparency/read-trie.js';

const HASH_BYTES = 32;

/** States that a crash may leave, at most. */
const MAX_KEPT = 20;

interface TreeContent {
  tree: StoredTree;
  readonly tiles: Map<string, Uint8Array>;
  marks: readonly Mark[];
  state: { readonly size: number; readonly position: Position; readonly trie: TrieState };
  readonly nodes: Map<number, StoredNode>;
  checkpoints: readonly SignedCheckpoint[];
  cosignatures: readonly { readonly size: number; readonly line: string }[];
  alarm: Alarm | undefined;
  /** After how many erasures it was scrubbed. */
  scrubbed: number;
}

const copyOf = (content: TreeContent): TreeContent => ({
  ...content,
  tiles: new Map(content.tiles),
  nodes: new Map(content.nodes),
});

/** Changed by planted faults. */
export interface TreeFaults {
  savesUnsynced?: boolean;
}

/** The disk of a tree: what was appended is durable with the next checkpoint, and may be lost in a crash before that. */
export class TreeDisk {
  content: TreeContent = {
    tree: { size: 0, position: START, hashes: new Uint8Array() },
    tiles: new Map(),
    marks: [],
    state: { size: 0, position: START, trie: EMPTY_TRIE },
    nodes: new Map(),
    checkpoints: [],
    cosignatures: [],
    alarm: undefined,
    scrubbed: 0,
  };
  /** Since the last sync, oldest first. */
  #unsynced: TreeContent[] = [];
  onCheckpoint: (checkpoint: SignedCheckpoint) => void = () => undefined;
  onAlarm: (alarm: Alarm) => void = () => undefined;

  constructor(
    readonly delayMs: () => number,
    readonly faults: TreeFaults = {},
  ) {}

  /** Before a change that need not be durable. */
  keep(): void {
    if (this.#unsynced.length < MAX_KEPT) this.#unsynced.push(copyOf(this.content));
  }

  sync(): void {
    if (!this.faults.savesUnsynced) this.#unsynced = [];
  }

  /** `share` from 0 to 1: how much of what was not synced is lost. */
  crash(share: number): void {
    const left = this.#unsynced[Math.floor((1 - share) * (this.#unsynced.length + 1))];
    if (left) this.content = left;
    this.#unsynced = [];
  }
}

/** The store of the tree in one process, on its disk. */
export class SimulatedTree extends TreeStore {
  #closed = false;

  constructor(private readonly disk: TreeDisk) {
    super();
  }

  tree(): Promise<StoredTree> {
    return this.#read(({ tree }) => tree);
  }

  append({ from, tree, tiles, marks }: TreeGrowth): Promise<void> {
    return this.#write((content) => {
      if (content.tree.size !== from)
        throw new TreeMoved(`the tree has ${content.tree.size} leaves, not ${from}`);
      this.disk.keep();
      for (const { level, index, from: width, hashes } of tiles) {
        const held = content.tiles.get(`${level}/${index}`) ?? new Uint8Array();
        if (held.length !== width * HASH_BYTES)
          throw new TreeUnavailable(`tile ${index} of level ${level} holds ${held.length} bytes`);
        content.tiles.set(`${level}/${index}`, Buffer.concat([held, hashes]));
      }
      content.marks = [...content.marks, ...marks];
      content.tree = { ...tree, hashes: Uint8Array.from(tree.hashes) };
    });
  }

  state(): Promise<StoredState> {
    return this.#read(({ state: { size, position, trie } }) => ({ size, position, root: trie.hash }));
  }

  growState({ from, again, size, position, changes }: StateGrowth): Promise<StoredState> {
    return this.#write((content) => {
      const { state } = content;
      const stored = again ? { size: 0, trie: { ...EMPTY_TRIE, next: state.trie.next } } : state;
      if (stored.size !== from || size > content.tree.size)
        throw new TreeMoved(`the state is of ${stored.size} events, not of ${from}`);
      this.disk.keep();
      if (again) content.nodes.clear();
      const trie = new GrowingTrie((number) => nodeOf(content, number), stored.trie);
      for (const { key, value } of changesByKey(changes))
        if (value) trie.set({ key, value });
        else trie.delete(key);
      const grown = trie.grown();
      for (const [number, node] of grown.nodes)
        if (node) content.nodes.set(number, node);
        else content.nodes.delete(number);
      content.state = { size, position, trie: grown.state };
      return { size, position, root: grown.state.hash };
    });
  }

  /** Nobody alters it. */
  checkState(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  readState<T>(read: (snapshot: StateSnapshot) => T): Promise<T> {
    return this.#read((content) => {
      const { size, position, trie } = content.state;
      const stored = (number: number): StoredNode => nodeOf(content, number);
      return read({
        ...{ size, position, trie },
        node: nodesOf(stored),
        entries: () => storedEntries(stored, trie),
      });
    });
  }

  tile(level: number, index: number): Promise<Uint8Array> {
    return this.#read(({ tiles }) => tiles.get(`${level}/${index}`) ?? new Uint8Array());
  }

  markOfIndex(index: number): Promise<Mark | undefined> {
    return this.#read(({ marks }) => marks.findLast((mark) => mark.index <= index));
  }

  markOfPosition(position: Position): Promise<Mark | undefined> {
    return this.#read(({ marks }) => marks.findLast(({ before }) => before < position));
  }

  saveCheckpoint(checkpoint: SignedCheckpoint): Promise<void> {
    return this.#write((content) => {
      if (content.alarm) throw new AlarmStands(content.alarm.message);
      const signed = content.checkpoints.at(-1)?.size ?? -1;
      if (checkpoint.size > content.tree.size || checkpoint.size <= signed)
        throw new TreeMoved(`a checkpoint of size ${checkpoint.size} is not the next one`);
      content.checkpoints = [...content.checkpoints, checkpoint];
      this.disk.sync();
      this.disk.onCheckpoint(checkpoint);
    });
  }

  latestCheckpoint(): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ checkpoints }) => checkpoints.at(-1));
  }

  checkpoint(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ checkpoints }) => checkpoints.find((one) => one.size === size));
  }

  checkpointFrom(size: number): Promise<SignedCheckpoint | undefined> {
    return this.#read(({ checkpoints }) => checkpoints.find((one) => one.size >= size));
  }

  cosignatures(): Promise<StoredCosignature[]> {
    return this.#read(({ checkpoints, cosignatures }) =>
      checkpoints.flatMap(({ size, note }) =>
        cosignatures.filter((one) => one.size === size).map(({ line }) => ({ note, line })),
      ),
    );
  }

  cosign(size: number, line: string, forgotten: readonly number[]): Promise<void> {
    return this.#write((content) => {
      this.disk.keep();
      const kept = content.cosignatures.filter((one) => !forgotten.includes(one.size));
      content.cosignatures = [...kept, { size, line }];
    });
  }

  raise(alarm: Alarm): Promise<void> {
    return this.#write((content) => {
      content.alarm ??= alarm;
      this.disk.sync();
      this.disk.onAlarm(alarm);
    });
  }

  alarm(): Promise<Alarm | undefined> {
    return this.#read(({ alarm }) => alarm);
  }

  lift(): Promise<Alarm | undefined> {
    return this.#write((content) => {
      const { alarm } = content;
      content.alarm = undefined;
      this.disk.sync();
      return alarm;
    });
  }

  scrub(erasures: number): Promise<void> {
    return this.#write((content) => {
      content.scrubbed = erasures;
      this.disk.sync();
    });
  }

  scrubbed(): Promise<number> {
    return this.#read(({ scrubbed }) => scrubbed);
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  async #read<T>(read: (content: TreeContent) => T): Promise<T> {
    this.#assertOpen();
    await nextTurn();
    return read(this.disk.content);
  }

  async #write<T>(write: (content: TreeContent) => T): Promise<T> {
    this.#assertOpen();
    await pause(this.disk.delayMs());
    return write(this.disk.content);
  }

  #assertOpen(): void {
    if (this.#closed) throw new TreeUnavailable('the tree has been closed');
  }
}

const nodeOf = ({ nodes }: TreeContent, number: number): StoredNode => {
  const node = nodes.get(number);
  if (!node) throw new RangeError(`the state has no node ${number}`);
  return node;
};
