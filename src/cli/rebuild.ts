import { randomUUID } from 'node:crypto';
import { START } from '../ports/event-log.js';
import { Progress } from './progress.js';
import { cancelRebuild, requestRebuild, requestRollback } from '../write/rebuilds.js';
import { GRACE_MS, OperationRefused, type Promoted } from '../rebuilds/rebuilds.js';
import { readRebuilds } from '../rebuilds/read.js';
import { pause } from '../async/pause.js';
import { type CliContext, print } from './context.js';
import { duration } from './terminal.js';
import { Interrupted } from './interrupted.js';
import { type ProcessReport, readReports, workingProjector } from '../operations/process-report.js';
import { activeGeneration } from '../operations/status.js';

/** How often a command reads the progress of its request, in milliseconds: one short stream and the reports. */
const LOOK_EVERY_MS = 500;

/** Events that are read to estimate the duration: a second at most. */
const SAMPLE = 20_000;

/** The duration of a rebuild, as a multiple of reading the log: it writes, and reads again to verify. Measured. */
const TIMES_READING = 4;

/** The duration under constant requests, for which it pauses, as a multiple of that without. Measured: 74 s and 13 s. */
const TIMES_UNDER_TRAFFIC = 6;

/** How long no projector may be working before the command ends, in milliseconds: a standby takes over within seconds. */
const IDLE_MS = 15_000;

/** How long a decided promotion or rollback may take before the command ends, in milliseconds. */
const SWITCH_MS = 60_000;

export interface RebuildOptions {
  /** The most events a second; undefined for no bound. */
  readonly rate: number | undefined;
  /** Whether events that were skipped are read again. */
  readonly unskip: boolean;
}

/** Requests a rebuild, and with `wait` shows its progress. Returns whether it was promoted. Throws OperationRefused. */
export const rebuild = async (
  context: CliContext,
  { rate, unskip, wait }: RebuildOptions & { readonly wait: boolean },
): Promise<boolean> => {
  const { log, operator, now, signal } = context;
  const id = randomUUID();
  signal.throwIfAborted();
  await requestRebuild(log, { rebuild: id, rate: rate ?? null, unskip }, operator, now);
  const watch = new Watch(context);
  watch.say(`rebuild ${id} is requested`);
  if (!wait) {
    const nobody = idleReason(await readReports(context.model));
    print(
      context,
      { rebuild: id, outcome: 'requested' },
      `requested rebuild ${id}${nobody === undefined ? '' : `; ${nobody}`}`,
    );
    return true;
  }
  const began = performance.now();
  let decidedAt: number | undefined;
  const outcome = await watch.until(async (reports) => {
    const state = await readRebuilds(log);
    if (state.building?.rebuild === id) {
      watch.showRebuild(id, reports);
      return undefined;
    }
    if (state.promoted?.rebuild === id && !(await isActive(context, state.promoted))) {
      decidedAt ??= now().getTime();
      if (now().getTime() - decidedAt > SWITCH_MS) throw notSwitched(id, reports);
      return undefined;
    }
    return state.last?.rebuild === id ? state.last.outcome : 'followed by another one';
  }, 'no longer watching: the rebuild goes on. plants status shows it, plants rebuild --cancel gives it up');
  const seconds = Number(((performance.now() - began) / 1_000).toFixed(1));
  const generation = await activeGeneration(context);
  const promoted = outcome === 'promoted';
  print(
    context,
    { rebuild: id, outcome, seconds, generation: promoted ? (generation ?? null) : null },
    promoted
      ? `rebuild ${id} was verified and promoted after ${duration(seconds)}: lists are answered from generation ${generation ?? ''}`
      : `rebuild ${id} was ${outcome}`,
  );
  return promoted;
};

