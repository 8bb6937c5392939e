import { type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type Socket } from 'node:net';

/**
 * Most requests of one connection that may wait for those before them. Node parses all of what it has read, 64 KiB or
 * some 2,000 requests, whether we want more of them or not; each takes some 4 KB until it is answered. Load
 * generators send up to 100 at once, other clients none.
 */
const WAITING_OF_CONNECTION = 100;

/** Most that may wait on all connections together, some 40 MB: beyond it, the longest queue is cut. */
const WAITING_TOGETHER = 10_000;

interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/**
 * Begins the requests of a connection one after the other, each when the one before it has been answered and the
 * answer been handed to the system: pipelined writes take place in the order in which they were sent (RFC 9112,
 * section 9.3.2), and a client that does not read has one answer in progress. A connection is not read while requests
 * of it wait. The last of them may lack a part of its body, which is read once it has begun.
 *
 * Of a client that sends more than WAITING_OF_CONNECTION ahead, so many are answered, the last with
 * `Connection: close`; the others are not carried out.
 */
export class Pipelining {
  /** What waits on each connection with a request in progress. No WeakMap: its keys outlive V8's quick collections. */
  readonly #queues = new Map<Socket, Waiting[]>();
  #waiting = 0;

  constructor(private readonly begin: RequestListener) {}

  /** Puts itself before what answers the requests of a server: its first listener. */
  static before(server: Server): Pipelining {
    const [answer] = server.listeners('request') as RequestListener[];
    if (!answer) throw new Error('the server has no listener yet');
    const pipelining = new Pipelining(answer);
    server.off('request', answer);
    server.prependListener('request', (request, response) => {
      pipelining.take(request, response);
    });
    return pipelining;
  }

  /** Requests that wait for another of their connection. */
  get waiting(): number {
    return this.#waiting;
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    // The rest of what was parsed at once. It would be carried out, and could not be answered.
    if (socket.writableEnded || socket.destroyed) return;
    const queue = this.#queues.get(socket);
    if (queue) this.#enqueue(socket, queue, { request, response });
    else {
      this.#queues.set(socket, []);
      this.#begin(socket, { request, response });
    }
  }

  #enqueue(socket: Socket, queue: Waiting[], waiting: Waiting): void {
    this.#waiting += 1;
    if (queue.push(waiting) === 1) stopReading(socket);
    if (queue.length === WAITING_OF_CONNECTION) waiting.response.shouldKeepAlive = false;
    if (this.#waiting > WAITING_TOGETHER) this.#cutLongest();
  }

  #begin(socket: Socket, { request, response }: Waiting): void {
    response.once('close', () => {
      this.#beginNext(socket);
    });
    this.begin(request, response);
  }

  #beginNext(socket: Socket): void {
    const queue = this.#queues.get(socket) ?? [];
    const next = socket.writableEnded || socket.destroyed ? undefined : queue.shift();
    if (!next) {
      this.#forget(socket);
      return;
    }
    this.#waiting -= 1;
    if (queue.length === 0) readOn(socket);
    this.#begin(socket, next);
  }

  #forget(socket: Socket): void {
    this.#waiting -= this.#queues.get(socket)?.length ?? 0;
    this.#queues.delete(socket);
  }

  #cutLongest(): void {
    const [longest] = [...this.#queues].sort(([, one], [, other]) => other.length - one.length);
    if (!longest) return;
    const [socket] = longest;
    this.#forget(socket);
    socket.destroy();
  }
}

/** Node resumes a connection after each request that it has parsed, and where an answer has been taken. */
const pauseAgain = function (this: Socket): void {
  this.pause();
};

const stopReading = (socket: Socket): void => {
  socket.on('resume', pauseAgain);
  socket.pause();
};

const readOn = (socket: Socket): void => {
  socket.off('resume', pauseAgain);
  socket.resume();
};
