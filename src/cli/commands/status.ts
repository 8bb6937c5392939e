import { type Command } from 'commander';
import { pause } from '../../runtime/pause.js';
import { ServiceUnreachable } from '../../operations/operations.js';
import { type ProcessReport } from '../../operations/process-report.js';
import { newestRun } from '../../operations/status.js';
import { type SystemStatus } from '../../operations/system-status.js';
import { PARTITIONS } from '../../lists/read-model.js';
import { duration, print, printable, quantity, table } from '../terminal.js';
import { operable, type OperateOptions, type Operating } from '../with-operations.js';

/** The interval at which `--watch` reads the status, in milliseconds. */
const WATCH_EVERY_MS = 1_000;

/** Defines `plants status`. */
export const define = (command: Command): void => {
  command
    .option('--watch', 'show it each second, until Ctrl-C')
    .option('--json', 'print one object; with --watch, one in each line')
    .addHelpText(
      'after',
      `
Works without a running service too, once one has made the read model: the stores are those of the settings. A store
that does not answer within a second is a problem, and what the others say is shown. Idle parts of the lists move on
once a second, so under traffic they may seem up to a second behind.

Example:
  npx plants status --json | jq '.problems'

Exit status: 0 if all is well, 1 if something is blocked or disconnected, nothing projects, or a list is not answered
(or on failure), 2 wrong usage or settings, 3 the service cannot be reached. Warnings do not count.`,
    );
  const needs = { stores: { log: 'read', lists: true, partial: true } } as const;
  operable(
    command,
    () => needs,
    (operating, { watch }: OperateOptions & { readonly watch?: true }) =>
      watch ? watchStatus(operating) : status(operating),
  );
};

/** Prints the status. Returns whether it names no problem. */
export const status = async (operating: Operating): Promise<boolean> => {
  const found = await operating.operations.status();
  print(operating, found, statusText(found, operating.now()));
  return found.problems.length === 0;
};

/**
 * Prints the status each second until the signal. That a service cannot be reached is reported on standard error, and it
 * is asked again. Returns whether the last status named no problem.
 */
export const watchStatus = async (operating: Operating): Promise<boolean> => {
  const { operations, signal, json, now } = operating;
  const repaint = process.stdout.isTTY && !json;
  for (;;) {
    let well = false;
    try {
      const found = await operations.status();
      const text = statusText(found, now());
      if (repaint) process.stdout.write(`\x1b[H${text.replaceAll('\n', '\x1b[K\n')}\x1b[K\n\x1b[J`);
      else print(operating, found, `${text}\n`);
      well = found.problems.length === 0;
    } catch (error) {
      if (!(error instanceof ServiceUnreachable)) throw error;
      process.stderr.write(`${now().toISOString()} ${printable(error.message)}\n`);
    }
    await pause(WATCH_EVERY_MS, signal);
    if (signal.aborted) return well;
  }
};

/** The status as a person reads it. */
const statusText = (status: SystemStatus, now: Date): string => {
  const since = (at: string): string => duration(Math.max(0, (now.getTime() - Date.parse(at)) / 1_000));
  const processes = status.processes.map((one) => [
    whoIs(one),
    one.roles.join(','),
    one.version,
    one.address,
    since(one.since),
    one.projector?.state.replace('_', ' ') ?? '-',
    one.projector?.position === undefined ? '-' : one.projector.position || 'start',
    one.process === status.leaseHolder ? 'yes' : '-',
  ]);
  const generations = status.generations.map((one) => [
    String(one.generation),
    one.active ? 'yes' : '-',
    one.slowest || 'start',
    one.fastest || 'start',
    `${one.behind} of ${PARTITIONS}`,
  ]);
  return [
    ...(status.problems.length === 0 ? ['all is well'] : status.problems.map((one) => `PROBLEM  ${one}`)),
    ...status.warnings.map((one) => `WARNING  ${one}`),
    '',
    table(factRows(status, since)),
    '',
    table([
      ['PROCESS', 'ROLES', 'VERSION', 'ADDRESS', 'UP FOR', 'PROJECTOR', 'POSITION', 'LEASE'],
      ...processes,
    ]),
    '',
    table([['GENERATION', 'ACTIVE', 'SLOWEST', 'FASTEST', 'BEHIND'], ...generations]),
  ]
    .map((part) => part.split('\n').map(printable).join('\n'))
    .join('\n');
};

const whoIs = ({ host, pid }: ProcessReport): string => `${host}/${pid}`;

/** Where a store does not answer, which stands among the problems. */
const UNKNOWN = 'unknown';

type Since = (at: string) => string;

