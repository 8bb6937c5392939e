import { encodeOwner, plantStream } from '../domain/stream.js';
import { type EventLog, type RecordedEvent } from '../log/event-log.js';
import { type SignedCheckpoint, type StateSnapshot, type TreeStore } from './tree-store.js';
import { type TrieEntry } from '../transparency/trie.js';
import { isSame, toBase64 } from '../transparency/bytes.js';
import { keyName } from '../transparency/note.js';
import { LogAltered, NotSignedYet, type PublishedTree } from './published-tree.js';
import { broken } from './findings.js';
import { notesInFile, readSignedState } from './signed-state.js';
import { type ListedPlant, type ListProof, verifyListProof } from '../transparency/list-proof.js';
import { type AbsenceProof, type PageProof, type Sibling } from '../transparency/range-proof.js';
import { absenceProof, entriesFrom, pageProof } from '../transparency/prove-range.js';
import { idOfKey, ownerPrefix, plantKey, plantValue } from '../transparency/state.js';

/** Streams that are read at a time for the rows of a proof. */
const READS_AT_ONCE = 16;

/** Events of a plant in one read. */
const PAGE = 100;

/** A page of an owner's list. */
export interface ListAsked {
  readonly owner: string;
  /** Only plants with greater ids. */
  readonly after: number | undefined;
  /** Most plants in the page. */
  readonly limit: number;
  /** Allows a proof that shows an entry of another owner: that this owner has no plant cannot be proven without. */
  readonly mayShowOthers: boolean;
}

/** A page of the state of a checkpoint. */
interface Part {
  readonly entries: readonly TrieEntry[];
  readonly isLast: boolean;
  readonly proof: PageProof | AbsenceProof;
}

/** Makes proofs of lists, as of the last checkpoint. */
export class ListProofs {
  constructor(
    private readonly log: EventLog,
    private readonly store: TreeStore,
    private readonly tree: PublishedTree,
    private readonly now: () => Date,
    /** Called where the log seems to hold less than the state: it is to be read again soon. */
    private readonly onShort: () => void,
  ) {}

  /**
   * A list proof as text; undefined where it would show an entry of another owner, and may not. Throws NotSignedYet where
   * no checkpoint of the present state is signed before `signal` aborts, or plants of the page have too many events to
   * find by then the ones that set them; raises the alarm and throws LogAltered where what is stored does not come to
   * what was signed. Throws what the ports throw.
   */
  async of(asked: ListAsked, signal: AbortSignal): Promise<string | undefined> {
    const { part, signed } = await this.#part(asked, signal);
    if (!asked.mayShowOthers && 'instead' in part.proof && part.proof.instead) return undefined;
    const plants = await this.#plants(asked.owner, part.entries, signal);
    const { note, by } = await this.tree.cosignedNote(signed, signal);
    const { owner, after } = asked;
    const text = listProofText({
      owner,
      after,
      isLast: part.isLast,
      plants,
      proof: part.proof,
      ...notesInFile(signed, note),
      ...(by ? { witnesses: by.map(({ key }) => keyName(key)) } : {}),
    });
    await this.#verify(text);
    return text;
  }

