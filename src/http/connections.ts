import { type Server, type ServerResponse } from 'node:http';
import { type Socket } from 'node:net';

/** The open connections of a server, and what each of them still owes to its client. */
export class Connections {
  /** The answer to the newest request of each connection, none before the first. */
  readonly #answers = new Map<Socket, ServerResponse | undefined>();

  constructor(server: Server) {
    server.on('connection', (socket) => {
      this.#answers.set(socket, undefined);
      socket.once('close', () => this.#answers.delete(socket));
    });
    server.on('request', ({ socket }, answer) => {
      this.#answers.set(socket, answer);
    });
  }

  /**
   * Ends a connection on which nothing can be understood any more, with an answer of our own. Requests that had
   * arrived whole before are answered first: theirs must not be mistaken for it.
   */
  refuse(socket: Socket, answer: string): void {
    const last = this.#answers.get(socket);
    if (!last || last.writableFinished) {
      socket.end(answer);
      socket.destroySoon();
    } else if (last.req.complete) {
      last.once('close', () => {
        this.refuse(socket, answer);
      });
    } else if (!last.socket) {
      // Its turn comes when the earlier ones have been answered.
      last.once('socket', () => {
        this.refuse(socket, answer);
      });
    } else if (last.headersSent) {
      socket.destroy(); // amid an answer there is no place for another
    } else {
      socket.end(answer);
      socket.destroySoon();
    }
  }

  /** Makes each connection that owes an answer end with it, as Fastify does for requests that are still to come. */
  endAfterAnswers(): void {
    for (const last of this.#answers.values()) if (last && !last.headersSent) last.shouldKeepAlive = false;
  }

  /** Ends each connection that is waiting for its client to finish a request, or to begin one. */
  refuseUnfinished(answer: string): void {
    for (const [socket, last] of this.#answers)
      if (!last || last.writableFinished || !last.req.complete) this.refuse(socket, answer);
  }
}
