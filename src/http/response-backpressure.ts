import { type Server, type ServerResponse } from 'node:http';
import { type Socket } from 'node:net';
import { type FastifyInstance } from 'fastify';
import { openFilesLimit } from '../service/open-files.js';
import { inPieces, PIECE } from './large-answers.js';
import { Problem } from './problem.js';
import { EVERY_ANSWER } from './server.js';

/**
 * Milliseconds without progress after which a client is cut off: where packets are lost, TCP sends them again after
 * about 1, 3, 7 and 15 s.
 */
const STALL_MS = 20_000;

/** Interval of the checks for clients without progress. */
const LOOK_EVERY_MS = 1_000;

/** Most bytes (texts: characters) of all answers that were not taken yet: 10 of the longest lists. */
const UNSENT_BYTES = 16 * 1024 * 1024;

/** Answers up to so many bytes are not counted: as many as there may be connections are less than the service itself. */
const SMALL_BYTES = 16 * 1024;

/** An answer that was begun so long ago, in milliseconds, is cut off where another one finds no room. */
const SLOW_MS = 1_000;

/** Connections at once: an idle one takes some 15 KB. */
const MAX_CONNECTIONS = 5_000;

/** Files that stay to be opened when every connection is: those of the stores, and what is loaded when it is wanted. */
const FILES_BESIDE = 256;

interface Unsent {
  readonly bytes: number;
  readonly since: number;
}

/**
 * Bounds what clients that do not read cost: the number of connections, the bytes of answers that were made and not
 * taken, and how long a client may take nothing.
 */
export class ResponseBackpressure {
  readonly #sockets = new Set<Socket>();
  /** Those that count, the oldest first. */
  readonly #answers = new Map<ServerResponse, Unsent>();
  #bytes = 0;
  /** Runs while there are connections. */
  #looking: NodeJS.Timeout | undefined;
  /** Connections that were ended since the start, by reason. */
  readonly cut = { stalled: 0, overload: 0, refused: 0 };

  constructor(
    server: Server,
    private readonly stallMs = STALL_MS,
    private readonly limit = UNSENT_BYTES,
  ) {
    server.maxConnections = Math.min(MAX_CONNECTIONS, (openFilesLimit() ?? Infinity) - FILES_BESIDE);
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.prependListener('timeout', () => {
        if (socket.writableLength > 0) this.cut.stalled += 1; // Node destroys it
      });
      socket.once('close', () => {
        this.#sockets.delete(socket);
        if (this.#sockets.size === 0) clearInterval(this.#looking); // an idle service does not wake up for it
      });
      if (this.#sockets.size === 1)
        this.#looking = setInterval(() => {
          this.#look(server.timeout);
        }, LOOK_EVERY_MS).unref();
    });
    server.on('drop', () => {
      this.cut.refused += 1;
    });
  }

  /** Open connections. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Bytes given to connections and not taken by their clients. */
  get bytes(): number {
    let bytes = 0;
    for (const { writableLength } of this.#sockets) bytes += writableLength;
    return bytes;
  }

  /**
   * True if an answer of so many bytes may be sent now. Where there is no room for it, the slowest answers of others
   * are cut off, if they were begun more than SLOW_MS ago.
   */
  admits(response: ServerResponse, bytes: number): boolean {
    if (bytes <= SMALL_BYTES) return true;
    for (const [oldest, { since }] of this.#answers) {
      if (this.#bytes + bytes <= this.limit || performance.now() - since < SLOW_MS) break;
      this.cut.overload += 1;
      this.#release(oldest);
      oldest.destroy();
    }
    if (this.#bytes + bytes > this.limit) return false;
    this.#bytes += bytes;
    this.#answers.set(response, { bytes, since: performance.now() });
    response.once('close', () => {
      this.#release(response);
    });
    return true;
  }

  #release(response: ServerResponse): void {
    this.#bytes -= this.#answers.get(response)?.bytes ?? 0;
    this.#answers.delete(response);
  }

  /** Node's own timeout of a socket starts again with each part of an answer that is taken. */
  #look(idleMs: number): void {
    for (const socket of this.#sockets)
      if (socket.writableLength > 0) {
        if (socket.timeout !== this.stallMs) socket.setTimeout(this.stallMs);
      } else if (socket.timeout === this.stallMs) socket.setTimeout(idleMs);
  }
}

/**
 * Fields that are removed when a refusal takes the place of an answer: a cache would keep the refusal for as long.
 */
const FIELDS_OF_AN_ANSWER = [
  'content-encoding',
  'content-length',
  'etag',
  'link',
  'plants-position',
  'vary',
] as const;

/**
 * Answers 503 in place of what would be too much. Not counted are the answers of routes whose `config.shared` says that
 * all clients are sent the same bytes.
 */
export const refuseTooMuch = (fastify: FastifyInstance, unsent: ResponseBackpressure): void => {
  fastify.addHook('onSend', (request, reply, payload, done) => {
    if (typeof payload !== 'string' && !(payload instanceof Uint8Array)) {
      done(null, payload);
      return;
    }
    const shared = (request.routeOptions.config as { readonly shared?: boolean }).shared === true;
    if (!shared && !unsent.admits(reply.raw, payload.length)) {
      for (const field of FIELDS_OF_AN_ANSWER) reply.removeHeader(field);
      reply.headers(EVERY_ANSWER);
      done(tooMuch());
      return;
    }
    if (payload.length <= PIECE || request.method === 'HEAD') {
      done(null, payload);
      return;
    }
    reply.header('content-length', Buffer.byteLength(payload)); // which Fastify does not know of a stream
    done(null, inPieces(payload));
  });
};

/** No answer of this size may be sent now. */
export const tooMuch = (): Problem =>
  new Problem(
    'overloaded',
    'Too many answers wait for clients that do not read them. Try again, or ask for shorter pages.',
    { headers: { 'Retry-After': '1' } },
  );
