import { once } from 'node:events';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { freePorts } from './free-ports.js';

/** A client's connection, and the one to the target that belongs to it: none yet if it came while frozen. */
interface Link {
  readonly client: Socket;
  target?: Socket;
}

/** The port on 127.0.0.1 that a connection leads to: one for all, or by what the client says first. */
export type Target = number | ((first: Buffer) => number);

/**
 * A TCP proxy on 127.0.0.1 that breaks connections on demand. It hands on bytes, ends of one direction and resets, as
 * they come. It has no timer: everything happens when a method is called.
 */
export class TcpProxy {
  readonly #links = new Set<Link>();
  readonly #server: Server;
  #frozen = false;

  private constructor(
    /** The same again after `refuse` and `accept`. */
    readonly port: number,
    /** Where the connections that come from now on lead to. */
    public target: Target,
  ) {
    // Nothing is read before the other side is connected, and an end of one direction leaves the other open.
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (client) => {
      const link: Link = { client };
      this.#links.add(link);
      client.once('close', () => this.#links.delete(link));
      // A reset, or a target that cannot be reached, is an error of one side: it ends the other in the same way.
      client.on('error', () => {
        if (link.target) reset(link.target);
      });
      if (!this.#frozen) this.#connect(link);
    });
  }

  /** Starts a proxy that listens on `port`, on any free one without it. The target need not be there yet. */
  static async start(target: Target, { port }: { port?: number | undefined } = {}): Promise<TcpProxy> {
    const [free = 0] = port ? [port] : await freePorts(1); // nobody takes it while the proxy refuses
    const proxy = new TcpProxy(free, target);
    await proxy.accept();
    return proxy;
  }

  /** The clients' connections that are open. */
  get open(): number {
    return this.#links.size;
  }

  /** Resets connections, on both sides: all, or the one that the target knows by this port. New ones work. */
  cut(targetsPort?: number): void {
    for (const { client, target } of this.#links) {
      if (targetsPort !== undefined && target?.localPort !== targetsPort) continue;
      reset(client);
      if (target) reset(target);
    }
  }

  /** Resets every connection, and refuses new ones from when it resolves on. May be called twice. */
  async refuse(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await closed;
  }

  /** Accepts connections again, on the same port. Nothing happens while it does. */
  async accept(): Promise<void> {
    if (this.#server.listening) return;
    const listening = once(this.#server, 'listening');
    this.#server.listen(this.port, '127.0.0.1');
    await listening;
  }

  /**
   * From now on nothing is handed on, in either direction, except resets, and what had been read before. Connections
   * stay open; new ones are accepted, and nothing answers them.
   */
  freeze(): void {
    this.#frozen = true;
    for (const { client, target } of this.#links)
      if (target) {
        stop(client, target);
        stop(target, client);
      }
  }

  /** Ends `freeze`: what was held back flows on, and connections that came meanwhile reach the target. */
  thaw(): void {
    if (!this.#frozen) return;
    this.#frozen = false;
    for (const link of this.#links)
      if (link.target) flow(link.client, link.target);
      else this.#connect(link);
  }

  #connect(link: Link): void {
    const { client } = link;
    if (typeof this.target === 'number') {
      this.#connectTo(this.target, link);
      return;
    }
    const choose = this.target;
    client.once('readable', () => {
      const first = client.read() as Buffer | null;
      if (!first) {
        client.destroy();
        return;
      }
      client.unshift(first);
      this.#connectTo(choose(first), link);
    });
  }

  #connectTo(port: number, link: Link): void {
    const { client } = link;
    const target = createConnection({ host: '127.0.0.1', port, allowHalfOpen: true, noDelay: true });
    link.target = target;
    target.on('error', () => {
      reset(client);
    });
    if (!this.#frozen) flow(client, target);
  }
}

const flow = (client: Socket, target: Socket): void => {
  client.pipe(target);
  target.pipe(client);
};

const stop = (from: Socket, to: Socket): void => {
  from.unpipe(to);
  from.pause();
};

/** Ends a connection with a reset, so that the other end sees an error and not an end. */
const reset = (socket: Socket): void => {
  // One that is not there yet cannot be reset; it would be made first.
  if (socket.connecting) socket.destroy();
  else socket.resetAndDestroy();
};
