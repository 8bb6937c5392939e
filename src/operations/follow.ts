import { pause } from '../async/pause.js';
import { OperationRefused } from '../rebuilds/rebuilds.js';
import { type ErasureStatus } from './erasure-status.js';
import { type Operations, ServiceUnreachable } from './operations.js';
import { type ProcessReport, workingProjector } from './process-report.js';
import { type SystemStatus } from './system-status.js';

/** How often a request is looked after, in milliseconds. */
const LOOK_EVERY_MS = 500;

/** How long no projector may be working before nobody waits any longer, in milliseconds: a standby takes over within seconds. */
const IDLE_MS = 15_000;

/** How long a decided promotion or rollback may take before nobody waits any longer, in milliseconds. */
const SWITCH_MS = 60_000;

/** How long a service may be out of reach before nobody waits any longer, in milliseconds. */
const UNREACHABLE_MS = 60_000;

/** What is to be shown while a request is followed: a line for a person, or how far a rebuild is. */
export type FollowStep = string | NonNullable<SystemStatus['rebuild']>;

/** What a request is followed with. */
interface Following {
  readonly operations: Pick<Operations, 'status' | 'erasure'>;
  readonly now: () => Date;
  readonly signal: AbortSignal;
}

/** Why no process works on a request, by the reports of the processes; undefined where one does. */
export const idleReason = (reports: readonly ProcessReport[]): string | undefined => {
  if (workingProjector(reports) ?? reports.find(({ rebuild }) => rebuild !== null)) return undefined;
  const projectors = reports.flatMap(({ host, pid, projector }) =>
    projector ? [`${host}/${pid} is ${projector.state.replace('_', ' ')}`] : [],
  );
  return projectors.length === 0
    ? 'no projector runs: the request waits until one is started'
    : `no projector works (${projectors.join(', ')}): the request waits until one does`;
};

/**
 * Follows a rebuild to its end, and returns its outcome. Throws OperationRefused where no projector works on it, or lists
 * are not switched to it; ServiceUnreachable where the service is away for a minute; and the signal's reason.
 */
export const followRebuild = (
  following: Following,
  id: string,
): AsyncGenerator<FollowStep, Readonly<{ outcome: string; generation: number | null }>> => {
  let decidedAt: number | undefined;
  return follow(following, (status) => {
    const { rebuild, lastRebuild, processes } = status;
    if (rebuild?.rebuild === id) return undefined;
    const generation = status.generations.find(({ active }) => active)?.generation ?? null;
    const outcome = lastRebuild?.rebuild === id ? lastRebuild.outcome : 'followed by another one';
    const wanted = outcome === 'promoted' ? (lastRebuild?.generation ?? generation) : generation;
    if (wanted === generation) return { outcome, generation };
    const now = following.now().getTime();
    decidedAt ??= now;
    if (now - decidedAt <= SWITCH_MS) return undefined;
    const reason = processes.find(({ rebuildProblem }) => rebuildProblem !== undefined)?.rebuildProblem;
    throw new OperationRefused(
      `rebuild ${id} is verified, but lists are not answered from it${reason === undefined ? '' : `: ${reason}`}. It is tried again; plants status shows how it gets on`,
    );
  });
};

/** Follows a rollback of a rebuild. Returns whether lists are answered from what it replaced, and throws as above. */
export const followRollback = (
  following: Following,
  id: string,
): AsyncGenerator<FollowStep, Readonly<{ rolledBack: boolean; generation: number | null }>> =>
  follow(following, ({ lastRebuild, rollingBack, generations }) => {
    if (rollingBack === id) return undefined;
    const generation = generations.find(({ active }) => active)?.generation ?? null;
    return { rolledBack: lastRebuild?.rebuild === id && lastRebuild.outcome === 'rolled back', generation };
  });

/** Follows an erasure until it has ended, or only something is left that somebody has to do. Throws as above. */
export async function* followErasure(
  { operations, signal, now }: Following,
  id: string,
): AsyncGenerator<string, ErasureStatus> {
  const patience = new Patience(now);
  for (;;) {
    const found = await patience.with(() => operations.erasure(id));
    if (typeof found === 'string') yield found;
    else if (found && (found.state === 'finished' || found.state === 'cancelled' || found.remains !== null))
      return found;
    else
      yield found?.state === 'erased'
        ? 'the events are erased; they are removed from the files of the stores'
        : 'waiting for a service with the role auditor: it deletes the plants, and signs a checkpoint without them';
    await pause(LOOK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
}

async function* follow<Outcome>(
  { operations, now, signal }: Following,
  outcomeOf: (status: SystemStatus) => Outcome | undefined,
): AsyncGenerator<FollowStep, Outcome> {
  const patience = new Patience(now);
  let idleSince: number | undefined;
  for (;;) {
    const status = await patience.with(() => operations.status());
    if (typeof status === 'string') yield status;
    else if (status.unanswered.length > 0) yield status.problems[0] ?? '';
    else {
      const outcome = outcomeOf(status);
      if (outcome !== undefined) return outcome;
      if (status.rebuild) yield status.rebuild;
      const nobody = idleReason(status.processes);
      if (nobody === undefined) idleSince = undefined;
      else {
        yield nobody;
        idleSince ??= now().getTime();
        if (now().getTime() - idleSince > IDLE_MS)
          throw new OperationRefused(`${nobody}. Not waiting any longer: plants status shows how it gets on`);
      }
    }
    await pause(LOOK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
}

/** Bears with a service that is out of reach, for UNREACHABLE_MS. */
class Patience {
  #since: number | undefined;

  constructor(private readonly now: () => Date) {}

  /** What is asked for, or a line that says why there is none yet. Throws what `ask` throws. */
  async with<T>(ask: () => Promise<T>): Promise<T | string> {
    try {
      const answer = await ask();
      this.#since = undefined;
      return answer;
    } catch (error) {
      if (!(error instanceof ServiceUnreachable)) throw error;
      const now = this.now().getTime();
      this.#since ??= now;
      if (now - this.#since > UNREACHABLE_MS) throw error;
      return `${error.message.replace(/: .*$/s, '')}, trying again`;
    }
  }
}
