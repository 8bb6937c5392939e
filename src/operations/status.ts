import {
  type AppendHealth,
  type EventLog,
  LogUnavailable,
  newestOf,
  oldestOf,
  type Position,
  START,
} from '../log/event-log.js';
import { activeOf, type GenerationInfo } from '../lists/generations.js';
import { pause } from '../runtime/pause.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import {
  type Generation,
  GenerationMissing,
  PARTITIONS,
  ReadModelIncomplete,
  ReadModelUnavailable,
} from '../lists/read-model.js';
import { GRACE_MS, NO_REBUILDS, type Rebuilds, type UnreadEvent, unreadText } from '../commands/rebuilds.js';
import { readRebuilds, readSkipDecisions } from '../commands/read-rebuilds.js';
import { type ProcessReport, readReports, workingProjector } from './process-report.js';
import { isInProgress, readErasures } from '../erasure/erasures.js';
import { type SystemStatus } from './system-status.js';

type GenerationStatus = SystemStatus['generations'][number] &
  Readonly<{ slowest: Position; fastest: Position }>;
type RebuildStatus = NonNullable<SystemStatus['rebuild']>;

/** Blocked owners that a status names. */
const MAX_BLOCKED = 20;

/** The sources of the status. */
export interface System {
  readonly log: EventLog;
  readonly model: ReadModelStore;
  readonly now: () => Date;
}

/** The time that a store may take to answer a part of the status, or to open for it, in milliseconds. */
export const ANSWERS_WITHIN_MS = 1_000;

/** Why a store that took longer does not answer. */
export const SILENT = `it has said nothing for ${ANSWERS_WITHIN_MS / 1_000} s`;

/**
 * Reads the status of the system: each store is asked for a second at most, and one that does not answer is named among
 * the problems, with what the other one says. Throws what else the ports throw.
 */
export const readStatus = async (system: System): Promise<SystemStatus> => {
  const { log, now } = system;
  const [lists, records] = await Promise.all([answerOf(readLists(system)), answerOf(readRecords(log))]);
  // After the positions: one beyond the head then means that the log was set back.
  const headOf = 'problem' in records ? records : await answerOf(log.head());
  const { processes, positions, parked } = 'problem' in lists ? NO_LISTS : lists.answer;
  const { rebuilds, decisions, unread, erasures } = 'problem' in records ? NO_RECORDS : records.answer;
  const head = 'problem' in headOf ? undefined : headOf.answer;
  const generations = positions.map((one) => generationStatus(one, head ?? START));
  const active = activeOf(generations);
  const lag =
    head === undefined || 'problem' in lists
      ? { problem: 'unknown' }
      : await answerOf(lagOf(system, active?.slowest ?? START, head));
  const rebuild = rebuilds.building
    ? rebuildStatus(system, rebuilds.building, processes, head ?? START)
    : null;
  const unanswered = [
    ...('problem' in headOf ? [{ store: 'event log' as const, problem: headOf.problem }] : []),
    ...('problem' in lists ? [{ store: 'read model' as const, problem: lists.problem }] : []),
  ];
  return {
    at: now().toISOString(),
    problems: [
      ...unanswered.map(({ store, problem }) => `the ${store} does not answer: ${problem}`),
      ...logProblems(processes, log.health()),
      ...('problem' in lists ? [] : problemsOf(processes, generations, head, rebuild)),
      ...blockedProblems(parked),
      ...differenceProblems(newestRun(processes, 'verified')),
      ...processes.flatMap(witnessProblems),
    ],
    warnings: [
      ...processes.flatMap(noticesOf),
      ...[...rebuilds.unread, ...unread].slice(-MAX_WARNINGS).map((event) => warningOf(event, rebuilds)),
    ],
    unanswered: unanswered.map(({ store }) => store),
    head: head ?? START,
    lag: 'problem' in lag ? { seconds: null, events: null } : lag.answer,
    processes,
    leaseHolder: workingProjector(processes)?.process ?? null,
    generations,
    rebuild,
    lastRebuild: rebuilds.last
      ? { ...rebuilds.last, at: rebuilds.last.at.toISOString(), generation: answeringAfter(rebuilds) }
      : null,
    rollingBack: rebuilds.promoted?.rollback === 'requested' ? rebuilds.promoted.rebuild : null,
    erasures: erasures.map(({ erasure, state, reason, by, since }) => ({
      erasure,
      state,
      reason,
      by,
      since: since.toISOString(),
    })),
    wayBack: wayBackOf(rebuilds),
    blocked: null,
    parked,
    skipped: decisions.map(({ position, data, by, at }) => ({
      ...data,
      by,
      at: at.toISOString(),
      inForce: position > rebuilds.skipsAfter,
    })),
  };
};

