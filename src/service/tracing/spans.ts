import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  ROOT_CONTEXT,
  type Span,
  type SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { ATTR_ERROR_TYPE } from '@opentelemetry/semantic-conventions';

/** Makes spans, and knows which request a call belongs to without every port having to pass it on. */
export class Spans {
  readonly #ofRequest = new AsyncLocalStorage<Span>();

  constructor(readonly tracer: Tracer) {}

  /** Makes the spans that `work` begins children of this request's span. */
  during(request: Span, work: () => void): void {
    this.#ofRequest.run(request, work);
  }

  /** Makes a call, as a span of its own where it belongs to a request that is traced. */
  async around<Result>(
    name: string,
    kind: SpanKind,
    attributes: Attributes,
    call: () => Promise<Result>,
  ): Promise<Result> {
    const request = this.#ofRequest.getStore();
    if (!request?.isRecording()) return call();
    const span = this.tracer.startSpan(name, { kind, attributes }, trace.setSpan(ROOT_CONTEXT, request));
    return endedBy([span], call);
  }
}

/** Makes a call, and ends these spans with it. */
export const endedBy = async <Result>(
  spans: readonly Span[],
  call: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await call();
  } catch (error) {
    for (const span of spans) fail(span, error instanceof Error ? error.name : 'Error');
    throw error;
  } finally {
    for (const span of spans) span.end();
  }
};

/** Marks a span as failed, by the kind of failure alone: an error's message may name a plant or a server. */
export const fail = (span: Span, type: string): void => {
  span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute(ATTR_ERROR_TYPE, type);
};
