/** Index of the log's end, and of a flag that it was stopped. */
const [SEQ, STOPPED] = [0, 1];

/**
 * The number of the last durable event of a log, which its owner stores and other threads of the process read: nobody
 * reads an event before it is durable, and nobody polls.
 */
export class SharedHead {
  readonly #numbers: BigInt64Array;

  /** `shared`: of another thread's SharedHead; without it, a new one that stands at 0. */
  constructor(readonly shared = new SharedArrayBuffer(16)) {
    this.#numbers = new BigInt64Array(shared);
  }

  get seq(): number {
    return Number(Atomics.load(this.#numbers, SEQ));
  }

  /** True once files of the log were taken away, so that what is read may be old or wrong. */
  get isStopped(): boolean {
    return Atomics.load(this.#numbers, STOPPED) === 1n;
  }

  moveTo(seq: number): void {
    Atomics.store(this.#numbers, SEQ, BigInt(seq));
    Atomics.notify(this.#numbers, SEQ);
  }

  stop(): void {
    Atomics.store(this.#numbers, STOPPED, 1n);
  }

  /** Resolves once it stands elsewhere than at `seq`. */
  async moved(seq: number): Promise<void> {
    await Atomics.waitAsync(this.#numbers, SEQ, BigInt(seq)).value;
  }
}
