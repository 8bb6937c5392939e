import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';

/** A span as OTLP writes it in JSON, with its attributes as an object. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code: number };
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly service: unknown;
  /** `service.instance.id` of the process. */
  readonly instance: unknown;
  /** In nanoseconds since 1970. */
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<ReceivedSpan, 'attributes' | 'service' | 'instance'> & {
        readonly attributes: readonly Attribute[];
      })[];
    }[];
  }[];
}

type Status = number | 'nothing';

/** A collector of traces: takes OTLP over HTTP, in JSON, and keeps everything. */
export class Collector {
  readonly spans: ReceivedSpan[] = [];
  readonly headers: IncomingHttpHeaders[] = [];
  /** Everything it was sent, as it came. */
  readonly texts: string[] = [];

  private constructor(
    private readonly server: Server,
    private readonly status: Status,
  ) {}

  static async start(status: Status = 200): Promise<Collector> {
    const server = createServer();
    const collector = new Collector(server, status);
    server.on('request', (request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        collector.#take(request.url, request.headers, Buffer.concat(pieces).toString());
        if (collector.status === 'nothing') return;
        // Some repeat what they were sent.
        const text = collector.status === 200 ? '{}' : JSON.stringify(request.headers);
        response.writeHead(collector.status, { 'content-type': 'application/json' }).end(text);
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return collector;
  }

  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  get endpoint(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** The spans of one trace. */
  of(traceId: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.traceId === traceId);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    if (this.server.listening) await once(this.server, 'close');
  }

  #take(path: string | undefined, headers: IncomingHttpHeaders, text: string): void {
    if (path !== '/v1/traces') throw new Error(`traces do not belong to ${path}`);
    this.headers.push(headers);
    this.texts.push(text);
    const { resourceSpans } = JSON.parse(text) as Export;
    for (const { resource, scopeSpans } of resourceSpans)
      for (const span of scopeSpans.flatMap(({ spans }) => spans))
        this.spans.push({
          ...span,
          attributes: objectOf(span.attributes),
          service: objectOf(resource.attributes)['service.name'],
          instance: objectOf(resource.attributes)['service.instance.id'],
        });
  }
}

const objectOf = (attributes: readonly Attribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