/** The facts about the service as a whole, one row each. */
const factRows = (status: SystemStatus, since: Since): string[][] => {
  const { head, lag, processes, wayBack, parked } = status;
  const rows: string[][] = [];
  const row = (name: string, text: string): unknown => rows.push([name, text]);
  const age = lag.seconds === null ? 'behind for an unknown time' : `${duration(lag.seconds)} behind`;
  const moreBlocked = parked.owners - parked.events.length;
  const isSilent = (store: SystemStatus['unanswered'][number]): boolean => status.unanswered.includes(store);
  row('log', isSilent('event log') ? UNKNOWN : `head ${head || 'empty'}`);
  row('lists', `${age}${lag.events === null ? '' : `, ${quantity(lag.events, 'event')}`}`);
  row('rebuild', isSilent('event log') ? UNKNOWN : rebuildText(status));
  for (const one of status.erasures)
    row('erasure', `${one.erasure} is ${one.state} since ${one.since}, by ${one.by}: ${one.reason}`);
  // It is in the reports of processes.
  row('checked', processes.length === 0 ? UNKNOWN : verifiedText(newestRun(processes, 'verified'), since));
  const backup = newestRun(processes, 'provenBackup');
  if (backup) row('backup', `${quantity(backup.events, 'event')}, proven, of ${since(backup.at)} ago`);
  for (const one of processes) if (one.auditor) row('tree', treeText(whoIs(one), one.auditor, since));
  for (const one of processes)
    if (one.auditor?.signing) row('signing', signingText(whoIs(one), one.auditor.signing));
  for (const one of processes)
    if (one.auditor?.witnessing) row('witnesses', witnessingText(whoIs(one), one.auditor.witnessing));
  if (wayBack)
    row('way back', `to generation ${wayBack.generation} until ${wayBack.until} (plants rollback)`);
  for (const one of parked.events)
    row('blocked', `at ${one.position}: event ${one.revision} of ${one.stream}: ${one.reason}`);
  if (moreBlocked > 0) row('blocked', `and ${quantity(moreBlocked, 'more owner')}`);
  for (const { stream, revision, reason, by, at, inForce } of status.skipped)
    row(inForce ? 'skipped' : 'unskipped', `event ${revision} of ${stream} by ${by} at ${at}: ${reason}`);
  return rows;
};

type AuditorReport = NonNullable<ProcessReport['auditor']>;
type WitnessingReport = NonNullable<AuditorReport['witnessing']>;
type SigningReport = NonNullable<AuditorReport['signing']>;

const verifiedText = (verified: ProcessReport['verified'], since: Since): string =>
  verified
    ? `${verified.differing === 0 ? 'the lists are the fold of the log' : `${quantity(verified.differing, 'difference')} between lists and log`}, compared ${since(verified.at)} ago`
    : 'never';

const treeText = (who: string, auditor: AuditorReport, since: Since): string => {
  const { size, position, checkpoint, state, recheckedAt, rechecking } = auditor;
  if (state === 'starting') return `${who} is starting`;
  const signed = checkpoint
    ? `last checkpoint of ${checkpoint.size}, ${since(checkpoint.signedAt)} ago`
    : 'no checkpoint since it started';
  const read = recheckedAt === undefined ? 'log not yet re-read' : `log re-read ${since(recheckedAt)} ago`;
  const reading = rechecking
    ? `; being re-read for ${since(rechecking.since)}, ${quantity(rechecking.events, 'event')} so far`
    : '';
  return `${quantity(size, 'event')} up to ${position || 'start'}; ${signed}; ${read}${reading}; ${who} is ${state.replace('_', ' ')}`;
};

const signingText = (who: string, { key, since, recorded, before }: SigningReport): string =>
  [
    `${who} signs with ${key} ${since === undefined ? '(not yet recorded in the log)' : `since ${since}`}`,
    ...(recorded ? [`last recorded ${quantity(recorded.size, 'event')} at ${recorded.at}`] : []),
    ...(before ? [`before that ${beforeText(key, before)}`] : []),
  ].join('; ');

const witnessingText = (who: string, { required, size, witnesses }: WitnessingReport): string =>
  [
    `${who}: ${size === undefined ? 'no checkpoint' : quantity(size, 'event')} cosigned by ${required} of ${witnesses.length}`,
    ...witnesses.map(
      (one) =>
        `${one.witness} ${one.state}${one.size === undefined ? '' : `, last ${one.size} at ${one.at ?? '?'}`}`,
    ),
  ].join('; ');

const beforeText = (key: string, before: NonNullable<SigningReport['before']>): string =>
  before.key === key
    ? `over another tree, until ${before.until}`
    : `${before.key} until ${before.until}, which ${before.confirmed ? 'signed the change, too' : 'did not sign the change'}`;

const rebuildText = ({ rebuild, lastRebuild }: SystemStatus): string => {
  if (rebuild) {
    const { phase, events, total, eventsPerSecond, secondsLeft } = rebuild;
    const counted = total === null ? quantity(events ?? 0, 'event') : `${events} of ${total} events`;
    const done = events === null ? '' : `, ${counted}`;
    const rate = eventsPerSecond === null ? '' : `, ${eventsPerSecond}/s`;
    const left = secondsLeft === null ? '' : `, ${duration(secondsLeft)} left`;
    return `${rebuild.rebuild}: ${phase}${done}${rate}${left}`;
  }
  return lastRebuild
    ? `none; the last one, ${lastRebuild.rebuild}, was ${lastRebuild.outcome} at ${lastRebuild.at}`
    : 'none';
};
