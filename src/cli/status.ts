import { LogUnavailable } from '../ports/event-log.js';
import { PARTITIONS, ReadModelUnavailable } from '../ports/read-model.js';
import { type ProcessReport } from '../operations/process-report.js';
import { lastVerified, readStatus } from '../operations/status.js';
import { type SystemStatus } from '../operations/system-status.js';
import { pause } from '../async/pause.js';
import { type CliContext, print } from './context.js';
import { duration, printable, table } from './terminal.js';

/** How often `--watch` reads the status, in milliseconds. */
const WATCH_EVERY_MS = 1_000;

/** Prints the status. Returns whether it names no problem. Throws what `readStatus` throws. */
export const status = async (context: CliContext): Promise<boolean> => {
  const found = await readStatus(context);
  print(context, found, statusText(found, context.now()));
  return found.problems.length === 0;
};

/**
 * Prints the status each second until the signal of the context. A store that cannot be read is reported on standard
 * error and read again. Returns whether the last status named no problem.
 */
export const watchStatus = async (context: CliContext): Promise<boolean> => {
  const repaint = process.stdout.isTTY && !context.json;
  for (;;) {
    let well = false;
    try {
      const found = await readStatus(context);
      const text = statusText(found, context.now());
      if (repaint) process.stdout.write(`\x1b[H${text.replaceAll('\n', '\x1b[K\n')}\x1b[K\n\x1b[J`);
      else print(context, found, `${text}\n`);
      well = found.problems.length === 0;
    } catch (error) {
      if (!(error instanceof LogUnavailable || error instanceof ReadModelUnavailable)) throw error;
      process.stderr.write(`${context.now().toISOString()} ${printable(error.message)}\n`);
    }
    try {
      await pause(WATCH_EVERY_MS, context.signal);
      context.signal.throwIfAborted();
    } catch {
      return well; // the signal
    }
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
    ...(status.blocked
      ? [
          [
            'blocked',
            `at ${status.blocked.position}: event ${status.blocked.revision} of ${status.blocked.stream}`,
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
