import { SingleBar } from 'cli-progress';
import { type FollowStep } from '../operations/follow.js';
import { type LongOperation } from '../operations/long-operation.js';
import { duration } from './terminal.js';

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
    readonly unit: string,
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

/** Shows how far a long operation is, and returns its outcome. */
export const watched = async <Outcome>(
  { json }: { readonly json: boolean },
  operation: LongOperation<Outcome>,
): Promise<Outcome> => {
  let progress: Progress | undefined;
  try {
    for (;;) {
      const step = await operation.next();
      if (step.done) return step.value;
      const { phase, unit, done, total } = step.value;
      if (progress?.unit !== unit) {
        progress?.end();
        progress = new Progress(unit, process.stderr, json);
      }
      progress.show(phase, done, total ?? undefined);
    }
  } finally {
    progress?.end();
  }
};

/** Shows what becomes of a request, beginning with a line, and returns its outcome. */
export const followed = async <Outcome>(
  { json }: { readonly json: boolean },
  steps: AsyncGenerator<FollowStep, Outcome>,
  firstLine?: string,
): Promise<Outcome> => {
  const progress = new Progress('events', process.stderr, json);
  let said: string | undefined;
  const say = (line: string): void => {
    if (json || line === said) return;
    said = line;
    progress.end();
    process.stderr.write(`${line}\n`);
  };
  if (firstLine !== undefined) say(firstLine);
  try {
    for (;;) {
      const step = await steps.next();
      if (step.done) return step.value;
      if (typeof step.value === 'string') say(step.value);
      else if (step.value.problem !== null) say(`it is failing, retrying: ${step.value.problem}`);
      else progress.showShare('rebuild', step.value.share ?? 0, rebuildDetail(step.value));
    }
  } finally {
    progress.end();
  }
};

/** The figures beside the bar of a rebuild. */
const rebuildDetail = ({
  phase,
  events,
  eventsPerSecond,
  secondsLeft,
}: Exclude<FollowStep, string>): string => {
  const left = secondsLeft === null ? '' : `, ${duration(secondsLeft)} left`;
  const rate = eventsPerSecond === null ? '' : `, ${eventsPerSecond}/s`;
  return phase === 'building' ? `${phase}, ${events ?? 0} events${rate}${left}` : `${phase}${left}`;
};
