import { type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type OnModuleDestroy } from '@nestjs/common';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { cloudEventText, cloudTypeOf } from '../../history/cloud-event.js';
import { type HistoryBatch } from '../../history/read.js';
import { yieldToLoop } from '../../runtime/event-loop.js';
import { LogUnavailable, type RecordedEvent } from '../../log/event-log.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { requestLog } from '../correlation.js';
import { PIECE } from '../large-answers.js';
import { Problem } from '../problem.js';
import { LIVE, type LiveStep, sentEvent } from '../server-sent-events.js';

/**
 * Milliseconds, once no connection is accepted any more: with the longest drain (10 s) it leaves 5 s of what a whole
 * stop may take.
 */
const STOPPING_MS = 5_000;

/**
 * Aborts when the client has gone: its connection is closed, or closed from its side. An ordinary answer still goes
 * to a client that has closed its half; but one that takes long must not be made for nobody, and only writing would
 * tell the difference.
 */
export const goneSignal = (response: ServerResponse): AbortSignal => {
  const { socket } = response.req;
  const gone = new AbortController();
  const abort = (): void => {
    gone.abort(new Problem('request_timeout', 'The connection was closed before the answer was ready.'));
  };
  socket.once('end', abort);
  response.once('close', () => {
    socket.removeListener('end', abort);
    abort();
  });
  if (socket.readableEnded || socket.destroyed) abort();
  return gone.signal;
};

/** Events as lines of JSON. Throws the reason of `gone` where it aborts before the end. */
export async function* eventLines(
  batches: AsyncIterable<HistoryBatch>,
  limit: number,
  gone: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  let left = limit;
  for await (const { events, done } of batches) {
    const shown = events.slice(0, left);
    left -= shown.length;
    yield* pieces(shown, (event) => `${cloudEventText(event)}\n`);
    if (done || left === 0) return;
    yield ''; // no bytes, but the connection counts as active
  }
  throw gone.reason;
}

/** Events of the log, as a live stream sends them. */
export async function* liveEvents(
  batches: AsyncIterable<HistoryBatch>,
): AsyncGenerator<LiveStep, void, undefined> {
  for await (const { events, position, waiting } of batches)
    yield {
      events: events.length > 0 ? pieces(events, sent) : undefined,
      position,
      waiting: waiting === undefined ? undefined : 'the log cannot be reached, and is tried again',
    };
}

const sent = (event: RecordedEvent): string =>
  sentEvent(cloudTypeOf(event), cloudEventText(event), event.position);

