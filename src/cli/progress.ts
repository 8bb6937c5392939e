import { SingleBar } from 'cli-progress';
import { type FollowStep } from '../operations/follow.js';
import { type OperationProgress } from '../operations/long-operation.js';
import { duration, quantity } from './terminal.js';

/** The interval at which a line is printed where there is no terminal, in milliseconds: a log stays readable. */
const LINE_EVERY_MS = 5_000;

/** The progress of a phase; `detail` stands in the place of counts, rate and time left where `done` is a percentage. */
type Shown = Readonly<
  Pick<OperationProgress, 'phase' | 'done' | 'total'> & {
    unit: OperationProgress['unit'] | '%';
    detail?: string;
  }
>;

/**
 * Shows on standard error how far a long piece of work is: a bar with rate and time left on a terminal, a line now
 * and then elsewhere, nothing where JSON is printed.
 */
export class Progress {
  #shown: Shown | undefined;
  #began = 0;
  #spoke = 0;
  #bar: SingleBar | undefined;

  constructor(
    private readonly output: { readonly json: boolean },
    private readonly stream = process.stderr,
  ) {}

  /** Shows the progress of a phase; without the time left where the total is not known. */
  show(shown: Shown): void {
    if (this.output.json) return;
    if (shown.phase !== this.#shown?.phase || shown.unit !== this.#shown.unit) this.#begin(shown);
    this.#shown = shown;
    if (this.#bar) this.#bar.update(shown.done, this.#figures(shown));
    else if (performance.now() - this.#spoke >= LINE_EVERY_MS) this.#line(shown);
  }

  /** Ends the line or bar of the last phase, as far as it was shown. */
  end(): void {
    if (!this.#shown) return;
    if (this.#bar) {
      this.#bar.update(this.#shown.done, this.#figures(this.#shown));
      this.#bar.stop();
      this.#bar = undefined;
    } else this.#line(this.#shown);
    this.#shown = undefined;
  }

  #begin({ phase, unit, total, detail }: Shown): void {
    // Its last steps may not have been told; another phase says that it is over.
    if (this.#shown) this.#shown = { ...this.#shown, done: this.#shown.total ?? this.#shown.done };
    this.end();
    this.#began = this.#spoke = performance.now();
    if (!this.stream.isTTY) return;
    const counted =
      total === null
        ? `{value} ${unit}, {rate}/s`
        : `{bar} {percentage}% {value} of {total} ${unit}, {rate}/s, {eta_formatted} left`;
    this.#bar = new SingleBar({
      stream: this.stream,
      format: `${phase.padEnd(9)} ${detail === undefined ? counted : '{bar} {percentage}% {detail}'}`,
      hideCursor: true,
      etaBuffer: 100,
    });
    this.#bar.start(total ?? 0, 0, { rate: 0, detail: '' });
  }

  #figures({ done, detail }: Shown): { readonly rate: number; readonly detail: string | undefined } {
    return { rate: Math.round(done / Math.max(0.001, (performance.now() - this.#began) / 1_000)), detail };
  }

  #line(shown: Shown): void {
    this.#spoke = performance.now();
    const { phase, unit, done, total, detail } = shown;
    const { rate } = this.#figures(shown);
    const left = total === null || rate === 0 ? '' : `, ${Math.ceil((total - done) / rate)} s left`;
    const counted = `${done}${total === null ? '' : ` of ${total}`} ${unit}, ${rate}/s${left}`;
    this.stream.write(`${phase}: ${detail === undefined ? counted : `${done}% ${detail}`}\n`);
  }
}

/** Shows how far a long operation is, or what becomes of a request, and returns the outcome. */
export const watched = async <Outcome>(
  output: { readonly json: boolean },
  steps: AsyncGenerator<FollowStep, Outcome>,
): Promise<Outcome> => {
  const progress = new Progress(output);
  let said: string | undefined;
  try {
    for (;;) {
      const { done, value } = await steps.next();
      if (done) return value;
      if (typeof value !== 'string') progress.show('share' in value ? shareOf(value) : value);
      else if (!output.json && value !== said) {
        progress.end();
        process.stderr.write(`${(said = value)}\n`);
      }
    }
  } finally {
    progress.end();
  }
};

/** The progress of a rebuild, with the figures beside its bar. */
const shareOf = ({
  share,
  phase,
  events,
  eventsPerSecond,
  secondsLeft,
}: Exclude<FollowStep, string | OperationProgress>): Shown => {
  const left = secondsLeft === null ? '' : `, ${duration(secondsLeft)} left`;
  const rate = eventsPerSecond === null ? '' : `, ${eventsPerSecond}/s`;
  const detail =
    phase === 'building' ? `${phase}, ${quantity(events ?? 0, 'event')}${rate}${left}` : `${phase}${left}`;
  return { phase: 'rebuild', unit: '%', done: Math.floor((share ?? 0) * 100), total: 100, detail };
};