/** The answer of a store, or the reason why there is none. */
type Answer<T> = { readonly answer: T } | { readonly problem: string };

/** Errors of stores that pass, or that an operator has to see beside all that works. */
const DOES_NOT_ANSWER = [LogUnavailable, ReadModelUnavailable, ReadModelIncomplete];

/** Waits for an answer, for ANSWERS_WITHIN_MS at most. Rejects with what is no failure of a store. */
const answerOf = async <T>(asked: Promise<T>): Promise<Answer<T>> => {
  const late = new AbortController();
  try {
    return await Promise.race([
      asked.then((answer) => ({ answer })),
      pause(ANSWERS_WITHIN_MS, late.signal).then(() => ({ problem: SILENT })),
    ]);
  } catch (error) {
    if (DOES_NOT_ANSWER.some((known) => error instanceof known)) return { problem: (error as Error).message };
    throw error;
  } finally {
    late.abort();
  }
};

/** The part of the status that the read model gives: processes and lists. */
const readLists = async (system: System) => {
  const processes = await readReports(system.model);
  const positions = await readPositions(system);
  return { processes, positions, parked: await readBlocked(system, activeOf(positions)) };
};

const NO_LISTS: Awaited<ReturnType<typeof readLists>> = {
  processes: [],
  positions: [],
  parked: { owners: 0, events: [] },
};

/** The part of the status that the log gives: operations. */
const readRecords = async (log: EventLog) => {
  const [rebuilds, { decisions, unread }, erasures] = await Promise.all([
    readRebuilds(log),
    readSkipDecisions(log),
    readErasures(log),
  ]);
  return { rebuilds, decisions, unread, erasures: erasures.all.filter(isInProgress) };
};

const NO_RECORDS: Awaited<ReturnType<typeof readRecords>> = {
  rebuilds: NO_REBUILDS,
  decisions: [],
  unread: [],
  erasures: [],
};

/** The generation that lists are to be answered from after the last rebuild; null where the log does not say. */
const answeringAfter = ({ promoted }: Rebuilds): number | null =>
  (promoted?.rollback === undefined ? promoted?.generation : promoted.replaced) ?? null;

/** Warnings of one kind that are shown, the newest. */
const MAX_WARNINGS = 20;

const noticesOf = ({ host, pid, auditor }: ProcessReport): string[] =>
  [
    ...(auditor?.notice === undefined ? [] : [auditor.notice]),
    ...(auditor?.signing?.warnings ?? []),
    ...(auditor?.times ? [timesText(auditor.times)] : []),
    ...(auditor?.witnessing?.witnesses ?? [])
      .filter(({ state }) => state === 'unreachable' || state === 'refuses')
      .map(
        ({ witness, state, reason }) =>
          `the witness ${witness} ${WITNESS_STATES[state] ?? state}: ${reason ?? ''}`,
      ),
  ].map((notice) => `the auditor ${host}/${pid}: ${notice}`);

const WITNESS_STATES: Readonly<Record<string, string>> = {
  unreachable: 'does not answer as it should',
  refuses: 'refuses the checkpoints of this log',
};

/** A witness that disagrees says that this log was altered or restored, or lies. */
const witnessProblems = ({ host, pid, auditor }: ProcessReport): string[] =>
  (auditor?.witnessing?.witnesses ?? [])
    .filter(({ state }) => state === 'disagrees')
    .map(
      ({ witness, reason }) =>
        `the witness ${witness} cosigns nothing more of the auditor ${host}/${pid}: ${reason ?? ''}: this log was restored to an earlier state or altered, or the witness is wrong (docs/witnesses.md)`,
    );

const timesText = ({ count, message }: { readonly count: number; readonly message: string }): string =>
  count === 1 ? message : `${message}; and ${count - 1} more like it`;

