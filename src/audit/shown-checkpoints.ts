import { hash } from 'node:crypto';
import { abortAfter, monotonicMs } from '../runtime/runtime.js';
import { type EventLog, LogUnavailable } from '../log/event-log.js';
import { type Checkpoint, openCheckpoint } from '../transparency/checkpoint.js';
import { keyName, NoteRefused, type VerifierKey } from '../transparency/note.js';
import { orElse } from '../transparency/refused.js';
import { type Finding } from './findings.js';
import { hasRoot } from './recheck.js';
import { type TreeStore } from './tree-store.js';
import { type AskWitness, type WitnessTarget } from './add-checkpoint.js';

export interface ShownCheckpointsOptions {
  readonly ask: AskWitness;
  /**
   * Limit for the answer of a witness before the first signature. One that takes longer counts as one that shows nothing:
   * witnesses would else decide whether anything is signed.
   */
  readonly timeoutMs: number;
  /** For how long the log has to end before what was signed until events are gone, in milliseconds: a read may be stale. */
  readonly patienceMs: number;
}

/** A checkpoint by our key that a witness shows. */
interface Shown {
  readonly target: WitnessTarget;
  readonly checkpoint: Checkpoint;
}

/** `later`: it is of a greater tree, which ours may become. */
type Judgement = 'consistent' | 'later' | Finding;

/**
 * Compares the tree with what witnesses show that our key has signed before. An auditor that has lost tree.db, or was
 * restored to an older state, may be about to sign a second history, and only the witnesses know: they are asked beside
 * each other before the first signature, and each one again that does not cosign what is signed then.
 */
export class ShownCheckpoints {
  #first: Promise<readonly Shown[]> | undefined;
  /** Since when our tree has been at the end of the log, and smaller than what a witness shows: of monotonicMs(). */
  readonly #shorterSince = new Map<WitnessTarget, number>();

  constructor(
    private readonly log: Pick<EventLog, 'head'>,
    private readonly store: TreeStore,
    private readonly key: VerifierKey,
    private readonly targets: readonly WitnessTarget[],
    private readonly options: ShownCheckpointsOptions,
  ) {}

  /**
   * Returns `yes` if the stored tree may be signed for the first time; `later` also where `signal` aborts; or the
   * contradiction. Throws what the store throws.
   */
  async allow(signal: AbortSignal): Promise<'yes' | 'later' | Finding> {
    this.#first ??= this.#askAll(signal);
    const shown = await this.#first;
    if (signal.aborted) {
      this.#first = undefined; // what was not answered by then is not known
      return 'later';
    }
    let allowed: 'yes' | 'later' = 'yes';
    for (const one of shown) {
      const judgement = await this.#judge(one);
      if (typeof judgement === 'object') return judgement;
      if (judgement === 'later') allowed = judgement;
    }
    return allowed;
  }

  /** What a witness that does not cosign can show against the tree. Rejects as `ask`, and throws what the store throws. */
  async against(target: WitnessTarget, signal: AbortSignal): Promise<Finding | undefined> {
    const checkpoint = await this.#shownBy(target, signal);
    const judgement = checkpoint && (await this.#judge({ target, checkpoint }));
    return typeof judgement === 'object' ? judgement : undefined;
  }

  /** A witness goes on from the tree. */
  agreed(target: WitnessTarget): void {
    this.#shorterSince.delete(target);
  }

  /** Asks all again, as after an alarm that was lifted. */
  forget(): void {
    this.#first = undefined;
    this.#shorterSince.clear();
  }

  async #askAll(signal: AbortSignal): Promise<readonly Shown[]> {
    const late = AbortSignal.any([signal, abortAfter(this.options.timeoutMs)]);
    const answers = await Promise.all(
      this.targets.map(async (target) => {
        // The status of one that fails says why, when a checkpoint is submitted.
        const checkpoint = await this.#shownBy(target, late).catch(() => undefined);
        return checkpoint && { target, checkpoint };
      }),
    );
    return answers.filter((one) => one !== undefined);
  }

  /** Undefined where it shows none by our key. Rejects as `ask`. */
  async #shownBy({ url }: WitnessTarget, signal: AbortSignal): Promise<Checkpoint | undefined> {
    const { key } = this;
    const path = `${hash('sha256', key.name)}/checkpoint`;
    const { status, body } = await this.options.ask(`${url}/${path}`, undefined, signal);
    if (status !== 200) return undefined;
    const open = (): Checkpoint => openCheckpoint(body, key.name, [key]);
    return orElse(open, [NoteRefused], () => undefined);
  }

  async #judge({ target, checkpoint }: Shown): Promise<Judgement> {
    const { size } = checkpoint;
    const ours = (await this.store.tree()).size;
    if (size > ours)
      return (await this.#areGone(target, size))
        ? this.#fork(target, `${size} events, and this tree has ${ours}: events that were signed are gone`)
        : 'later';
    this.agreed(target);
    if (await hasRoot(this.store, checkpoint)) return 'consistent';
    return this.#fork(target, `${size} events, and the first ${size} events have another root now`);
  }

  /**
   * Another auditor with our key may be ahead of us, or events that were signed are gone. They are once our tree has come
   * to where the log ended after the witness had shown its tree: all that it has cosigned was in the log by then.
   */
  async #areGone(target: WitnessTarget, size: number): Promise<boolean> {
    if (!(await this.#endsBefore(size))) {
      this.agreed(target);
      return false;
    }
    const since = this.#shorterSince.get(target) ?? monotonicMs();
    this.#shorterSince.set(target, since);
    return monotonicMs() - since >= this.options.patienceMs;
  }

  async #endsBefore(size: number): Promise<boolean> {
    try {
      const head = await this.log.head();
      const tree = await this.store.tree();
      return tree.position >= head && tree.size < size;
    } catch (error) {
      if (error instanceof LogUnavailable) return false; // the auditor reports it
      throw error;
    }
  }

  #fork(target: WitnessTarget, what: string): Finding {
    return {
      kind: 'fork',
      message: `the witness ${keyName(target.key)} shows a checkpoint that ${keyName(this.key)} has signed of ${what}: the log was restored to an earlier state or altered, or this key signs two histories (docs/witnesses.md)`,
    };
  }
}
