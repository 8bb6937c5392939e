import { SingleBar } from 'cli-progress';

/** How often a line is printed where there is no terminal, in milliseconds: a log stays readable. */
const LINE_EVERY_MS = 5_000;

/**
 * Shows on standard error how far a long piece of work is: a bar with rate and time left on a terminal, a line now
 * and then elsewhere, nothing where `quiet`.
 */
export class Progress {
  #phase: string | undefined;
  #began = 0;
  #done = 0;
  #total: number | undefined;
  #spoke = 0;
  #bar: SingleBar | undefined;

  constructor(
    private readonly unit: string,
    private readonly stream: NodeJS.WriteStream,
    private readonly quiet = false,
  ) {}

  /** So much of a phase is done. A phase that has no total yet shows how much, without the time left. */
  show(phase: string, done: number, total: number | undefined): void {
    if (this.quiet) return;
    if (phase !== this.#phase) this.#begin(phase, total);
    this.#done = done;
    if (this.#bar) {
      this.#bar.update(done, { rate: this.#rate() });
      return;
    }
    if (performance.now() - this.#spoke >= LINE_EVERY_MS) this.#line();
  }

  /** The last phase is over, or given up. */
  end(): void {
    if (this.#phase === undefined) return;
    if (this.#bar) {
      this.#bar.update(this.#done, { rate: this.#rate() });
      this.#bar.stop();
      this.#bar = undefined;
    } else this.#line();
    this.#phase = undefined;
  }

  #begin(phase: string, total: number | undefined): void {
    this.end();
    this.#phase = phase;
    this.#total = total;
    this.#began = performance.now();
    this.#spoke = this.#began;
    if (!this.stream.isTTY) return;
    this.#bar = new SingleBar({
      stream: this.stream,
      format: `${phase.padEnd(9)} ${total === undefined ? '' : '{bar} {percentage}% '}{value}${total === undefined ? '' : ' of {total}'} ${this.unit}, {rate}/s${total === undefined ? '' : ', {eta_formatted} left'}`,
      hideCursor: true,
      etaBuffer: 100,
    });
    this.#bar.start(total ?? 0, 0, { rate: 0 });
  }

  #rate(): number {
    return Math.round(this.#done / Math.max(0.001, (performance.now() - this.#began) / 1_000));
  }

  #line(): void {
    this.#spoke = performance.now();
    const rate = this.#rate();
    const total = this.#total;
    const left = total === undefined || rate === 0 ? undefined : Math.ceil((total - this.#done) / rate);
    this.stream.write(
      `${this.#phase}: ${this.#done}${total === undefined ? '' : ` of ${total}`} ${this.unit}, ${rate}/s${left === undefined ? '' : `, ${left} s left`}\n`,
    );
  }
}
