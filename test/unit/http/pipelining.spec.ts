import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { Pipelining } from '../../../src/http/pipelining.js';
import { until } from '../../support/waiting.js';

describe('pipelined requests', () => {
  let server: Server;
  let pipelining: Pipelining;
  let begun: { readonly request: IncomingMessage; readonly response: ServerResponse }[];
  let onBegun: (response: ServerResponse, url: string) => void;

  beforeEach(async () => {
    begun = [];
    onBegun = () => undefined;
    server = createServer((request, response) => {
      begun.push({ request, response });
      onBegun(response, request.url ?? '');
    });
    pipelining = Pipelining.before(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    server.close();
    server.closeAllConnections();
  });

  const client = (): Socket =>
    connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
  const get = (path: string | number): string => `GET /${path} HTTP/1.1\r\nHost: here\r\n\r\n`;
  const gets = (count: number): string => Array.from({ length: count }, (_, index) => get(index)).join('');
  const urls = (): (string | undefined)[] => begun.map(({ request }) => request.url);

  it('begins each when the one before it was answered', async () => {
    const socket = client();
    socket.write(gets(3));
    await until(() => pipelining.waiting === 2);
    expect(urls()).toEqual(['/0']);
    begun[0]?.response.end('first');
    await until(() => begun.length === 2);
    expect(pipelining.waiting).toBe(1);
    onBegun = (response) => response.end('third');
    begun[1]?.response.end('second');
    socket.end();
    expect(await text(socket)).toMatch(/first.*second.*third/s);
    expect([urls(), pipelining.waiting]).toEqual([['/0', '/1', '/2'], 0]);
  });

  it('answers as many as there are, in order, over and over', async () => {
    onBegun = (response, url) => void setImmediate(() => response.end(url.padStart(8, '.')));
    const socket = client();
    const expected: string[] = [];
    for (const round of [1, 2, 3]) {
      socket.write(gets(20 + round));
      expected.push(...Array.from({ length: 20 + round }, (_, index) => `/${index}`.padStart(8, '.')));
    }
    socket.end(get('end'));
    const answers = await text(socket);
    expect(answers.match(/\.+\/\d+/g)).toEqual(expected);
  });

  it('reads no more while requests wait', async () => {
    const socket = client();
    socket.write(gets(200_000)); // more than what lies between the two holds
    await until(() => pipelining.waiting > 0);
    for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate);
    expect(begun).toHaveLength(1);
    expect(pipelining.waiting).toBeLessThan(4_000); // what Node had read already
    expect(socket.writableLength).toBeGreaterThan(0);
  });

  it('reads the rest of a body that comes after the answer before it', async () => {
    onBegun = (response, url) => {
      if (url === '/0') setImmediate(() => response.end('first'));
      else begun.at(-1)?.request.pipe(response);
    };
    const socket = client();
    const post = 'POST /1 HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 8\r\n\r\n';
    socket.write(`${get(0)}${post}half`);
    await until(() => begun.length === 2);
    socket.write('half');
    expect(await text(socket)).toMatch(/first.*half.*half/s);
  });

  it('carries out a hundred of those that a client sends ahead, and closes', async () => {
    onBegun = (response) => void setImmediate(() => response.end('answer'));
    const socket = client();
    socket.write(gets(500));
    const answers = await text(socket);
    expect(answers.match(/answer/g)).toHaveLength(101);
    expect(answers.match(/Connection: close/g)).toHaveLength(1);
    expect(begun).toHaveLength(101);
    expect(pipelining.waiting).toBe(0);
  });

  it('carries out nothing behind an answer that ends the connection', async () => {
    onBegun = (response) =>
      void setImmediate(() => response.writeHead(200, { connection: 'close' }).end('only'));
    const socket = client();
    socket.write(gets(5));
    expect((await text(socket)).match(/only/g)).toHaveLength(1);
    expect(urls()).toEqual(['/0']);
    await until(() => pipelining.waiting === 0);
  });

  it('forgets what waits on a connection that is closed', async () => {
    const socket = client();
    socket.write(gets(5));
    await until(() => pipelining.waiting === 4);
    server.closeAllConnections();
    await until(() => pipelining.waiting === 0);
    expect(urls()).toEqual(['/0']);
  });

  it('closes the connection on which most wait, where too many wait on all of them', async () => {
    const patient = client();
    patient.write(gets(2));
    await until(() => begun.length === 1);
    const greedy = Array.from({ length: 12 }, client);
    for (const one of greedy) {
      one.resume();
      one.write(gets(1_500));
    }
    await Promise.race(greedy.map((one) => new Promise((resolve) => one.once('close', resolve))));
    expect(pipelining.waiting).toBeLessThanOrEqual(10_000);
    expect(patient.destroyed).toBe(false);
    for (const one of greedy) one.destroy();
    onBegun = (response) => response.end('second');
    begun[0]?.response.end('first');
    patient.end();
    expect(await text(patient)).toMatch(/first.*second/s);
  });
});
