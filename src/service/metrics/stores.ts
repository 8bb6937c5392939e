import { Counter, Histogram, type Registry } from 'prom-client';
import { type EventLog, OutcomeUnknown, WrongExpectedRevision } from '../../log/event-log.js';
import { decorate } from '../../log/decorate.js';
import { type ReadModelStore } from '../../lists/read-model-store.js';
import {
  GenerationMissing,
  isRefused,
  OwnerBlocked,
  type PartitionChanges,
  ReadModelIncomplete,
} from '../../lists/read-model.js';
import { showGauge } from './gauge.js';

/**
 * In seconds. An embedded read is done in a tenth of a millisecond, an fsync takes one to ten, a server in another
 * building more; 15 s is the deadline of an append.
 */
const DURATIONS = [
  ...[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025],
  ...[0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15],
];

/** In seconds. Most waits end with the next batch, and none is longer than WRITE_WAIT_MS: 2 s unless set otherwise. */
const WAITS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.9, 5, 15, 60];

/** In appends. 500 is the most that one transaction takes. */
const COMMITS = [1, 2, 5, 10, 20, 50, 100, 200, 499, 500];

/** An event log whose appends and reads are measured. */
export const measuredEventLog = (log: EventLog, registry: Registry): EventLog => {
  const appends = durations(
    registry,
    'plants_event_log_append_duration_seconds',
    'How long the log took to append, by outcome.',
    ['written', 'wrong_revision', 'unknown', 'unavailable'],
  );
  const reads = durations(
    registry,
    'plants_event_log_read_duration_seconds',
    "How long the log took to give a plant's events, by outcome.",
    ['read', 'unavailable'],
  );
  showGauge(
    registry,
    'plants_event_log_writable',
    '1 while appends to the event log work, as far as the last ones tell, else 0.',
    () => (log.health().state === 'ok' ? 1 : 0),
  );
  return decorate(log, {
    append: (stream, expected, events) =>
      timed(appends, () => log.append(stream, expected, events), 'written', appendOutcome),
    readStream: (stream, after, limit) =>
      timed(reads, () => log.readStream(stream, after, limit), 'read', unavailable),
    readLast: (stream) => timed(reads, () => log.readLast(stream), 'read', unavailable),
  });
};

/** Adds a figure about the transactions of an embedded log; it is to be called with the appends of each one. */
export const countCommits = (registry: Registry): ((appends: number) => void) => {
  const commits = new Histogram({
    name: 'plants_event_log_commit_appends',
    help: 'Appends that shared one transaction and one fsync of the embedded log.',
    buckets: COMMITS,
    registers: [registry],
  });
  return (appends) => {
    commits.observe(appends);
  };
};

/** A read model whose lists, waits and changes are measured. */
export const measuredReadModel = (model: ReadModelStore, registry: Registry): ReadModelStore => {
  const lists = durations(
    registry,
    'plants_read_model_list_duration_seconds',
    'How long the read model took to give a page of a list, by outcome.',
    ['answered', 'incomplete', 'parked', 'unavailable'],
  );
  const waits = durations(
    registry,
    'plants_freshness_wait_duration_seconds',
    'How long writes, and lists that were not fresh enough, waited for the read model; given_up after WRITE_WAIT_MS.',
    ['reached', 'given_up'],
    WAITS,
  );
  const applies = durations(
    registry,
    'plants_read_model_apply_duration_seconds',
    'How long the read model took to apply a batch, by outcome.',
    ['applied', 'unavailable'],
  );
  const events = new Counter({
    name: 'plants_projection_events_applied_total',
    help: 'Events whose changes were given to the read model and not refused, by its generation.',
    labelNames: ['generation'],
    registers: [registry],
  });
  const regressions = new Counter({
    name: 'plants_read_model_regressions_total',
    help: 'Batches that the read model refused since it has lost data.',
    registers: [registry],
  });
  return decorate(model, {
    list: (owner, after, limit) =>
      timed(lists, () => model.list(owner, after, limit), 'answered', listOutcome),
    longList: (owner, after, limit) =>
      timed(lists, () => model.longList(owner, after, limit), 'answered', listOutcome),
    reached: (partition, position, signal) =>
      timed(
        waits,
        () => model.reached(partition, position, signal),
        'reached',
        () => 'given_up',
      ),
    apply: async (generation, partitions) => {
      try {
        const reached = await timed(
          applies,
          () => model.apply(generation, partitions),
          'applied',
          () => 'unavailable',
        );
        const refused = partitions.filter((part, index) => isRefused(part, reached[index]));
        if (refused.length > 0) regressions.inc();
        events.inc({ generation: String(generation) }, countOf(partitions) - countOf(refused));
        return reached;
      } catch (error) {
        if (error instanceof GenerationMissing) regressions.inc();
        throw error;
      }
    },
  });
};

/** A histogram of durations whose outcomes are all there from the start, so that the first failure is an increase. */
const durations = <Outcome extends string>(
  registry: Registry,
  name: string,
  help: string,
  outcomes: readonly Outcome[],
  buckets = DURATIONS,
): Durations<Outcome> => {
  const histogram = new Histogram({ name, help, labelNames: ['outcome'], buckets, registers: [registry] });
  for (const outcome of outcomes) histogram.zero({ outcome });
  return (outcome, seconds) => {
    histogram.observe({ outcome }, seconds);
  };
};

type Durations<Outcome extends string> = (outcome: Outcome, seconds: number) => void;

/** Measures a call. `good` is the outcome of one that succeeds, `bad` tells that of an error. */
const timed = async <Result, Outcome extends string>(
  took: Durations<Outcome>,
  call: () => Promise<Result>,
  good: Outcome,
  bad: (error: unknown) => Outcome,
): Promise<Result> => {
  const began = performance.now();
  try {
    const result = await call();
    took(good, secondsSince(began));
    return result;
  } catch (error) {
    took(bad(error), secondsSince(began));
    throw error;
  }
};

const secondsSince = (began: number): number => (performance.now() - began) / 1_000;

const unavailable = () => 'unavailable' as const;

const appendOutcome = (error: unknown) => {
  if (error instanceof WrongExpectedRevision) return 'wrong_revision';
  return error instanceof OutcomeUnknown ? 'unknown' : 'unavailable';
};

const listOutcome = (error: unknown) => {
  if (error instanceof OwnerBlocked) return 'parked';
  return error instanceof ReadModelIncomplete ? 'incomplete' : 'unavailable';
};

const countOf = (partitions: readonly PartitionChanges[]): number =>
  partitions.reduce((count, { changes }) => count + changes.length, 0);