const notSwitched = (id: string, reports: readonly ProcessReport[]): OperationRefused => {
  const reason = reports.find(({ rebuildProblem }) => rebuildProblem !== undefined)?.rebuildProblem;
  return new OperationRefused(
    `rebuild ${id} is verified, but lists are not answered from it${reason === undefined ? '' : `: ${reason}`}. It is tried again; plants status shows how it gets on`,
  );
};

/** Waits until the projector has switched the lists to a generation. Returns whether it has. */
const isActive = async (
  context: CliContext,
  { generation, replaced, rollback }: Promoted,
): Promise<boolean> => (await activeGeneration(context)) === (rollback === undefined ? generation : replaced);

/** Prints what a rebuild would do, and requests none. */
export const dryRun = async (context: CliContext, { rate, unskip }: RebuildOptions): Promise<boolean> => {
  const { log, signal } = context;
  const { building } = await readRebuilds(log);
  const head = await log.head();
  const counted = log.count(START, head);
  const progress = new Progress('events', process.stderr, context.json);
  const began = performance.now();
  const sample = { events: 0, ms: 0 };
  let total = 0;
  try {
    for await (const { position } of log.readAll(START)) {
      signal.throwIfAborted();
      total += 1;
      if (total <= SAMPLE) Object.assign(sample, { events: total, ms: performance.now() - began });
      else if (counted !== undefined || position > head) break; // else counting is reading
      progress.show('counting', total, counted);
    }
  } finally {
    progress.end();
  }
  total = counted ?? total;
  const quickest = (total * sample.ms * TIMES_READING) / Math.max(1, sample.events) / 1_000;
  const atRate = rate === undefined ? 0 : total / rate;
  const seconds = Number(Math.max(quickest, atRate).toFixed(1));
  const secondsUnderTraffic = Number(Math.max(quickest * TIMES_UNDER_TRAFFIC, atRate).toFixed(1));
  const active = await activeGeneration(context);
  print(
    context,
    {
      events: total,
      estimatedSeconds: seconds,
      estimatedSecondsUnderTraffic: secondsUnderTraffic,
      active: active ?? null,
      underWay: building?.rebuild ?? null,
    },
    [
      `The log holds ${total} events. A rebuild would take about ${duration(seconds)}: an estimate, from the time to read ${sample.events} of them.`,
      ...(secondsUnderTraffic > seconds
        ? [`While requests never cease it gives way to them, and may take ${duration(secondsUnderTraffic)}.`]
        : []),
      `It would build a new generation${active === undefined ? '' : ` beside generation ${active}, which takes as much space again`}${unskip ? ', with the events that were skipped' : ''}, verify it, and answer`,
      `lists from it. The old one is kept up to date for ${duration(GRACE_MS / 1_000)} as a way back, and then dropped.`,
      building
        ? `Now it would be refused: rebuild ${building.rebuild} is under way.`
        : 'Nothing was asked for.',
    ].join('\n'),
  );
  return true;
};

/** Cancels the rebuild in progress. Throws OperationRefused where there is none. */
export const cancel = async (context: CliContext): Promise<boolean> => {
  const { log, operator, now } = context;
  const reason = `by ${operator.actor.sub}`;
  const rebuild = await cancelRebuild(log, reason, operator, now);
  print(
    context,
    { rebuild, outcome: `cancelled: ${reason}` },
    `rebuild ${rebuild} is cancelled: what it has built is dropped`,
  );
  return true;
};

/**
 * Requests a rollback to the generation that the last rebuild replaced. Returns whether lists are served from it. Throws
 * OperationRefused where that generation is gone.
 */
export const rollback = async (
  context: CliContext,
  { reason }: { readonly reason: string },
): Promise<boolean> => {
  const { log, operator, now } = context;
  context.signal.throwIfAborted();
  await requestRollback(log, reason, operator, now);
  const outcome = await new Watch(context).until(async () => {
    const { promoted, last } = await readRebuilds(log);
    if (promoted?.rollback === 'requested') return undefined;
    return last?.outcome;
  }, 'no longer waiting: what was asked for is done as soon as a projector runs. plants status shows it');
  const done = outcome === 'rolled back';
  const generation = await activeGeneration(context);
  print(
    context,
    { rolledBack: done, generation: generation ?? null },
    done
      ? `lists are answered from generation ${generation ?? ''} again`
      : 'there is no way back any more: the generation before is gone',
  );
  return done;
};

