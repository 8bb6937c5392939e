import { type SpanContext } from '@opentelemetry/api';

/** A span as W3C Trace Context writes it, version 00. */
export const traceparentOf = ({ traceId, spanId, traceFlags }: SpanContext): string =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;

/** The span that a valid `traceparent` of version 00 names: another process's, or of another time. */
export const spanContextOf = (traceparent: string): SpanContext => ({
  traceId: traceparent.slice(3, 35),
  spanId: traceparent.slice(36, 52),
  traceFlags: Number.parseInt(traceparent.slice(53), 16),
  isRemote: true,
});
