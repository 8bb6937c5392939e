import { backoffMs, withJitter } from '../runtime/backoff.js';
import { Bell } from '../runtime/bell.js';
import { pause } from '../runtime/pause.js';
import { type SignedCheckpoint, type TreeStore, TreeUnavailable } from './tree-store.js';
import {
  type AskWitness,
  formatAddCheckpoint,
  SIZE_TYPE,
  sizeIn,
  type WitnessReply,
  type WitnessTarget,
} from './add-checkpoint.js';
import { type Cosignature, cosignaturesOf } from '../transparency/cosignature.js';
import { type CosignedNotes } from './cosigned-notes.js';
import { type ShownCheckpoints } from './shown-checkpoints.js';
import { keyName } from '../transparency/note.js';
import { quoted } from '../transparency/refused.js';
import { storedConsistency } from './stored-tree.js';
import { TileRefused } from '../transparency/tiles.js';

/**
 * `waiting`: nothing was submitted yet; `cosigns`; `unreachable`: it cannot be reached, or its answer is none; `refuses`:
 * it does not know this log or its key; `disagrees`: it has cosigned something that this tree is not proven to go on
 * from.
 */
export type WitnessState = 'waiting' | 'cosigns' | 'unreachable' | 'refuses' | 'disagrees';

/** The progress of one witness. */
export interface WitnessStatus {
  /** Name and id of its key. */
  readonly witness: string;
  readonly state: WitnessState;
  /** The last tree that it has cosigned for us, and when by its clock; undefined for none. */
  readonly size: number | undefined;
  readonly at: string | undefined;
  /** Why it does not cosign. */
  readonly reason: string | undefined;
}

/** The progress of all witnesses. */
export interface WitnessingStatus {
  /** Witnesses that have to cosign. */
  readonly required: number;
  /** The last tree that so many have cosigned; undefined for none. */
  readonly size: number | undefined;
  readonly witnesses: readonly WitnessStatus[];
}

export interface WitnessingOptions {
  readonly now: () => Date;
  readonly ask: AskWitness;
  readonly pauses: { readonly firstMs: number; readonly longestMs: number };
  /** Called with each change of a witness's state, for the log. */
  readonly onState: (status: WitnessStatus) => void;
  /** Called when the status may have changed. */
  readonly onProgress?: () => void;
}

/** Interval of readings of the store for a checkpoint that another process has signed. */
const LOOK_EVERY_MS = 5_000;

/** A failed submission; undefined where it was cosigned. */
type Failure =
  | { readonly state: 'unreachable' | 'refuses' | 'disagrees'; readonly reason: string }
  | undefined;

/** One witness, and what is known of it. */
interface WitnessClient {
  readonly target: WitnessTarget;
  /** The size that it has cosigned last, as far as known; undefined before the store was asked. */
  known: number | undefined;
  status: WitnessStatus;
  failures: number;
}

/**
 * Submits each signed checkpoint to each witness, with the proof that it goes on from the last one that the witness has
 * cosigned, and keeps the cosignatures. Witnesses are asked beside each other, and one that fails is asked less often.
 * A checkpoint that our own key has signed and that contradicts our tree raises the alarm; what a witness merely says does
 * not, so that no witness can stop the auditor.
 */
export class Witnessing {
  readonly #clients: readonly WitnessClient[];
  /** The last size that enough of them have cosigned. */
  #size: number | undefined;
  readonly #bell = new Bell();

