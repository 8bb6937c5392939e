import { type Checkpoint, openKnown } from '../transparency/checkpoint.js';
import { cosignaturesOf, lackOf, readyFor, type WitnessDemand } from '../transparency/cosignature.js';
import { HASH_BYTES, ProofRefused, verifyConsistency } from '../transparency/merkle.js';
import { keyName, NoteRefused, type VerifierKey } from '../transparency/note.js';
import { fromBase64, isSame } from '../transparency/bytes.js';
import { jsonIn } from '../transparency/json.js';
import { orElse, quoted } from '../transparency/refused.js';
import { type AskWitness } from '../audit/add-checkpoint.js';

/** Thrown for what the log shows and does not hold. The message is one line. */
export class LogRefused extends Error {
  override readonly name = 'LogRefused';

  constructor(
    reason: string,
    /** The last verified note, and the one that does not fit to it. Both are signed by the log's key. */
    readonly evidence?: { readonly kept: string; readonly shown: string },
  ) {
    super(reason);
  }
}

/** The log cannot be asked, or says that it cannot answer now: that proves nothing. The message is one line. */
export class LogUnreachable extends Error {
  override readonly name = 'LogUnreachable';
}

/** A checkpoint with the note that it stands in. */
interface Signed extends Checkpoint {
  readonly note: string;
}

/** A tree of the log. */
type Tree = Pick<Checkpoint, 'size' | 'root'>;

/** A checkpoint that was verified, with its note. */
export interface Seen extends Signed {
  /** The witnesses that have cosigned it, of those that were asked for. */
  readonly witnesses: readonly VerifierKey[];
}

/** Each checkpoint must have the cosignatures that are demanded. */
export interface MonitorOptions extends WitnessDemand {
  /** The URL before `/log`. */
  readonly url: string;
  /** The log's keys, old and new. */
  readonly keys: readonly VerifierKey[];
  readonly ask: AskWitness;
  /** Waits before a checkpoint is read again that has too few cosignatures: they come after the signature. */
  readonly waitForWitnesses: (signal: AbortSignal) => Promise<void>;
  /** Keeps a verified note durably. */
  readonly keep: (note: string) => void;
}

/** Most readings of a checkpoint that has too few cosignatures. */
const READS_FOR_WITNESSES = 10;

/** Follows a log from outside: each checkpoint has to go on from the last one that was verified. */
export class Monitor {
  #last: Signed | undefined;

  /** `kept` is the last note that was kept. Throws NoteRefused where it is none by the log's keys. */
  constructor(
    private readonly options: MonitorOptions,
    kept: string | undefined,
  ) {
    if (kept !== undefined) this.#last = { ...openKnown(kept, options.keys).checkpoint, note: kept };
  }

  /** The last checkpoint that was verified. */
  get last(): Checkpoint | undefined {
    return this.#last;
  }

  /** Verifies the log's checkpoint of now. Throws LogRefused and LogUnreachable. */
  async look(signal: AbortSignal): Promise<Seen> {
    for (let read = 1; ; read++) {
      const seen = await this.#verified(signal);
      const lack = lackOf(this.options, seen.witnesses);
      if (lack === undefined) {
        if (this.#last?.size !== seen.size) this.options.keep(seen.note);
        this.#last = seen;
        return seen;
      }
      if (read === READS_FOR_WITNESSES)
        throw new LogRefused(`its checkpoint of size ${seen.size} is ${lack}`);
      await this.options.waitForWitnesses(signal);
    }
  }

  async #verified(signal: AbortSignal): Promise<Seen> {
    const { keys, witnesses } = this.options;
    const note = await this.#get('/log/checkpoint', signal);
    const checkpoint = readNote(() => openKnown(note, keys).checkpoint);
    await this.#compare({ ...checkpoint, note }, signal);
    await readyFor(witnesses);
    const cosignatures = readNote(() => cosignaturesOf(note, witnesses));
    return { ...checkpoint, note, witnesses: cosignatures.map(({ key }) => key) };
  }

  /** Throws LogRefused where the checkpoint is not proven to go on from the last one. */
  async #compare(now: Signed, signal: AbortSignal): Promise<void> {
    const known = this.#last;
    if (!known) return;
    const refused = (reason: string): LogRefused =>
      new LogRefused(reason, { kept: known.note, shown: now.note });
    if (now.size < known.size) throw refused(`it went back from size ${known.size} to ${now.size}`);
    if (now.origin !== known.origin)
      throw refused(
        `its checkpoint is of ${quoted(now.origin)}, and the last one was of ${quoted(known.origin)}`,
      );
    if (now.size === known.size) {
      if (!isSame(now.root, known.root))
        throw refused(`two histories: its key has signed two roots of size ${now.size}`);
      if (now.stateRoot && known.stateRoot && !isSame(now.stateRoot, known.stateRoot))
        throw refused(`its key has signed two state roots of size ${now.size}`);
      return;
    }
    const fault = known.size === 0 ? undefined : await this.faultBetween(known, now, signal);
    if (fault !== undefined) throw refused(fault);
  }

  /** Why a tree of the log is not proven to go on from a smaller one, 1 at least; undefined where it is. Throws LogUnreachable. */
  async faultBetween(older: Tree, newer: Tree, signal: AbortSignal): Promise<string | undefined> {
    const answer = await this.#get(`/log/proof/consistency?from=${older.size}&to=${newer.size}`, signal);
    const verify = (): undefined => {
      verifyConsistency({
        first: older.size,
        second: newer.size,
        firstRoot: older.root,
        secondRoot: newer.root,
        proof: proofIn(answer),
      });
    };
    return orElse(verify, [ProofRefused], ({ message }) => message);
  }

  async #get(path: string, signal: AbortSignal): Promise<string> {
    const { status, body } = await this.options
      .ask(`${this.options.url}${path}`, undefined, signal)
      .catch((error: unknown) => {
        signal.throwIfAborted();
        throw new LogUnreachable(`the log: ${(error as Error).message}`, { cause: error });
      });
    if (status !== 200)
      throw new LogUnreachable(`the log answers ${status} to ${path}: ${quoted(body.trimEnd())}`);
    return body;
  }
}

/** Throws LogRefused for NoteRefused. */
const readNote = <T>(read: () => T): T =>
  orElse(read, [NoteRefused], ({ message }) => {
    throw new LogRefused(`its checkpoint: ${message}`);
  });

/** The hashes of a consistency proof as the service answers it. Throws ProofRefused for anything else. */
const proofIn = (answer: string): Uint8Array[] => {
  const { proof } = Object(jsonIn(answer)) as { readonly proof?: unknown };
  const hashes = Array.isArray(proof)
    ? proof.map((hash) => (typeof hash === 'string' ? fromBase64(hash) : undefined))
    : [undefined];
  return hashes.map((hash) => {
    if (hash?.length !== HASH_BYTES) throw new ProofRefused('its answer is no proof of consistency');
    return hash;
  });
};

/** A checkpoint in words; `before` is the size of the last one. */
export const seenText = ({ origin, size, witnesses }: Seen, before: number | undefined): string =>
  [
    `verified: size ${size} of ${origin}`,
    before !== undefined ? `which go on from the ${before} before` : 'the first checkpoint that is kept',
    ...(witnesses.length > 0 ? [`cosigned by ${witnesses.map(keyName).join(', ')}`] : []),
  ].join(', ');
