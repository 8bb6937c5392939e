import { ROOT_CONTEXT, type SpanContext, SpanKind, trace, TraceFlags } from '@opentelemetry/api';
import { ATTR_DB_OPERATION_NAME, ATTR_DB_SYSTEM_NAME } from '@opentelemetry/semantic-conventions';
import { LRUCache } from 'lru-cache';
import { isTraceparent } from '../../http/correlation.js';
import { type RebuildEvent } from '../../domain/operation.js';
import { REBUILDS_STREAM } from '../../domain/stream.js';
import {
  type EventLog,
  type LogBatch,
  type NewEvent,
  type Position,
  type RecordedEvent,
} from '../../log/event-log.js';
import { decorate } from '../../log/decorate.js';
import { type ReadModelStore } from '../../lists/read-model-store.js';
import { isRefused, type PartitionChanges } from '../../lists/read-model.js';
import { endedBy, fail, type Spans } from './spans.js';
import { spanContextOf } from './traceparent.js';

/**
 * Milliseconds within which an event has its apply traced. An older one is history that is read again, by a rebuild or
 * after an outage: its trace is long closed, and there may be millions.
 */
const YOUNG_MS = 10 * 60_000;

/**
 * Events of one batch whose apply is traced, at most: more than arrive together in daily use. A batch holds up to 500,
 * and a projector that catches up applies hundreds of batches a second: those would fill the queue of spans, so that
 * the spans of requests were dropped.
 */
const TRACED_EVENTS = 64;

/** Events between being read and being applied, at most: two batches, one for each of two generations. */
const READ_EVENTS = 1_000;

/** Span contexts by position, of events that were read and are not applied yet. */
export class Traces {
  readonly #ofEvents = new LRUCache<Position, SpanContext>({ max: READ_EVENTS });

  constructor(private readonly now: () => Date) {}

  /** Remembers the young events that have a trace which is recorded, and forgets those that have grown old. */
  note(events: readonly RecordedEvent[]): void {
    if (events.length === 0) return;
    const since = new Date(this.now().getTime() - YOUNG_MS).toISOString();
    for (const { position, metadata } of events) {
      const context = recordedTraceOf(metadata, since);
      if (context) this.#ofEvents.set(position, context);
      else this.#ofEvents.delete(position);
    }
  }

