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
  #share: Share | undefined;

  constructor(
    private readonly unit: string,
    private readonly stream: NodeJS.WriteStream,
    private readonly quiet = false,
  ) {}

  /** Shows the progress of a phase; without the time left where the total is not known. */
  show(phase: string, done: number, total: number | undefined): void {
    if (this.quiet) return;
    if (phase !== this.#phase) this.#begin(phase, total, this.#counting(total));
    this.#done = done;
    if (this.#bar) {
      this.#bar.update(done, { rate: this.#rate() });
      return;
    }
    if (performance.now() - this.#spoke >= LINE_EVERY_MS) this.#line();
  }

  /** Shows a share of the work, from 0 to 1, with `detail` beside it. */
  showShare(phase: string, share: number, detail: string): void {
    if (this.quiet) return;
    if (phase !== this.#phase) this.#begin(phase, 100, '{bar} {percentage}% {detail}');
    this.#share = { percent: Math.floor(share * 100), detail };
    if (this.#bar) this.#bar.update(this.#share.percent, { detail });
    else if (performance.now() - this.#spoke >= LINE_EVERY_MS) this.#line();
  }

  /** Ends the line or bar of the last phase. */
  end(): void {
    if (this.#phase === undefined) return;
    if (this.#bar) {
      if (!this.#share) this.#bar.update(this.#done, { rate: this.#rate() });
      this.#bar.stop();
      this.#bar = undefined;
    } else this.#line();
    this.#phase = undefined;
    this.#share = undefined;
  }

  #begin(phase: string, total: number | undefined, format: string): void {
    this.end();
    this.#phase = phase;
    this.#total = total;
    this.#began = performance.now();
    this.#spoke = this.#began;
    if (!this.stream.isTTY) return;
    this.#bar = new SingleBar({
      stream: this.stream,
      format: `${phase.padEnd(9)} ${format}`,
      hideCursor: true,
      etaBuffer: 100,
    });
    this.#bar.start(total ?? 0, 0, { rate: 0, detail: '' });
  }

  /** What a bar shows where events are counted. */
  #counting(total: number | undefined): string {
    return total === undefined
      ? `{value} ${this.unit}, {rate}/s`
      : `{bar} {percentage}% {value} of {total} ${this.unit}, {rate}/s, {eta_formatted} left`;
  }

  #rate(): number {
    return Math.round(this.#done / Math.max(0.001, (performance.now() - this.#began) / 1_000));
  }

  #line(): void {
    this.#spoke = performance.now();
    this.stream.write(`${this.#phase}: ${this.#share ? shareText(this.#share) : this.#count()}\n`);
  }

  #count(): string {
    const rate = this.#rate();
    const total = this.#total;
    const left = total === undefined || rate === 0 ? undefined : Math.ceil((total - this.#done) / rate);
    return `${this.#done}${total === undefined ? '' : ` of ${total}`} ${this.unit}, ${rate}/s${left === undefined ? '' : `, ${left} s left`}`;
  }
}

interface Share {
  readonly percent: number;
  readonly detail: string;
}

const shareText = ({ percent, detail }: Share): string => `${percent}% ${detail}`;