function* pieces(events: readonly RecordedEvent[], textOf: (event: RecordedEvent) => string) {
  let piece = '';
  for (const event of events) {
    piece += textOf(event);
    if (piece.length < PIECE) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}

/**
 * So many streams at a time: each has some 0.5 MB in progress to its client, and all share one event loop. More than that
 * are not auditors at work, but connections that somebody has forgotten.
 */
const STREAMS_AT_ONCE = 50;

/** Aborts when the client of a stream has gone. */
export interface Ending {
  /** The client has gone. */
  readonly gone: AbortSignal;
  /** As `gone`, or the service stops, or the stream makes room for another one. */
  readonly over: AbortSignal;
}

/** A stream in progress. */
interface OpenStream {
  readonly owner: string;
  readonly isLive: boolean;
  readonly over: AbortController;
}

/** Sends answers of any length, as fast as their clients read them and no faster, and ends them when the service stops. */
export class EventStreams implements OnModuleDestroy {
  /** The oldest first. */
  readonly #open = new Map<ServerResponse, OpenStream>();
  #stopping = false;

  constructor(
    private readonly atOnce = STREAMS_AT_ONCE,
    private readonly ofAnOwner = Infinity,
  ) {}

  /**
   * Sends events as lines, up to `limit` of them. Throws as `send` does, and Problem over HTTP/1.0: such an answer ends
   * with its connection, and its client cannot tell a part from the whole.
   */
  async sendLines(
    request: GuardedRequest,
    reply: FastifyReply,
    contentType: string,
    limit: number,
    read: (gone: AbortSignal) => AsyncIterable<HistoryBatch>,
  ): Promise<void> {
    if (request.raw.httpVersion === '1.0') throw tooOld();
    await this.send(request, reply, contentType, ({ gone }) => eventLines(read(gone), limit, gone));
  }

  /**
   * Sends what `make` gives, piece by piece; nothing is asked of it before the client has taken what was there. HEAD is
   * answered without it. Where as many are in progress as there may be, the oldest live one of the same owner ends:
   * clients that have vanished without a sign hold theirs for up to 16 minutes. Throws what `make` throws before the
   * first piece, and Problem where there is no room. What it throws later breaks the connection off, so that no client
   * takes a part for the whole.
   */
  async send(
    request: GuardedRequest,
    reply: FastifyReply,
    contentType: string,
    make: (ending: Ending) => AsyncGenerator<string, void, undefined>,
  ): Promise<void> {
    const { raw } = reply;
    if (request.method === 'HEAD') {
      await reply.type(contentType).send(Readable.from([])); // an empty text would say that it has no bytes
      return;
    }
    const { owner } = principalOf(request);
    this.#makeRoom(owner);
    const gone = goneSignal(raw);
    const over = new AbortController();
    const end = (): void => {
      over.abort(gone.reason);
    };
    gone.addEventListener('abort', end);
    if (gone.aborted || this.#stopping) end();
    this.#open.set(raw, { owner, isLive: contentType === LIVE, over });
    const stream = make({ gone, over: over.signal });
    try {
      const first = await stream.next();
      reply.hijack();
      if (contentType === LIVE) reply.header('x-accel-buffering', 'no'); // nginx would keep events back
      // It closes after it: a connection that was a stream for hours is not worth keeping.
      for (const [name, value] of Object.entries(reply.type(contentType).getHeaders()))
        if (value !== undefined) raw.setHeader(name, value);
      raw.writeHead(200, { connection: 'close' });
      raw.flushHeaders();
      await this.#writeChunked(request, raw, first, stream);
    } finally {
      await stream.return(); // ends the subscription of the log
      this.#open.delete(raw);
      gone.removeEventListener('abort', end);
    }
  }

  /** Called by Nest when the service begins to stop, before it waits for its connections. */
  onModuleDestroy(): void {
    this.#stopping = true;
    for (const { over } of this.#open.values()) over.abort();
    setTimeout(() => {
      for (const raw of this.#open.keys()) raw.destroy();
    }, STOPPING_MS).unref();
  }

  #makeRoom(owner: string): void {
    const own = [...this.#open].filter(([, open]) => open.owner === owner);
    if (this.#open.size < this.atOnce && own.length < this.ofAnOwner) return;
    const oldest = own.find(([, { isLive }]) => isLive);
    if (!oldest)
      throw new Problem(
        'too_many_streams',
        `The limit of open streams of events (${this.atOnce}) is reached: try again in some seconds, or read in pages.`,
        { headers: { 'Retry-After': '5' } },
      );
    const [raw, { over }] = oldest;
    this.#open.delete(raw);
    over.abort();
  }

  async #writeChunked(
    request: FastifyRequest,
    raw: ServerResponse,
    first: IteratorResult<string, void>,
    stream: AsyncGenerator<string, void, undefined>,
  ): Promise<void> {
    const { socket } = request.raw;
    const spoken = async function* (): AsyncGenerator<string, void, undefined> {
      if (first.done) return;
      if (first.value !== '') yield first.value;
      for await (const piece of stream) {
        await yieldToLoop();
        if (piece === '') socket.setTimeout(socket.timeout ?? 0); // begins to count again
        else yield piece;
      }
    };
    try {
      await pipeline(spoken(), raw);
    } catch (error) {
      // A client that breaks off is no error. A failure of ours cuts the connection, since the answer has begun.
      if (error instanceof Problem || (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE')
        requestLog(request).info('a stream of events was ended by its client, or by the service');
      else if (error instanceof LogUnavailable)
        requestLog(request).warn({ reason: error.message }, 'a stream of events was broken off');
      else requestLog(request).error({ err: error }, 'a stream of events was broken off');
    }
  }
}

const tooOld = (): Problem =>
  new Problem(
    'upgrade_required',
    'Over HTTP/1.0 an answer that was cut off looks whole: ask over HTTP/1.1, or read in pages. The proxy nginx needs proxy_http_version 1.1.',
    { headers: { Upgrade: 'HTTP/1.1', Connection: 'close, Upgrade' } },
  );