const warningOf = (event: UnreadEvent, { blockedByUnknownEvent }: Rebuilds): string =>
  blockedByUnknownEvent?.position === event.position
    ? `${unreadText(event)}: no rebuild is begun or promoted here until this version is upgraded, or the event skipped (plants skip)`
    : `${unreadText(event)}: it is ignored, and plants skip ends this warning`;

const readBlocked = async (
  { model }: System,
  active: GenerationInfo | undefined,
): Promise<SystemStatus['parked']> => {
  if (!active) return { owners: 0, events: [] };
  const { generation } = active;
  try {
    const owners = await model.countBlocked(generation);
    const events: SystemStatus['parked']['events'][number][] = [];
    if (owners > 0)
      for await (const { position, stream, revision, kind, reason } of model.blocked(generation)) {
        events.push({ position, stream, revision, kind, reason });
        if (events.length === MAX_BLOCKED) break;
      }
    return { owners, events: events.sort((one, other) => (one.position < other.position ? -1 : 1)) };
  } catch (error) {
    if (error instanceof GenerationMissing) return { owners: 0, events: [] }; // dropped just now
    throw error;
  }
};

const blockedProblems = ({ owners, events }: SystemStatus['parked']): string[] => {
  if (owners === 0) return [];
  const newer = events.some(({ kind }) => kind === 'newer_version');
  return [
    `the lists of ${owners} ${owners === 1 ? 'owner' : 'owners'} are not answered, for events that cannot be read: ${newer ? 'a newer version of this service has written some of them, so upgrade' : 'upgrade if a newer version has written them, else leave them out (plants skip)'}`,
  ];
};

interface Positions extends GenerationInfo {
  readonly positions: readonly Position[];
  readonly problem: string | null;
}

const readPositions = async ({ model }: System): Promise<Positions[]> => {
  const found: Positions[] = [];
  for (const one of await model.generations()) {
    try {
      found.push({
        ...one,
        positions: (await model.anchors(one.generation)).map(({ position }) => position),
        problem: null,
      });
    } catch (error) {
      if (error instanceof GenerationMissing) continue; // it was dropped just now
      const isDamaged = error instanceof ReadModelUnavailable || error instanceof ReadModelIncomplete;
      if (one.active || !isDamaged) throw error; // without the active one there is no status
      found.push({ ...one, positions: [START], problem: error.message });
    }
  }
  return found;
};

const generationStatus = (
  { generation, active, positions, problem }: Positions,
  head: Position,
): GenerationStatus => ({
  generation,
  active,
  slowest: oldestOf(positions),
  fastest: newestOf(positions),
  behind: problem === null ? positions.filter((position) => position < head).length : PARTITIONS,
  problem,
});

/** The processes that cannot append, with reasons, from their reports and this process's own appends. */
const logProblems = (processes: readonly ProcessReport[], here: AppendHealth): string[] => {
  const reported = processes.flatMap(({ host, pid, eventLog }) =>
    eventLog && eventLog.state !== 'ok' ? [{ who: `${host}/${pid}`, ...eventLog }] : [],
  );
  const problems = reported.map(
    ({ who, since, reason, restartHelps }) =>
      `${who} cannot write the event log since ${since}: ${reason ?? ''}${restartHelps ? ' (a restart of it is expected to help)' : ''}`,
  );
  return here.reason === undefined || reported.some(({ reason }) => reason === here.reason)
    ? problems
    : [...problems, `the event log cannot be written from here: ${here.reason}`];
};

