import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { fastify, type FastifyInstance } from 'fastify';
import { refuseTooMuch, ResponseBackpressure } from '../../../src/http/response-backpressure.js';
import { until } from '../../support/waiting.js';

const MEGABYTE = 1024 * 1024;

describe('answers that clients do not take', () => {
  let server: Server;
  let unsent: ResponseBackpressure;
  let responses: ServerResponse[];

  beforeEach(async () => {
    responses = [];
    server = createServer((_request, response) => {
      responses.push(response);
    });
    unsent = new ResponseBackpressure(server, 300, 3 * MEGABYTE);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    server.close();
    server.closeAllConnections();
  });

  /** A client that has asked, and reads nothing. */
  const asking = async (): Promise<{
    socket: Socket;
    response: ServerResponse;
    closed: Promise<unknown>;
  }> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const index = responses.length;
    socket.write('GET / HTTP/1.1\r\nHost: here\r\n\r\n');
    await until(() => responses.length > index);
    const response = responses[index];
    if (!response) throw new Error('nothing was asked');
    return { socket, response, closed };
  };

  it('are sent while there is room, and what was taken makes room', async () => {
    const [first, second] = [await asking(), await asking()];
    expect(unsent.admits(first.response, 2 * MEGABYTE)).toBe(true);
    expect(unsent.admits(second.response, 2 * MEGABYTE)).toBe(false);
    first.socket.resume();
    first.response.end('a'.repeat(2 * MEGABYTE));
    await once(first.response, 'close');
    expect(unsent.admits(second.response, 2 * MEGABYTE)).toBe(true);
    expect(unsent.connections).toBe(2);
  });

  it('are sent always where they are small', async () => {
    const [first, second] = [await asking(), await asking()];
    expect(unsent.admits(first.response, 3 * MEGABYTE)).toBe(true);
    expect(unsent.admits(second.response, 1_000)).toBe(true);
  });

  it('make room for others where they have been slow, the oldest first', async () => {
    const slow = [await asking(), await asking()];
    for (const { response } of slow) expect(unsent.admits(response, 1.5 * MEGABYTE)).toBe(true);
    const { response } = await asking();
    await until(() => unsent.admits(response, MEGABYTE)); // a second later
    await slow[0]?.closed;
    await until(() => unsent.connections === 2);
    expect(unsent.cut.overload).toBe(1);
  });

  it('end the connection of a client that takes nothing for a while, and no other', async () => {
    const [stalled, idle] = [await asking(), await asking()];
    stalled.socket.pause();
    stalled.response.end('a'.repeat(20 * MEGABYTE));
    await until(() => unsent.bytes > 0);
    stalled.socket.once('end', () => undefined);
    await until(() => unsent.connections === 1);
    expect(unsent.cut).toEqual({ stalled: 1, overload: 0, refused: 0 });
    expect(unsent.bytes).toBe(0);
    idle.response.end('still here');
    expect(String((await once(idle.socket, 'data'))[0])).toContain('still here');
  });
});

const opened: FastifyInstance[] = [];
afterAll(() => Promise.all(opened.map((app) => app.close())));

it('a refusal in place of an answer says nothing that was said of the answer', async () => {
  const app = fastify();
  refuseTooMuch(app, new ResponseBackpressure(app.server, 1_500, MEGABYTE));
  app.get('/', (_request, reply) =>
    reply
      .headers({
        'cache-control': 'private, max-age=31536000, immutable',
        etag: '"1"',
        vary: 'accept-encoding',
        'content-encoding': 'gzip',
      })
      .send(Buffer.alloc(2 * MEGABYTE)),
  );
  opened.push(app);
  const answer = await fetch(await app.listen({ host: '127.0.0.1', port: 0 }));
  expect(await answer.text()).toContain('Too many answers wait');
  expect(answer.headers.get('cache-control')).toBe('no-store');
  for (const name of ['etag', 'vary', 'content-encoding']) expect(answer.headers.has(name)).toBe(false);
});
