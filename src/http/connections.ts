import { type Server, type ServerResponse } from 'node:http';
import { type Socket } from 'node:net';

/** The open connections of a server, and what each of them still owes to its client. */
export class Connections {
  /** The answer to the newest request of each connection, none before the first. */
  readonly #answers = new Map<Socket, ServerResponse | undefined>();

  constructor(private readonly server: Server) {
    server.on('connection', (socket) => {
      this.#answers.set(socket, undefined);
      socket.once('close', () => this.#answers.delete(socket));
    });
    server.on('request', ({ socket }, answer) => {
      this.#answers.set(socket, answer);
    });
  }

  /**
   * Lets a server that closes keep the connections on which no request has come yet, as Node does before version 26: their
   * clients have connected while it listened, and are about to send one.
   */
  keepNew(): void {
    this.server.closeIdleConnections = () => {
      for (const [socket, last] of this.#answers)
        if (last?.writableFinished && last.req.complete) socket.destroy();
    };
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

  /**
   * From now on answers carry `Connection: close`. Of requests that a client has sent in a row without waiting
   * (pipelining) the newest alone has it: the connection ends with that answer, and further ones would be lost.
   */
  endAfterAnswers(): void {
    for (const last of this.#answers.values()) if (last) last.shouldKeepAlive = false;
    // Before those that answer, and before the constructor's own listener.
    this.server.prependListener('request', ({ socket }, answer) => {
      const before = this.#answers.get(socket);
      // A client that had asked for the end of its connection could not send another request.
      if (before) before.shouldKeepAlive = true;
      answer.shouldKeepAlive = false;
    });
  }

  /** Ends each connection that is waiting for its client to finish a request, or to begin one. */
  refuseUnfinished(answer: string): void {
    for (const [socket, last] of this.#answers)
      if (!last || last.writableFinished || !last.req.complete) this.refuse(socket, answer);
  }
}
