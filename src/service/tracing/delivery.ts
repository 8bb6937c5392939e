import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { TraceFlags } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor, type ReadableSpan, type SpanProcessor } from '@opentelemetry/sdk-trace';

/** Most ended spans that wait to be sent; further ones are dropped. About 4 MB. */
const QUEUE = 2_048;

/** Spans sent at once: making the JSON of so many keeps the event loop for about two milliseconds. */
const BATCH = 256;

/** Milliseconds that a span waits for others before it is sent. */
const DELAY_MS = 1_000;

/**
 * Limit for the collector to take a batch, tries included; OTEL_EXPORTER_OTLP_TIMEOUT does not change it. A service that
 * stops waits so long for what it has still to send.
 */
const EXPORT_MS = 3_000;

/** Interval of warnings in the log that spans are lost. */
const WARN_EVERY_MS = 5 * 60_000;

/**
 * Sends spans to a collector, by OTLP over HTTP as JSON. Whatever the collector does, it costs bounded memory and
 * bounded time: what cannot be sent is dropped and counted, and `warn` is told so in one line, now and then.
 */
export class Delivery implements SpanProcessor {
  readonly #agent: HttpAgent;
  readonly #batches: BatchSpanProcessor;
  #waiting = 0;
  #lost = 0;
  #warnedAt = -Infinity;

  constructor(
    collector: URL,
    private readonly warn: (message: string) => void,
  ) {
    // The exporter's own timeout begins only after the connection is made.
    const options = { keepAlive: true, timeout: EXPORT_MS };
    this.#agent = collector.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
    const otlp = new OTLPTraceExporter({
      url: collector.href,
      timeoutMillis: EXPORT_MS,
      // At a stop the queue may hold this many batches, and one more is being sent.
      concurrencyLimit: QUEUE / BATCH + 1,
      httpAgentOptions: () => this.#agent,
    });
    this.#batches = new BatchSpanProcessor({
      exporter: {
        export: (spans, done) => {
          this.#waiting -= spans.length;
          otlp.export(spans, (result) => {
            if (result.error) this.#lose(spans.length, reasonOf(result.error));
            done(result);
          });
        },
        shutdown: () => otlp.shutdown(),
      },
      maxQueueSize: QUEUE,
      maxExportBatchSize: BATCH,
      scheduledDelayMillis: DELAY_MS,
      exportTimeoutMillis: EXPORT_MS + 1_000,
    });
  }

  onStart(): void {
    // Nothing is sent before it has ended.
  }

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    if (this.#waiting === QUEUE) {
      this.#lose(1, 'it is too slow');
      return;
    }
    this.#waiting += 1;
    this.#batches.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  /** Sends what is waiting, within EXPORT_MS, and lets go of everything. Never rejects. */
  async shutdown(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const tooLong = new Promise<void>((resolve) => (timer = setTimeout(resolve, EXPORT_MS)));
    // Failures were counted by `#lose` already.
    const sent = this.#batches.shutdown().catch(() => undefined);
    await Promise.race([sent, tooLong]);
    clearTimeout(timer);
    this.#agent.destroy();
  }

  #lose(spans: number, reason: string): void {
    this.#lost += spans;
    const now = performance.now();
    if (now - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = now;
    this.warn(`traces do not reach the collector: ${reason} (spans lost since the start: ${this.#lost})`);
  }
}

/** A failure in fixed words: the collector's message may repeat header fields, which hold secrets. */
const reasonOf = (error: Error): string => {
  const code: unknown = 'code' in error ? error.code : undefined;
  if (typeof code === 'number') return `it answers ${code}`;
  if (typeof code === 'string' && /^[A-Z][A-Z0-9_]*$/.test(code)) return code;
  return `no good answer in ${EXPORT_MS / 1_000} s`;
};