const problemsOf = (
  processes: readonly ProcessReport[],
  generations: readonly GenerationStatus[],
  head: Position | undefined,
  rebuild: RebuildStatus | null,
): string[] => {
  const problems: string[] = [];
  const active = activeOf(generations);
  if (active && head !== undefined && active.fastest > head)
    problems.push(
      `the lists contain events up to ${active.fastest}, and the log ends at ${head || 'its start'}: it was restored to an earlier state, or has lost events; the lists are made again from the log as it is`,
    );
  for (const { process, host, pid, projector, rebuildProblem, erasureProblem, auditor } of processes) {
    if (erasureProblem !== undefined)
      problems.push(`an erasure is failing on ${host}/${pid}, retrying: ${erasureProblem}`);
    if (auditor?.alarm)
      problems.push(
        `ALARM of the auditor ${host}/${pid}: ${auditor.alarm.message} (nothing is signed until plants audit-lift; see docs/audit.md)`,
      );
    if (auditor?.state === 'blocked')
      problems.push(`the auditor ${host}/${pid} is blocked ${auditor.reason ?? ''}`);
    if (auditor?.state === 'disconnected')
      problems.push(`the auditor ${host}/${pid} is disconnected: ${auditor.reason ?? ''}`);
    if (projector?.state === 'disconnected')
      problems.push(`${host}/${pid} (${process}) is disconnected: ${projector.reason ?? ''}`);
    if (rebuildProblem !== undefined && rebuildProblem !== rebuild?.problem)
      problems.push(
        `generations of the lists cannot be looked after by ${host}/${pid} (${process}), retrying: ${rebuildProblem}`,
      );
  }
  if (!workingProjector(processes))
    problems.push(
      processes.length === 0
        ? 'nothing projects: no process tells about itself; none runs, or none can write to the read model (is its disk full?)'
        : 'nothing projects: is a process with the role projector running?',
    );
  for (const { generation, problem } of generations)
    if (problem !== null) problems.push(`generation ${generation} cannot be read: ${problem}`);
  if (!active)
    problems.push('no list is answered: the lists are being built for the first time, or were lost');
  if (rebuild?.problem) problems.push(`the rebuild is failing, retrying: ${rebuild.problem}`);
  return problems;
};

const rebuildStatus = (
  { log }: System,
  building: NonNullable<Rebuilds['building']>,
  processes: readonly ProcessReport[],
  head: Position,
): RebuildStatus => {
  const progress = processes.find(({ rebuild }) => rebuild?.rebuild === building.rebuild)?.rebuild;
  const perSecond =
    progress && progress.elapsedMs > 0 ? progress.events / (progress.elapsedMs / 1_000) : null;
  return {
    rebuild: building.rebuild,
    requestedAt: building.requestedAt.toISOString(),
    generation: building.generation ?? null,
    phase: progress?.phase ?? 'waiting',
    events: progress?.events ?? null,
    total: log.count(START, head) ?? null,
    eventsPerSecond: perSecond === null ? null : Math.round(perSecond),
    share: progress?.share ?? null,
    secondsLeft: progress?.secondsLeft ?? null,
    problem: progress?.problem ?? null,
  };
};

const lagOf = async (
  { log, now }: System,
  applied: Position,
  head: Position,
): Promise<SystemStatus['lag']> => {
  if (applied >= head) return { seconds: 0, events: log.count(head, head) ?? null };
  const events = log.count(applied, head) ?? null;
  for await (const { metadata } of log.readAll(applied)) {
    // Not decoded: it may be the event that the codec refuses.
    const decidedAt = Date.parse(String((metadata as { decidedAt?: unknown } | null)?.decidedAt));
    if (Number.isNaN(decidedAt)) break;
    return { seconds: Math.max(0, (now().getTime() - decidedAt) / 1_000), events };
  }
  return { seconds: null, events };
};

const wayBackOf = ({ promoted, building }: Rebuilds): SystemStatus['wayBack'] =>
  promoted?.replaced !== undefined && promoted.rollback === undefined && !building
    ? {
        generation: promoted.replaced,
        until: new Date(promoted.promotedAt.getTime() + GRACE_MS).toISOString(),
      }
    : null;

/** The newest of the last runs of a kind among the reports. */
export const newestRun = <Kind extends 'verified' | 'provenBackup'>(
  processes: readonly ProcessReport[],
  kind: Kind,
): ProcessReport[Kind] =>
  processes
    .flatMap(({ [kind]: run }) => (run ? [run] : []))
    .reduce<ProcessReport[Kind]>((last, one) => (last && last.at >= one.at ? last : one), undefined);

const differenceProblems = (verified: ProcessReport['verified']): string[] =>
  verified && verified.differing > 0
    ? [
        `the lists are not the fold of the log, differences: ${verified.differing} at ${verified.at}; plants verify names them, plants rebuild builds the lists again`,
      ]
    : [];

/** The active generation, if any. */
export const activeGeneration = async ({ model }: Pick<System, 'model'>): Promise<Generation | undefined> =>
  activeOf(await model.generations())?.generation;