  constructor(
    private readonly store: TreeStore,
    targets: readonly WitnessTarget[],
    private readonly notes: CosignedNotes,
    private readonly shown: ShownCheckpoints,
    private readonly options: WitnessingOptions,
  ) {
    this.#clients = targets.map((target) => {
      const status = {
        witness: keyName(target.key),
        state: 'waiting' as const,
        size: undefined,
        at: undefined,
        reason: undefined,
      };
      return { target, known: undefined, status, failures: 0 };
    });
  }

  get status(): WitnessingStatus {
    return {
      required: this.notes.required,
      size: this.#size,
      witnesses: this.#clients.map(({ status }) => status),
    };
  }

  /** Called when a checkpoint was signed. */
  signed(): void {
    this.#bell.ring();
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#clients.map((client) => this.#follow(client, signal)));
  }

  async #follow(client: WitnessClient, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const seen = this.#bell.rings; // none that is signed during a submission is waited for
      const failure = await this.#step(client, signal);
      if (failure === 'nothing new') {
        await this.#bell.wait(LOOK_EVERY_MS, signal, seen);
        continue;
      }
      if (failure !== 'stopped') this.#show(client, failure);
      if (failure !== undefined)
        await pause(withJitter(backoffMs(client.failures++, this.options.pauses)), signal);
      else client.failures = 0;
    }
  }

  /** Submits the last checkpoint, unless the witness has cosigned it. */
  async #step(client: WitnessClient, signal: AbortSignal): Promise<Failure | 'nothing new' | 'stopped'> {
    try {
      await this.#recall(client);
      const latest = await this.store.latestCheckpoint();
      if (!latest || latest.size === 0) return 'nothing new';
      const { by } = await this.notes.cosigned(latest.note);
      if (by.some(({ key }) => key === client.target.key)) return 'nothing new';
      return await this.#submit(client, latest, signal);
    } catch (error) {
      if (signal.aborted) return 'stopped';
      // The auditor reports what is wrong with its own tree.
      if (error instanceof TreeUnavailable || error instanceof TileRefused) return 'nothing new';
      return { state: 'unreachable', reason: oneLine(error) };
    }
  }

  /** Finds in the store what the witness has cosigned last. */
  async #recall(client: WitnessClient): Promise<void> {
    this.#size = (await this.notes.witnessed())?.size;
    if (client.known !== undefined) return;
    client.known = 0;
    for (const { size, by } of await this.notes.checkpoints()) {
      const cosignature = by.find(({ key }) => key === client.target.key);
      if (cosignature) this.#hasCosigned(client, size, cosignature);
    }
  }

  #hasCosigned(client: WitnessClient, size: number, { time }: Cosignature): void {
    client.known = size;
    client.status = { ...client.status, size, at: timeText(time) };
  }

  async #submit(client: WitnessClient, latest: SignedCheckpoint, signal: AbortSignal): Promise<Failure> {
    // It may have more than our tree: then it is asked which size that is.
    const { known = 0 } = client;
    let old = known > latest.size ? 0 : known;
    let reply = await this.#addCheckpoint(client, latest, old, signal);
    const size =
      reply.status === 409 && reply.type.startsWith(SIZE_TYPE) ? sizeIn(reply.body.trimEnd()) : undefined;
    if (size !== undefined) {
      client.known = size;
      if (size > latest.size)
        return this.#disagreement(
          client,
          `it has cosigned a tree of size ${size}, and this one has ${latest.size}`,
          signal,
        );
      if (size !== old) reply = await this.#addCheckpoint(client, latest, (old = size), signal);
    }
    const { status, body } = reply;
    const says = body.trim() === '' ? '' : `: ${quoted(body.trimEnd())}`;
    if (status === 200) return this.#cosigned(client, latest, body);
    if (status === 422)
      return this.#disagreement(
        client,
        `it refuses the proof that ${latest.size} events go on from the ${old} that it has cosigned${says}`,
        signal,
      );
    const refuses = [400, 401, 403, 404, 405, 413].includes(status);
    return { state: refuses ? 'refuses' : 'unreachable', reason: `it answers ${status}${says}` };
  }

  async #addCheckpoint(
    { target }: WitnessClient,
    { size, note }: SignedCheckpoint,
    old: number,
    signal: AbortSignal,
  ): Promise<WitnessReply> {
    const proof = old === 0 ? [] : await storedConsistency(this.store, old, size);
    return this.options.ask(
      `${target.url}/add-checkpoint`,
      formatAddCheckpoint({ old, proof, note }),
      signal,
    );
  }

  async #cosigned(client: WitnessClient, { size, note }: SignedCheckpoint, lines: string): Promise<Failure> {
    const [cosignature] = cosignaturesOf(note + lines, [client.target.key]);
    if (!cosignature) return { state: 'unreachable', reason: 'it answers without its cosignature' };
    await this.notes.add(size, cosignature);
    this.#size = (await this.notes.witnessed())?.size;
    this.shown.agreed(client.target);
    this.#hasCosigned(client, size, cosignature);
    return undefined;
  }

  /** Raises the alarm where the witness can show a checkpoint by our key that contradicts our tree. */
  async #disagreement({ target }: WitnessClient, reason: string, signal: AbortSignal): Promise<Failure> {
    const finding = await this.shown.against(target, signal);
    if (finding && !(await this.store.alarm()))
      await this.store.raise({ ...finding, raisedAt: this.options.now().toISOString() });
    return { state: 'disagrees', reason };
  }

  #show(client: WitnessClient, failure: Failure): void {
    const before = client.status;
    client.status = { ...before, state: failure?.state ?? 'cosigns', reason: failure?.reason };
    if (before.state !== client.status.state) this.options.onState(client.status);
    this.options.onProgress?.();
  }
}

const timeText = (seconds: bigint): string =>
  seconds > MAX_SECONDS ? `${seconds} s after 1970` : new Date(Number(seconds) * 1_000).toISOString();

/** The last second that Date knows. */
const MAX_SECONDS = 8_640_000_000_000n;

const oneLine = (error: unknown): string => (error instanceof Error ? error.message : String(error));
