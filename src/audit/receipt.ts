import { openCheckpoint } from './checkpoint.js';
import { leafHash, verifyInclusion } from './merkle.js';
import { fromBase64, NoteRefused, type VerifierKey } from './note.js';

/** A proof that an event is in the log: it can be verified without the service, its network or its database. */
export interface Receipt {
  /** The leaf: canonical JSON of the event (RFC 8785), here as the value that it is of. */
  readonly event: unknown;
  /** Which leaf of the tree it is, from 0. */
  readonly index: number;
  /** Hashes in base64, from the leaf up (RFC 9162, section 2.1.3). */
  readonly proof: readonly string[];
  /** A signed checkpoint of a tree that holds the leaf. */
  readonly checkpoint: string;
  /** Name and id of the key of each witness that has cosigned the checkpoint; absent where no witnesses are set. */
  readonly witnesses?: readonly string[];
}

/** A receipt as text; `leaf` is the leaf's bytes, which stand in it as they are. */
export const receiptText = (leaf: Uint8Array, rest: Omit<Receipt, 'event'>): string =>
  `{"event":${Buffer.from(leaf).toString('utf8')},${JSON.stringify(rest).slice(1)}`;

/**
 * The same as text that other programs for transparency logs read (https://c2sp.org/tlog-proof); the leaf's bytes are its
 * extra data.
 */
export const tlogProofText = (
  leaf: Uint8Array,
  { index, proof, checkpoint }: Omit<Receipt, 'event'>,
): string =>
  [
    'c2sp.org/tlog-proof@v1',
    `extra ${Buffer.from(leaf).toString('base64')}`,
    `index ${index}`,
    ...proof,
    '',
    checkpoint,
  ].join('\n');

/**
 * Returns where a receipt proves that its event is in the log called `origin`, by a checkpoint that one of its keys
 * has signed. Throws NoteRefused for its checkpoint, ProofRefused for its proof. `leaf` is the canonical JSON of its
 * event.
 *
 * @public docs/audit.md names it: whoever verifies receipts may import or copy it.
 */
export const verifyReceipt = (
  leaf: Uint8Array,
  { index, proof, checkpoint }: Omit<Receipt, 'event'>,
  origin: string,
  keys: readonly VerifierKey[],
): void => {
  const { size, root } = openCheckpoint(checkpoint, origin, keys);
  const hashes = proof.map((hash) => {
    const bytes = fromBase64(hash);
    if (!bytes) throw new NoteRefused('a hash of the proof is not base64');
    return bytes;
  });
  verifyInclusion({ index, leafHash: leafHash(leaf), size, root, proof: hashes });
};
