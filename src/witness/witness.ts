import { type AddCheckpoint, parseAddCheckpoint, SIZE_TYPE } from '../audit/add-checkpoint.js';
import { type Checkpoint, isRootPossible, readCheckpoint } from '../transparency/checkpoint.js';
import { ProofRefused, verifyConsistency } from '../transparency/merkle.js';
import { isSame, textOf } from '../transparency/bytes.js';
import { orElse } from '../transparency/refused.js';
import {
  formatSignature,
  NoteRefused,
  parseNote,
  type VerifierKey,
  verifyNote,
} from '../transparency/note.js';
import {
  MAX_FORKS,
  type WitnessChange,
  type WitnessedCheckpoint,
  type WitnessStore,
} from './witness-store.js';
import { cosign, type SignerKey } from '../transparency/sign.js';

/** An answer to a request. */
export interface WitnessAnswer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  /** For the log of the witness: what it has found out about a log that it follows. */
  readonly found?: string;
}

/** A checkpoint whose signature by the log was verified. */
interface SignedTree extends Checkpoint {
  readonly text: string;
  /** The log's signatures, as lines. */
  readonly signatures: string;
  /** The note as it was sent, with the log's signatures only. */
  readonly note: string;
}

const TEXT = 'text/plain; charset=utf-8';

const answer = (status: number, reason: string): WitnessAnswer => ({
  status,
  type: TEXT,
  body: `${reason}\n`,
});

/**
 * A witness of logs: C2SP tlog-witness (https://c2sp.org/tlog-witness). It cosigns a checkpoint of a log that it follows
 * where this is proven to go on from the last one that it has cosigned, and never a smaller one after a larger one.
 */
export class Witness {
  constructor(
    /** It cosigns with each of them: who verifies has one of them. */
    private readonly keys: readonly SignerKey[],
    /** The keys of the logs that it follows. A log is named as its keys are. */
    private readonly logs: readonly VerifierKey[],
    private readonly store: WitnessStore,
    private readonly now: () => Date,
  ) {}

  /** Answers a request with this body. Throws WitnessStoreUnavailable. */
  addCheckpoint(body: Uint8Array): WitnessAnswer {
    let request: AddCheckpoint;
    let origin: string;
    try {
      const text = textOf(body);
      if (text === undefined) throw new NoteRefused('this is not UTF-8');
      request = parseAddCheckpoint(text);
      ({ origin } = readCheckpoint(parseNote(request.note).text));
    } catch (error) {
      return answer(400, reasonOf(error));
    }
    const keys = this.logs.filter(({ name }) => name === origin);
    if (keys.length === 0) return answer(404, 'this witness does not follow a log of this origin');
    let tree: SignedTree;
    try {
      tree = signedTree(request.note, keys);
    } catch (error) {
      return answer(403, reasonOf(error));
    }
    if (request.old > tree.size) return answer(400, 'the old size is above the size of the checkpoint');
    try {
      return this.store.decide(origin, (last) => this.#decide(request, tree, last));
    } catch (error) {
      return answer(400, reasonOf(error)); // a name that a cosignature cannot state
    }
  }

  /** The last checkpoint that it has cosigned of the log with this origin hash. Throws WitnessStoreUnavailable. */
  checkpoint(originHash: string, hashOf: (origin: string) => string): WitnessAnswer {
    const log = this.logs.find(({ name }) => hashOf(name) === originHash);
    const last = log && this.store.last(log.name);
    return last
      ? { status: 200, type: TEXT, body: last.note }
      : answer(404, 'this witness has cosigned no checkpoint of such a log');
  }

  /** Reported once: anybody can send the same two checkpoints again and again. */
  #isNew(origin: string, { fork }: Pick<WitnessChange<never>, 'fork'>): boolean {
    const kept = this.store.forks(origin);
    return kept.length < MAX_FORKS && !kept.some(({ refused }) => refused === fork?.refused);
  }

  #decide(
    { old, proof }: AddCheckpoint,
    tree: SignedTree,
    last: WitnessedCheckpoint | undefined,
  ): WitnessChange<WitnessAnswer> {
    const fork = forkOf(tree, last);
    const found = fork &&
      this.#isNew(tree.origin, fork) && {
        found: `two histories: ${tree.origin} has signed two trees of ${tree.size} leaves with different roots`,
      };
    const known = last?.size ?? 0;
    if (old !== known)
      return { answer: { status: 409, type: SIZE_TYPE, body: `${known}\n`, ...found }, ...fork };
    const fault = faultOf({ old, proof }, tree, last);
    if (fault !== undefined) return { answer: { ...answer(422, fault), ...found }, ...fork };
    const { text, signatures, size, root } = tree;
    const seconds = Math.floor(this.now().getTime() / 1_000);
    const lines = this.keys.map((key) => cosign(text, key, seconds)).join('');
    const note = `${text}\n${signatures}${lines}`;
    return {
      answer: { status: 200, type: TEXT, body: lines },
      // The same request twice in a second writes nothing: who repeats it without end does not wear the disk.
      ...(note === last?.note ? {} : { next: { size, root, note } }),
    };
  }
}

/** Why the tree is not proven to go on from the last one; undefined where it is. */
const faultOf = (
  { old, proof }: Pick<AddCheckpoint, 'old' | 'proof'>,
  tree: SignedTree,
  last: WitnessedCheckpoint | undefined,
): string | undefined => {
  if (!isRootPossible(tree)) return 'the empty tree has another root';
  if (!last || old === 0) return proof.length === 0 ? undefined : 'there is no proof about the empty tree';
  const { root: firstRoot } = last;
  const verify = (): undefined => {
    verifyConsistency({ first: old, second: tree.size, firstRoot, secondRoot: tree.root, proof });
  };
  return orElse(verify, [ProofRefused], ({ message }) => message);
};

/** The proof that the log has two histories; undefined where this checkpoint is none. */
const forkOf = (
  { size, root, note }: SignedTree,
  last: WitnessedCheckpoint | undefined,
): Pick<WitnessChange<never>, 'fork'> | undefined =>
  last?.size === size && !isSame(last.root, root)
    ? { fork: { cosigned: last.note, refused: note } }
    : undefined;

/** The checkpoint of a note that one of these keys has signed. Throws NoteRefused. */
const signedTree = (sent: string, keys: readonly VerifierKey[]): SignedTree => {
  const { text, signatures: by } = verifyNote(sent, keys);
  const signatures = by.map(formatSignature).join('');
  return { ...readCheckpoint(text), text, signatures, note: `${text}\n${signatures}` };
};

const reasonOf = (error: unknown): string => {
  if (error instanceof NoteRefused) return error.message;
  throw error;
};
