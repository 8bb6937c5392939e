import {
  type Sampler,
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { ATTR_SERVICE_NAME, ATTR_SERVICE_VERSION } from '@opentelemetry/semantic-conventions';
import { type FastifyInstance } from 'fastify';
import { type SamplerName, type TracingConfig } from '../tracing-config.js';
import { type EventLog } from '../../log/event-log.js';
import { type ReadModelStore } from '../../lists/read-model-store.js';
import { Delivery } from './delivery.js';
import { traceRequests } from './http.js';
import { Spans } from './spans.js';
import { tracedEventLog, tracedReadModel, Traces } from './stores.js';

/** Not in the stable part of the conventions yet. */
const SERVICE_INSTANCE_ID = 'service.instance.id';

/** The traced variant of each part of the service. */
export interface Tracing {
  requests(fastify: FastifyInstance): void;
  /** `system` names the kind of store, as OpenTelemetry does: `sqlite`, `redis`. */
  eventLog(log: EventLog, system: string): EventLog;
  readModel(model: ReadModelStore, system: string): ReadModelStore;
  /** Sends what has not been sent yet, as far as that is possible within three seconds. */
  close(): Promise<void>;
}

/**
 * Starts tracing. `instance` is a UUID of this process, a new one at each start. `warn` is told, in one line and
 * rarely, that spans are lost.
 */
export const startTracing = (
  { collector, sampler, ratio }: TracingConfig,
  { version, instance }: { readonly version: string; readonly instance: string },
  now: () => Date,
  warn: (message: string) => void,
): Tracing => {
  const delivery = new Delivery(collector, warn);
  const provider = new TracerProvider({
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word.
    resource: defaultResource()
      .merge(
        resourceFromAttributes({
          [ATTR_SERVICE_NAME]: 'plants',
          [ATTR_SERVICE_VERSION]: version,
          [SERVICE_INSTANCE_ID]: instance,
        }),
      )
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: SAMPLERS[sampler](ratio),
    spanProcessors: [delivery],
  });
  const spans = new Spans(provider.getTracer('plants', version));
  const traces = new Traces(now);
  return {
    requests: (fastify) => {
      traceRequests(fastify, spans);
    },
    eventLog: (log, system) => tracedEventLog(log, system, spans, traces),
    readModel: (model, system) => tracedReadModel(model, system, spans, traces),
    close: () => provider.shutdown(),
  };
};

const SAMPLERS: Readonly<Record<SamplerName, (ratio: number) => Sampler>> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
  parentbased_always_on: () => new ParentBasedSampler({ root: new AlwaysOnSampler() }),
  parentbased_always_off: () => new ParentBasedSampler({ root: new AlwaysOffSampler() }),
  parentbased_traceidratio: (ratio) => new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
};
