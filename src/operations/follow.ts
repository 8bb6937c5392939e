import { pause } from '../runtime/pause.js';
import { activeOf } from '../lists/generations.js';
import { OperationRefused } from '../commands/rebuilds.js';
import { type ErasureStatus } from './erasure-status.js';
import { type OperationProgress } from './long-operation.js';
import { LogUnavailable } from '../log/event-log.js';
import { type Operations, ServiceUnreachable } from './operations.js';
import { type ProcessReport, workingProjector } from './process-report.js';
import { type SystemStatus } from './system-status.js';

/** The interval at which a request is looked after, in milliseconds. */
const LOOK_EVERY_MS = 500;

/** The time to wait for a working projector, in milliseconds: a standby takes over within seconds. */
const IDLE_MS = 15_000;

/** The time to wait for a decided promotion or rollback, in milliseconds. */
const SWITCH_MS = 60_000;

/** The time to wait for a service that is out of reach, in milliseconds. */
const UNREACHABLE_MS = 60_000;

/** The output while a request is followed: a line for a person, or how far it is. */
export type FollowStep = string | OperationProgress | NonNullable<SystemStatus['rebuild']>;

type Follow<Outcome> = AsyncGenerator<FollowStep, Outcome>;

/** The tools for following a request. */
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
 * are not switched to it; ServiceUnreachable or LogUnavailable where service or log are away for a minute; and the
 * signal's reason.
 */
export async function* followRebuild(
  following: Following,
  id: string,
): Follow<Readonly<{ outcome: string; generation: number | null }>> {
  yield `rebuild ${id} is requested`;
  const switching = new Lasting(following.now);
  return yield* followStatus(following, ({ rebuild, lastRebuild, processes, generations }) => {
    if (rebuild?.rebuild === id) return undefined;
    const generation = activeOf(generations)?.generation ?? null;
    const outcome = lastRebuild?.rebuild === id ? lastRebuild.outcome : 'followed by another one';
    const wanted = outcome === 'promoted' ? (lastRebuild?.generation ?? generation) : generation;
    if (wanted === generation) return { outcome, generation };
    if (!switching.longerThan(SWITCH_MS)) return undefined;
    const reason = processes.find(({ rebuildProblem }) => rebuildProblem !== undefined)?.rebuildProblem;
    throw new OperationRefused(
      `rebuild ${id} is verified, but lists are not answered from it${reason === undefined ? '' : `: ${reason}`}. It is tried again: plants status shows its progress`,
    );
  });
}

/** Follows a rollback of a rebuild. Returns whether lists are answered from what it replaced, and throws as above. */
export const followRollback = (
  following: Following,
  id: string,
): Follow<Readonly<{ rolledBack: boolean; generation: number | null }>> =>
  followStatus(following, ({ lastRebuild, rollingBack, generations }) => {
    if (rollingBack === id) return undefined;
    const generation = activeOf(generations)?.generation ?? null;
    return { rolledBack: lastRebuild?.rebuild === id && lastRebuild.outcome === 'rolled back', generation };
  });

/** The line about an erasure, by the phase of its progress. */
const ERASURE_PHASES: Readonly<Record<string, string>> = {
  unknown: 'it is not known whether it is worked on: the read model does not answer',
  starting: 'waiting for the auditor, which looks once a second',
  deleting: "the owner's plants are being looked for",
  waiting: 'the plants are deleted; waiting until lists and a signed checkpoint are without them',
  erasing: 'the events are being erased',
  scrubbing: 'the events are erased; they are removed from the files of the stores',
  scavenging:
    'the events are erased; waiting for a scavenge of EventStoreDB, which removes them from its files',
};

/** Follows an erasure until it has ended, or only something is left that an operator has to do. Throws as above. */
export const followErasure = (following: Following, id: string): Follow<ErasureStatus> =>
  follow(following, async function* () {
    const found = await following.operations.erasure(id);
    if (found && (found.state === 'finished' || found.state === 'cancelled' || found.remains !== null))
      return found;
    const { progress = null } = found ?? {};
    if (progress?.phase === 'deleting' && progress.total !== null) yield progress;
    else yield ERASURE_PHASES[progress?.phase ?? ''] ?? 'waiting for a service with the role auditor';
    return undefined;
  });

const followStatus = <Outcome>(
  following: Following,
  outcomeOf: (status: SystemStatus) => Outcome | undefined,
): Follow<Outcome> => {
  const idle = new Lasting(following.now);
  return follow(following, async function* () {
    const status = await following.operations.status();
    if (status.unanswered.length > 0) {
      yield status.problems[0] ?? '';
      return undefined;
    }
    const outcome = outcomeOf(status);
    if (outcome !== undefined) return outcome;
    const { rebuild, processes } = status;
    if (rebuild) yield rebuild.problem === null ? rebuild : `it is failing, retrying: ${rebuild.problem}`;
    const nobody = idleReason(processes);
    if (nobody === undefined) idle.ends();
    else {
      yield nobody;
      if (idle.longerThan(IDLE_MS))
        throw new OperationRefused(`${nobody}. Not waiting any longer: plants status shows its progress`);
    }
    return undefined;
  });
};

/** Looks until a look has found the outcome. Bears with a service or log that is out of reach, for UNREACHABLE_MS. */
async function* follow<Outcome>(
  { now, signal }: Following,
  look: () => Follow<Outcome | undefined>,
): Follow<Outcome> {
  const away = new Lasting(now);
  for (;;) {
    try {
      const outcome = yield* look();
      if (outcome !== undefined) return outcome;
      away.ends();
    } catch (error) {
      const isAway = error instanceof ServiceUnreachable || error instanceof LogUnavailable;
      if (!isAway || away.longerThan(UNREACHABLE_MS)) throw error;
      yield `${error.message.replace(/: .*$/s, '')}, trying again`;
    }
    await pause(LOOK_EVERY_MS, signal);
    signal.throwIfAborted();
  }
}

/** A stopwatch: the time that something has been the case, at each look. */
class Lasting {
  #since: number | undefined;

  constructor(private readonly now: () => Date) {}

  longerThan(ms: number): boolean {
    const now = this.now().getTime();
    this.#since ??= now;
    return now - this.#since > ms;
  }

  ends(): void {
    this.#since = undefined;
  }
}