  async #part(
    asked: ListAsked,
    signal: AbortSignal,
  ): Promise<{ readonly part: Part; readonly signed: SignedCheckpoint }> {
    const state = await readSignedState(
      this.store,
      signal,
      (stored, root) => partOf(stored, root, asked),
      () => this.tree.checkpoint(),
    );
    if (!state)
      throw new NotSignedYet(
        signal.aborted
          ? 'the stored state is not that of the last checkpoint yet: try again'
          : 'the last checkpoint commits to no state: ask again after the next write',
      );
    const { signed, found } = state;
    if (found === 'altered') throw await this.#altered('its state is not the one that was signed');
    return { part: found, signed };
  }

  async #plants(owner: string, entries: readonly TrieEntry[], signal: AbortSignal): Promise<ListedPlant[]> {
    const plants: ListedPlant[] = [];
    for (let at = 0; at < entries.length; at += READS_AT_ONCE)
      plants.push(
        ...(await Promise.all(
          entries.slice(at, at + READS_AT_ONCE).map((entry) => this.#plant(owner, entry, signal)),
        )),
      );
    return plants;
  }

  /** The plant of an entry, with the event that set it. */
  async #plant(owner: string, { key, value }: TrieEntry, signal: AbortSignal): Promise<ListedPlant> {
    const id = idOfKey(key);
    const stream = plantStream(owner, id);
    const isIt = (event: RecordedEvent | undefined): boolean =>
      event !== undefined && isSame(plantValue(event.id, event.data), value);
    let event = await this.log.readLast(stream);
    // The plant was changed after the checkpoint: an event before the last one set what it commits to. How many it
    // has is up to its owner: who creates and deletes one plant all day shall not keep the log busy with each list.
    for (let after: bigint | undefined; event && !isIt(event);) {
      if (after !== undefined && signal.aborted)
        throw new NotSignedYet(
          'a plant of the list has too many events, and was changed a moment ago: try again',
        );
      const page = await this.log.readStream(stream, after, PAGE);
      event = page.find(isIt) ?? page.at(-1);
      after = event?.revision;
    }
    if (!event) {
      this.onShort(); // no alarm yet: the node of a cluster that was asked may lag behind
      throw new LogAltered('the log does not hold an event that the signed state commits to');
    }
    return { id, event: { data: event.data, id: event.id } };
  }

  /**
   * Verifies a proof before it is given out: whoever altered what is stored shall be noticed here, and not by clients.
   */
  async #verify(text: string): Promise<void> {
    const verified = await verifyListProof(text, { keys: [], witnesses: [] });
    if (verified.verdict === 'refused')
      throw await this.#altered(`a list proof of its state is none: ${verified.reason}`);
  }

  async #altered(what: string): Promise<LogAltered> {
    await this.store.raise({ ...broken(what), raisedAt: this.now().toISOString() });
    return new LogAltered('the stored state is not the one that was signed');
  }
}

/** The page of a state; `altered` where that is not the one with this root. */
const partOf = (
  { trie, node }: StateSnapshot,
  root: Uint8Array,
  { owner, after, limit }: ListAsked,
): Part | 'altered' => {
  if (!isSame(trie.hash, root)) return 'altered';
  const prefix = ownerPrefix(encodeOwner(owner));
  const from = after === undefined ? undefined : plantKey(prefix, after);
  const entries: TrieEntry[] = [];
  let isLast = true;
  try {
    for (const entry of entriesFrom(node, trie, from ?? plantKey(prefix, Number.MIN_SAFE_INTEGER))) {
      if (!isSame(entry.key.subarray(0, prefix.length), prefix)) break;
      if (from && isSame(entry.key, from)) continue;
      isLast = entries.length < limit;
      if (!isLast) break;
      entries.push(entry);
    }
    const proof =
      pageProof(node, trie, { prefix, after: from, page: entries }) ?? absenceProof(node, trie, prefix);
    return { entries, isLast, proof };
  } catch (error) {
    if (error instanceof RangeError) return 'altered';
    throw error;
  }
};

/** A list proof as text, in one line. */
const listProofText = ({ proof, isLast, plants, cosigned, witnesses, ...list }: ListProof): string => {
  const siblings = (of: readonly Sibling[]) => of.map(({ bit, hash }) => ({ bit, hash: toBase64(hash) }));
  const { left, right } = proof;
  const before = 'before' in proof && proof.before;
  const instead = 'instead' in proof && proof.instead;
  return JSON.stringify({
    format: 'plants-list',
    version: cosigned === undefined ? 1 : 2,
    owner: list.owner,
    after: list.after,
    last: isLast,
    plants,
    ...(before && { before: { id: idOfKey(before.key), value: toBase64(before.value) } }),
    ...(instead && { instead: { key: toBase64(instead.key), value: toBase64(instead.value) } }),
    left: siblings(left),
    right: siblings(right),
    checkpoint: list.checkpoint,
    cosigned,
    witnesses,
  });
};
