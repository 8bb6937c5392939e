import { type Command } from 'commander';
import { pause } from '../../async/pause.js';
import { ServiceUnreachable } from '../../operations/operations.js';
import { type ProcessReport } from '../../operations/process-report.js';
import { lastVerified } from '../../operations/status.js';
import { type SystemStatus } from '../../operations/system-status.js';
import { PARTITIONS } from '../../ports/read-model.js';
import { print } from '../context.js';
import { duration, printable, table } from '../terminal.js';
import { operable, type OperateOptions, type Operating, withOperations } from '../with-operations.js';

/** How often `--watch` reads the status, in milliseconds. */
const WATCH_EVERY_MS = 1_000;

/** Defines `plants status`. */
export const statusCommand = (command: Command): void => {
  operable(
    command
      .option('--watch', 'show it each second, until Ctrl-C')
      .option('--json', 'print one object; with --watch, one in each line'),
  )
    .addHelpText(
      'after',
      `
Works without a running service too, once one has made the read model: the stores are those of the settings. A store
that does not answer within a second is a problem, and what the others say is shown. Idle parts of the lists move on
once a second, so under traffic they may seem up to a second behind.

Example:
  npx plants status --json | jq '.problems'

Exit status: 0 if all is well, 1 if something is blocked or disconnected, nothing projects, or a list is not answered
(or on failure), 2 wrong usage or settings. Warnings do not count.`,
    )
    .action((options: OperateOptions & { readonly watch?: true }) =>
      withOperations(
        options,
        { scope: 'plants:operate', stores: { log: 'read', lists: true, partial: true } },
        options.watch ? watchStatus : status,
      ),
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
  const { problems, warnings, processes, generations, leaseHolder } = status;
  const since = (at: string): string => duration(Math.max(0, (now.getTime() - Date.parse(at)) / 1_000));
  const processRows = processes.map((one) => [
    `${one.host}/${one.pid}`,
    one.roles.join(','),
    one.version,
    one.address,
    since(one.since),
    one.projector?.state.replace('_', ' ') ?? '-',
    one.projector?.position === undefined ? '-' : one.projector.position || 'start',
    one.process === leaseHolder ? 'yes' : '-',
  ]);
  const generationRows = generations.map((one) => [
    String(one.generation),
    one.active ? 'yes' : '-',
    one.slowest || 'start',
    one.fastest || 'start',
    `${one.behind} of ${PARTITIONS}`,
  ]);
  return [
    ...(problems.length === 0 ? ['all is well'] : problems.map((problem) => `PROBLEM  ${problem}`)),
    ...warnings.map((warning) => `WARNING  ${warning}`),
    '',
    table(factRows(status, since)),
    '',
    table([
      ['PROCESS', 'ROLES', 'VERSION', 'ADDRESS', 'UP FOR', 'PROJECTOR', 'POSITION', 'LEASE'],
      ...processRows,
    ]),
    '',
    table([['GENERATION', 'ACTIVE', 'SLOWEST', 'FASTEST', 'BEHIND'], ...generationRows]),
  ]
    .map((part) => part.split('\n').map(printable).join('\n'))
    .join('\n');
};

/** What is true of the service as a whole, one row each. */
const factRows = (status: SystemStatus, since: (at: string) => string): string[][] => {
  const { head, lag, processes } = status;
  return [
    ['log', `head ${head || 'empty'}`],
    [
      'lists',
      `${lag.seconds === null ? 'behind for an unknown time' : `${duration(lag.seconds)} behind`}${lag.events === null ? '' : `, ${lag.events} events`}`,
    ],
    ['rebuild', rebuildText(status)],
    ...status.erasures.map((one) => [
      'erasure',
      `${one.erasure} is ${one.state} since ${one.since}, by ${one.by}: ${one.reason}`,
    ]),
    ['checked', verifiedText(lastVerified(processes), since)],
    ...processes.flatMap((one) => (one.auditor ? [['tree', treeText(one, since)]] : [])),
    ...processes.flatMap(({ host, pid, auditor }) =>
      auditor?.signing ? [['signing', signingText(`${host}/${pid}`, auditor.signing)]] : [],
    ),
    ...processes.flatMap(({ host, pid, auditor }) =>
      auditor?.witnessing ? [['witnesses', witnessingText(`${host}/${pid}`, auditor.witnessing)]] : [],
    ),
    ...(status.wayBack
      ? [
          [
            'way back',
            `to generation ${status.wayBack.generation} until ${status.wayBack.until} (plants rollback)`,
          ],
        ]
      : []),
    ...status.parked.events.map(({ position, stream, revision, reason }) => [
      'parked',
      `at ${position}: event ${revision} of ${stream}: ${reason}`,
    ]),
    ...(status.parked.owners > status.parked.events.length
      ? [['parked', `and ${status.parked.owners - status.parked.events.length} more owners`]]
      : []),
    ...status.skipped.map(({ stream, revision, reason, by, at, inForce }) => [
      inForce ? 'skipped' : 'unskipped',
      `event ${revision} of ${stream} by ${by} at ${at}: ${reason}`,
    ]),
  ];
};

type WitnessingReport = NonNullable<NonNullable<ProcessReport['auditor']>['witnessing']>;
type SigningReport = NonNullable<NonNullable<ProcessReport['auditor']>['signing']>;

const verifiedText = (verified: ProcessReport['verified'], since: (at: string) => string): string =>
  verified
    ? `${verified.differing === 0 ? 'the lists are the fold of the log' : `${verified.differing} plants differ`}, compared ${since(verified.at)} ago`
    : 'never';

const treeText = ({ host, pid, auditor }: ProcessReport, since: (at: string) => string): string => {
  if (!auditor) return '';
  const { size, position, checkpoint, state, recheckedAt, rechecking } = auditor;
  const signed = checkpoint
    ? `last checkpoint of ${checkpoint.size}, ${since(checkpoint.signedAt)} ago`
    : 'no checkpoint yet';
  const read = recheckedAt === undefined ? 'log not yet re-read' : `log re-read ${since(recheckedAt)} ago`;
  const reading = rechecking
    ? `; being re-read for ${since(rechecking.since)}, ${rechecking.events} events so far`
    : '';
  return `${size} events up to ${position || 'start'}; ${signed}; ${read}${reading}; ${host}/${pid} is ${state.replace('_', ' ')}`;
};

const signingText = (who: string, { key, since, recorded, before }: SigningReport): string =>
  [
    `${who} signs with ${key} ${since === undefined ? '(not yet recorded in the log)' : `since ${since}`}`,
    ...(recorded ? [`last recorded ${recorded.size} events at ${recorded.at}`] : []),
    ...(before ? [`before that ${beforeText(key, before)}`] : []),
  ].join('; ');

const witnessingText = (who: string, { required, size, witnesses }: WitnessingReport): string =>
  [
    `${who}: ${size === undefined ? 'no checkpoint' : `${size} events`} cosigned by ${required} of ${witnesses.length}`,
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
    const done = events === null ? '' : `, ${events}${total === null ? '' : ` of ${total}`} events`;
    const rate = eventsPerSecond === null ? '' : `, ${eventsPerSecond}/s`;
    const left = secondsLeft === null ? '' : `, ${duration(secondsLeft)} left`;
    return `${rebuild.rebuild}: ${phase}${done}${rate}${left}`;
  }
  return lastRebuild
    ? `none; the last one, ${lastRebuild.rebuild}, was ${lastRebuild.outcome} at ${lastRebuild.at}`
    : 'none';
};
