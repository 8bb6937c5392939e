import { createHash } from 'node:crypto';
import { formatAddCheckpoint } from '../../src/audit/add-checkpoint.js';
import { GrowingTree, leafHash } from '../../src/transparency/merkle.js';
import { consistencyProof } from '../../src/transparency/prove-tree.js';
import { newSigner } from './audited-log.js';
import { signCheckpoint, type SignerKey } from '../../src/transparency/sign.js';

/** A signed log of made-up leaves. Another `history` has other leaves from `differsFrom` on, and the same key. */
export class LogOfLeaves {
  readonly #tree = new GrowingTree();
  readonly #roots = [this.#tree.root()];
  readonly #nodes = new Map<string, Uint8Array>();

  constructor(
    readonly key: SignerKey = newSigner(),
    size = 300,
    history = '',
    differsFrom = 0,
  ) {
    for (let index = 0; index < size; index++) {
      const leaf = createHash('sha256').update(index < differsFrom ? `${index}` : `${history}${index}`);
      this.#tree.append(leafHash(leaf.digest()), (level, at, hash) =>
        this.#nodes.set(`${level}/${at}`, hash),
      );
      this.#roots.push(this.#tree.root());
    }
  }

  root(size: number): Uint8Array {
    return this.#roots[size] ?? new Uint8Array();
  }

  note(size: number): string {
    return signCheckpoint({ origin: this.key.name, size, root: this.root(size) }, this.key);
  }

  proof(from: number, to: number): Uint8Array[] {
    if (from === 0) return [];
    return consistencyProof(
      from,
      to,
      (level, index) => this.#nodes.get(`${level}/${index}`) ?? new Uint8Array(),
    );
  }

  /** The body of a request to a witness that has `old`. */
  request(old: number, size: number): string {
    return formatAddCheckpoint({ old, proof: this.proof(old, size), note: this.note(size) });
  }
}
