import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { TcpProxy } from '../support/tcp-proxy.js';

const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (let close = opened.pop(); close; close = opened.pop()) await close();
});

/** A server that sends back every byte after a mark of its own, and what it noticed of its connections. */
const echo = async (mark = ''): Promise<{ port: number; sockets: Socket[] }> => {
  const sockets: Socket[] = [];
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => socket.destroy());
    socket.on('data', (bytes) => socket.write(`${mark}${bytes.toString('latin1')}`, 'latin1'));
    socket.on('end', () => socket.end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sockets };
};

const proxyTo = async (port: number): Promise<TcpProxy> => {
  const proxy = await TcpProxy.start('127.0.0.1', port);
  opened.push(() => proxy.close());
  return proxy;
};

/** A client that remembers what it received, and how its connection ended. */
class Client {
  received = '';
  readonly #socket: Socket;
  /** The code of the error that ended the connection, or 'closed'. */
  readonly ended: Promise<string>;

  constructor(port: number) {
    this.#socket = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    this.#socket.setEncoding('latin1').on('data', (text: string) => (this.received += text));
    this.ended = new Promise((resolve) => {
      this.#socket.once('error', (error: NodeJS.ErrnoException) => {
        resolve(String(error.code));
      });
      this.#socket.once('close', () => {
        resolve('closed');
      });
    });
    opened.push(() => this.#socket.destroy());
  }

  send(text: string): void {
    this.#socket.write(text, 'latin1');
  }

  end(): void {
    this.#socket.end();
  }

  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /** Resolves once it has received this much. */
  async has(text: string): Promise<void> {
    while (!this.received.includes(text)) await once(this.#socket, 'data');
  }

  /** Sends, and waits for the answer. */
  async ping(text: string): Promise<void> {
    this.send(text);
    await this.has(text);
  }
}

/** Resolves when a server's connection has ended, with whether that was by a reset. */
const closed = (socket: Socket): Promise<boolean> =>
  new Promise((resolve) => {
    socket.once('close', resolve);
  });

/** As many round trips on a connection of its own as would bring an answer on any other, too. */
const roundTrips = async (port: number): Promise<void> => {
  const other = new Client((await proxyTo(port)).port);
  for (let i = 0; i < 50; i++) await other.ping(`<${i}>`);
};

describe('a TCP proxy', () => {
  it('hands on every byte, and the end of one direction without the other', async () => {
    const { port } = await echo();
    const client = new Client((await proxyTo(port)).port);
    const text = 'x'.repeat(3_000_000); // more than all buffers between
    client.send(text);
    client.end();
    expect(await client.ended).toBe('closed');
    expect(client.received === text).toBe(true);
  });

  it('resets all connections when cut, and takes new ones', async () => {
    const { port, sockets } = await echo();
    const proxy = await proxyTo(port);
    const [one, other] = [new Client(proxy.port), new Client(proxy.port)];
    await Promise.all([one.ping('a'), other.ping('b')]);
    expect(proxy.connections).toBe(2);
    const targets = Promise.all(sockets.map(closed));
    proxy.cut();
    expect(await Promise.all([one.ended, other.ended])).toEqual(['ECONNRESET', 'ECONNRESET']);
    expect(await targets).toEqual([true, true]);
    await new Client(proxy.port).ping('c');
    expect(proxy.connections).toBe(1);
  });

  it('refuses connections until it accepts them again on the same port', async () => {
    const { port } = await echo();
    const proxy = await proxyTo(port);
    const before = new Client(proxy.port);
    await before.ping('a');
    await proxy.refuse();
    await proxy.refuse();
    expect(await before.ended).toBe('ECONNRESET');
    expect(await new Client(proxy.port).ended).toBe('ECONNREFUSED');
    await proxy.accept();
    await proxy.accept();
    await new Client(proxy.port).ping('b');
  });

  it('holds everything back while frozen, in both directions, and lets it flow after', async () => {
    const { port, sockets } = await echo();
    const proxy = await proxyTo(port);
    const client = new Client(proxy.port);
    await client.ping('before');
    proxy.freeze();
    client.send('|from the client');
    sockets[0]?.write('|from the target');
    const late = new Client(proxy.port);
    late.send('late');
    await roundTrips(port);
    expect(client.received).toBe('before');
    expect(late.received).toBe('');
    expect(proxy.connections).toBe(2);
    expect(sockets).toHaveLength(2); // of the first client and of the round trips
    proxy.thaw();
    await client.has('|from the client');
    await late.has('late');
    expect(client.received).toBe('before|from the target|from the client');
    proxy.thaw(); // once more changes nothing: each byte still arrives once
    await client.ping('|after');
    expect(client.received).toBe('before|from the target|from the client|after');
  });

  it('can be cut while frozen', async () => {
    const { port } = await echo();
    const proxy = await proxyTo(port);
    const client = new Client(proxy.port);
    await client.ping('a');
    proxy.freeze();
    proxy.cut();
    expect(await client.ended).toBe('ECONNRESET');
  });

  it('sends new connections to another port when told so', async () => {
    const [one, other] = [await echo('1'), await echo('2')];
    const proxy = await proxyTo(one.port);
    const before = new Client(proxy.port);
    await before.ping('a');
    proxy.retarget(other.port);
    const after = new Client(proxy.port);
    await after.ping('b');
    await before.ping('c');
    expect([before.received, after.received]).toEqual(['1a1c', '2b']);
  });

  it('resets the client of a target that is not there, or resets', async () => {
    const { port, sockets } = await echo();
    const proxy = await proxyTo(port);
    const client = new Client(proxy.port);
    await client.ping('a');
    sockets[0]?.resetAndDestroy();
    expect(await client.ended).toBe('ECONNRESET');
    const gone = await proxyTo(1); // nothing listens on port 1
    expect(await new Client(gone.port).ended).toBe('ECONNRESET');
  });

  it('resets the target of a client that resets', async () => {
    const { port, sockets } = await echo();
    const client = new Client((await proxyTo(port)).port);
    await client.ping('a');
    const targets = Promise.all(sockets.map(closed));
    client.reset();
    expect(await targets).toEqual([true]);
  });

  it('is closed at once, whatever is connected, twice if need be', async () => {
    const { port } = await echo();
    const proxy = await proxyTo(port);
    const client = new Client(proxy.port);
    await client.ping('a');
    await Promise.all([proxy.close(), proxy.close()]);
    expect(await client.ended).toBe('ECONNRESET');
    expect(proxy.connections).toBe(0);
  });
});