  /** The traces of what these changes come from, TRACED_EVENTS of them at most. */
  of(partitions: readonly PartitionChanges[]): SpanContext[] {
    const found: SpanContext[] = [];
    if (this.#ofEvents.size === 0) return found;
    for (const { changes } of partitions)
      for (const { position } of changes) {
        const context = this.#ofEvents.get(position);
        if (context && found.push(context) === TRACED_EVENTS) return found;
      }
    return found;
  }
}

/** An event log whose calls for a request are spans of its trace, and whose events' traces are noted. */
export const tracedEventLog = (log: EventLog, system: string, spans: Spans, traces: Traces): EventLog =>
  decorate(log, {
    append: (stream, expected, events) =>
      spans
        .around('append', SpanKind.PRODUCER, attributesOf(system, 'append'), () =>
          log.append(stream, expected, events),
        )
        .then((appended) => {
          if (stream === REBUILDS_STREAM)
            for (const event of events)
              if (ENDS_REBUILD.has(event.type)) void traceRebuild(log, event, spans);
          return appended;
        }),
    readStream: (stream, after, limit) =>
      spans.around('read stream', SpanKind.CLIENT, attributesOf(system, 'read stream'), () =>
        log.readStream(stream, after, limit),
      ),
    readLast: (stream) =>
      spans.around('read stream', SpanKind.CLIENT, attributesOf(system, 'read stream'), () =>
        log.readLast(stream),
      ),
    subscribe: (after, signal) => noting(log.subscribe(after, signal), traces),
  });

/** The events that end a rebuild, whose span is made then: a rebuild outlives the processes that work on it. */
const ENDS_REBUILD: ReadonlySet<string> = new Set([
  'RebuildPromoted',
  'RebuildCancelled',
] satisfies RebuildEvent['type'][]);

/**
 * Makes a rebuild that has ended one span, from when it was asked for, in the trace of the request that asked for it.
 * Never rejects: where the log cannot be read there is no span.
 */
const traceRebuild = async (log: EventLog, end: NewEvent, { tracer }: Spans): Promise<void> => {
  const { rebuild, generation } = Object(end.data) as { rebuild?: unknown; generation?: unknown };
  const events = await log.readStream(REBUILDS_STREAM).catch(() => []);
  const asked = events.find(
    ({ type, data }) =>
      type === 'RebuildRequested' && (Object(data) as { rebuild?: unknown }).rebuild === rebuild,
  );
  const { traceparent, decidedAt } = Object(asked?.metadata) as {
    traceparent?: unknown;
    decidedAt?: unknown;
  };
  const startTime = typeof decidedAt === 'string' ? new Date(decidedAt) : undefined;
  if (!startTime || Number.isNaN(startTime.getTime())) return;
  const parent = isTraceparent(traceparent)
    ? trace.setSpanContext(ROOT_CONTEXT, spanContextOf(traceparent))
    : ROOT_CONTEXT;
  const attributes = typeof generation === 'number' ? { 'plants.generation': generation } : {};
  const span = tracer.startSpan('rebuild', { kind: SpanKind.INTERNAL, startTime, attributes }, parent);
  if (end.type === 'RebuildCancelled') fail(span, 'cancelled');
  span.end();
};

async function* noting(batches: AsyncIterable<LogBatch>, traces: Traces): AsyncIterable<LogBatch> {
  for await (const batch of batches) {
    traces.note(batch.events);
    yield batch;
  }
}

/**
 * A read model whose calls for a request are spans of its trace. Applying a batch is a span of its own, with links to
 * the traces of its events, and a span in each of these.
 */
export const tracedReadModel = (
  model: ReadModelStore,
  system: string,
  spans: Spans,
  traces: Traces,
): ReadModelStore =>
  decorate(model, {
    list: (owner, after, limit) =>
      spans.around('list', SpanKind.CLIENT, attributesOf(system, 'list'), () =>
        model.list(owner, after, limit),
      ),
    longList: (owner, after, limit) =>
      spans.around('list', SpanKind.CLIENT, attributesOf(system, 'list'), () =>
        model.longList(owner, after, limit),
      ),
    reached: (partition, position, signal) =>
      spans.around('wait for freshness', SpanKind.INTERNAL, {}, () =>
        model.reached(partition, position, signal),
      ),
    apply: (generation, partitions) => {
      const contexts = traces.of(partitions);
      if (contexts.length === 0) return model.apply(generation, partitions);
      const { tracer } = spans;
      const kind = SpanKind.CONSUMER;
      const attributes = { ...attributesOf(system, 'apply'), 'plants.generation': generation };
      const batch = tracer.startSpan(
        'apply batch',
        {
          kind,
          links: contexts.map((context) => ({ context })),
          attributes: { ...attributes, 'plants.batch.events': countOf(partitions) },
        },
        ROOT_CONTEXT,
      );
      const links = [{ context: batch.spanContext() }];
      const ofEvents = contexts.map((context) =>
        tracer.startSpan('apply', { kind, links, attributes }, trace.setSpanContext(ROOT_CONTEXT, context)),
      );
      const all = [batch, ...ofEvents];
      return endedBy(all, async () => {
        const reached = await model.apply(generation, partitions);
        const refused = partitions.some((part, index) => isRefused(part, reached[index]));
        if (refused) for (const span of all) fail(span, 'ReadModelRegressed');
        return reached;
      });
    },
  });

const attributesOf = (system: string, operation: string) => ({
  [ATTR_DB_SYSTEM_NAME]: system,
  [ATTR_DB_OPERATION_NAME]: operation,
});

const countOf = (partitions: readonly PartitionChanges[]): number =>
  partitions.reduce((count, { changes }) => count + changes.length, 0);

/** The trace of an event that was decided after `since` (RFC 3339, UTC), where it has one that is recorded. */
const recordedTraceOf = (metadata: unknown, since: string): SpanContext | undefined => {
  if (typeof metadata !== 'object' || metadata === null) return undefined;
  const { traceparent, decidedAt } = metadata as Readonly<Record<string, unknown>>;
  if (!isTraceparent(traceparent) || typeof decidedAt !== 'string' || decidedAt < since) return undefined;
  const context = spanContextOf(traceparent);
  return (context.traceFlags & TraceFlags.SAMPLED) === 0 ? undefined : context;
};