/** Why no process works on a request, by the reports of the processes; undefined where one does. */
const idleReason = (reports: readonly ProcessReport[]): string | undefined => {
  if (workingProjector(reports) ?? reports.find(({ rebuild }) => rebuild !== null)) return undefined;
  const projectors = reports.flatMap(({ host, pid, projector }) =>
    projector ? [`${host}/${pid} is ${projector.state.replace('_', ' ')}`] : [],
  );
  return projectors.length === 0
    ? 'no projector runs: the request waits until one is started'
    : `no projector works (${projectors.join(', ')}): the request waits until one does`;
};

/** Polls the progress of a request, and prints each change on standard error. */
class Watch {
  readonly #progress: Progress;
  #said: string | undefined;
  /** Since when no process works on the request, in milliseconds of the context's clock. */
  #idleSince: number | undefined;
  /** Whether a process has reported progress. */
  #reported = false;

  constructor(private readonly context: CliContext) {
    this.#progress = new Progress('events', process.stderr, context.json);
  }

  /** Polls until `over` returns a value. Throws Interrupted with this message at the signal of the context. */
  async until<Result>(
    over: (reports: readonly ProcessReport[]) => Promise<Result | undefined>,
    interrupted: string,
  ): Promise<Result> {
    const { model, signal } = this.context;
    try {
      for (;;) {
        const reports = await readReports(model);
        const result = await over(reports);
        if (result !== undefined) return result;
        this.#assertWorking(reports);
        await pause(LOOK_EVERY_MS, signal);
        signal.throwIfAborted();
      }
    } catch (error) {
      throw error instanceof Interrupted ? new Interrupted(interrupted, error.signal) : error;
    } finally {
      this.#progress.end();
    }
  }

  /** Throws OperationRefused where no process has worked on it for IDLE_MS; the request stays in the log. */
  #assertWorking(reports: readonly ProcessReport[]): void {
    const nobody = idleReason(reports);
    if (nobody === undefined) {
      this.#idleSince = undefined;
      return;
    }
    this.say(nobody);
    const now = this.context.now().getTime();
    this.#idleSince ??= now;
    if (now - this.#idleSince > IDLE_MS)
      throw new OperationRefused(`${nobody}. Not waiting any longer: plants status shows how it gets on`);
  }

  /** Shows the progress that the working process reports. */
  showRebuild(id: string, reports: readonly ProcessReport[]): void {
    const progress = reports.find(({ rebuild }) => rebuild?.rebuild === id)?.rebuild;
    if (!progress) {
      if (!this.#reported) this.#progress.showShare('rebuild', 0, 'waiting');
      return;
    }
    this.#reported = true;
    if (progress.problem !== undefined) this.say(`it is failing, retrying: ${progress.problem}`);
    else this.#progress.showShare('rebuild', progress.share, rebuildDetail(progress));
  }

  /** Prints a line, where it differs from the last one. */
  say(line: string): void {
    if (this.context.json || line === this.#said) return;
    this.#said = line;
    this.#progress.end();
    process.stderr.write(`${line}\n`);
  }
}

/** The figures beside the bar. */
const rebuildDetail = ({
  phase,
  events,
  elapsedMs,
  secondsLeft,
}: NonNullable<ProcessReport['rebuild']>): string => {
  const rate = elapsedMs > 0 ? `, ${Math.round(events / (elapsedMs / 1_000))}/s` : '';
  const left = secondsLeft === undefined ? '' : `, ${duration(secondsLeft)} left`;
  return phase === 'building' ? `${phase}, ${events} events${rate}${left}` : `${phase}${left}`;
};
