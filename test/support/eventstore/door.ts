import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { freePorts } from '../free-ports.js';

/** One client's connection and what leads from it to the server behind. */
interface Passage {
  readonly outside: Socket;
  readonly inside: Socket;
}

/**
 * Stands between the clients' connections and the gRPC server, so that a test can cut them, or freeze them: then no byte
 * passes in either direction, not even a ping's answer, while the connections stay.
 */
export class Door {
  readonly #passages = new Set<Passage>();
  /** Clients that have not said anything yet. */
  readonly #silent = new Set<Socket>();
  #server: Server | undefined;
  #frozen = false;

  /** The clients' connections that are open. */
  get open(): number {
    return this.#passages.size + this.#silent.size;
  }

  /**
   * Lets clients in on the port (0 for any free one) and leads them to the port `to`, those that speak HTTP/1.1 to `web`.
   * Returns the port.
   */
  async listen(port: number, to: number, web = to): Promise<number> {
    const server = createServer({ noDelay: true }, (outside) => {
      if (web === to) {
        this.#let(outside, to);
        return;
      }
      this.#silent.add(outside);
      outside
        .on('error', () => undefined)
        .once('close', () => this.#silent.delete(outside))
        .once('readable', () => {
          this.#silent.delete(outside);
          const first = outside.read() as Buffer | null;
          if (!first) {
            outside.destroy();
            return;
          }
          outside.unshift(first);
          // HTTP/2 begins with "PRI * HTTP/2.0".
          this.#let(outside, first.toString('latin1', 0, 4) === 'GET ' ? web : to);
        });
    });
    const [wanted] = port ? [port] : await freePorts(1); // nobody takes it while this server is away
    server.listen(wanted, '127.0.0.1');
    await once(server, 'listening');
    this.#server = server;
    return (server.address() as AddressInfo).port;
  }

  /** Cuts all connections and refuses new ones. */
  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.#frozen = false;
    if (!server) return;
    const closed = once(server, 'close');
    server.close();
    this.cut();
    await closed;
  }

  /** Cuts the connections, all or the one that the server behind knows by this port. New ones are let in. */
  cut(insidePort?: number): void {
    if (insidePort === undefined) for (const outside of this.#silent) outside.resetAndDestroy();
    for (const { outside, inside } of this.#passages) {
      if (insidePort !== undefined && inside.localPort !== insidePort) continue;
      // A reset, as from a machine that went down: the client must not take it for an orderly end.
      outside.resetAndDestroy();
      inside.destroy();
    }
  }

  freeze(): void {
    this.#frozen = true;
    for (const { outside, inside } of this.#passages) {
      outside.unpipe(inside);
      inside.unpipe(outside);
    }
  }

  thaw(): void {
    this.#frozen = false;
    for (const passage of this.#passages) join(passage);
  }

  #let(outside: Socket, to: number): void {
    const inside = connect({ port: to, host: '127.0.0.1', noDelay: true });
    const passage = { outside, inside };
    this.#passages.add(passage);
    for (const [socket, other] of [
      [outside, inside],
      [inside, outside],
    ] as const) {
      // An error is followed by 'close', which is handled.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        other.destroy();
        this.#passages.delete(passage);
      });
    }
    if (!this.#frozen) join(passage);
  }
}

function join({ outside, inside }: Passage): void {
  outside.pipe(inside);
  inside.pipe(outside);
}
