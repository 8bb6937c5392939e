import { abortAfter } from '../runtime/runtime.js';
import { type EventLog } from '../log/event-log.js';
import { type TreeStore } from './tree-store.js';
import { type Checkpoint } from '../transparency/checkpoint.js';
import { type Finding } from './findings.js';
import { RollbackDetector } from './rollback-detector.js';
import { type VerifierKey } from '../transparency/note.js';
import { hasRoot } from './recheck.js';
import { type AskWitness, eventsGone, otherHistory, shownBy, type WitnessTarget } from './witnessing.js';

export interface WitnessPreflightOptions {
  readonly ask: AskWitness;
  /**
   * Limit for the answer of a witness. One that takes longer counts as one that shows nothing: witnesses would else
   * decide whether anything is signed.
   */
  readonly timeoutMs: number;
  /** As RollbackDetector has it. */
  readonly patienceMs: number;
}

/** A checkpoint that a witness shows. */
interface Shown {
  readonly target: WitnessTarget;
  readonly checkpoint: Checkpoint;
}

/**
 * Compares the tree with what witnesses have cosigned for this key before. An auditor that has lost tree.db, or was
 * restored to an older state, may be about to sign a second history, and only the witnesses know: they are asked once,
 * beside each other, before the first signature.
 */
export class WitnessPreflight {
  #asked: Promise<readonly Shown[]> | undefined;
  readonly #greater: RollbackDetector;

  constructor(
    log: Pick<EventLog, 'head'>,
    private readonly store: TreeStore,
    private readonly key: VerifierKey,
    private readonly targets: readonly WitnessTarget[],
    private readonly options: WitnessPreflightOptions,
  ) {
    this.#greater = new RollbackDetector(log, store, options.patienceMs);
  }

  /**
   * Returns `yes` if the stored tree may be signed; `later`, where a witness shows a greater one, which this may become,
   * or `signal` aborts; or the contradiction. Throws what the store throws.
   */
  async allows(signal: AbortSignal): Promise<'yes' | 'later' | Finding> {
    this.#asked ??= this.#askAll(signal);
    const asked = await this.#asked;
    if (signal.aborted) {
      this.#asked = undefined; // what was not answered by then is not known
      return 'later';
    }
    const { size } = await this.store.tree();
    let ahead: Shown | undefined;
    for (const shown of asked)
      if (shown.checkpoint.size > size) ahead = shown;
      else if (!(await hasRoot(this.store, shown.checkpoint)))
        return otherHistory(shown.target, this.key, shown.checkpoint);
    if (!ahead) return 'yes';
    if (!(await this.#greater.hasLost(ahead.checkpoint.size))) return 'later';
    return eventsGone(ahead.target, this.key, ahead.checkpoint, size);
  }

  /** Asks again, as after an alarm that was lifted. */
  forget(): void {
    this.#asked = undefined;
    this.#greater.forget();
  }

  async #askAll(signal: AbortSignal): Promise<readonly Shown[]> {
    const late = AbortSignal.any([signal, abortAfter(this.options.timeoutMs)]);
    const answers = await Promise.allSettled(
      this.targets.map(async (target) => ({
        target,
        checkpoint: await shownBy(target, this.key, this.options.ask, late),
      })),
    );
    return answers.flatMap((answer) => {
      if (answer.status === 'rejected') return []; // its status says why, when a checkpoint is submitted
      const { target, checkpoint } = answer.value;
      return checkpoint ? [{ target, checkpoint }] : [];
    });
  }
}
