import { createHash, createPrivateKey } from 'node:crypto';
import { type SignatureType } from '../../../src/transparency/note.js';
import { signerKey } from '../../../src/audit/key.js';
import { type AskWitness } from '../../../src/audit/add-checkpoint.js';
import {
  type ForkEvidence,
  type WitnessedCheckpoint,
  type WitnessStore,
} from '../../../src/witness/witness-store.js';
import { Witness } from '../../../src/witness/witness.js';
import { type Connection } from './network.js';
import { type SignerKey } from '../../../src/transparency/sign.js';

const URL = 'simulated:';

/** A key that follows from a text. */
export const keyOf = (text: string, name: string, type?: SignatureType): SignerKey => {
  const secret = createHash('sha256').update(text).digest();
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), secret]);
  return signerKey(name, createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }), type);
};

const hashOf = (origin: string): string => createHash('sha256').update(origin).digest('hex');

/** A witness of one log: what it remembers is durable before it answers. */
export class SimulatedWitness {
  readonly key: SignerKey;
  readonly #witness: Witness;
  #last: WitnessedCheckpoint | undefined;
  /** Called where the log has signed two histories. */
  onFork: (evidence: ForkEvidence) => void = () => undefined;

  constructor(seed: number, log: SignerKey, now: () => Date) {
    this.key = keyOf(`witness of ${seed}`, 'witness/simulated', 'cosignature');
    const store: WitnessStore = {
      last: () => this.#last,
      decide: (_origin, decide) => {
        const { answer, next, fork } = decide(this.#last);
        if (next) this.#last = next;
        if (fork) this.onFork(fork);
        return answer;
      },
      forks: () => [],
      close: () => undefined,
    };
    this.#witness = new Witness([this.key], [log], store, now);
  }

  /** Leaves of the last tree that it has cosigned. */
  get size(): number {
    return this.#last?.size ?? 0;
  }

  /** For the auditor. */
  askOver(connection: Connection): { readonly url: string; readonly ask: AskWitness } {
    return {
      url: URL,
      ask: (url, body) =>
        connection.ask(body === undefined ? 'witnessed' : 'add-checkpoint', (answer) => {
          answer(
            body === undefined
              ? this.#witness.checkpoint(url.split('/')[1] ?? '', hashOf)
              : this.#witness.addCheckpoint(Buffer.from(body)),
          );
        }),
    };
  }
}
