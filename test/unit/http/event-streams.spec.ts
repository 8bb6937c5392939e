import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { type Ending, EventStreams } from '../../../src/http/audit/event-streams.js';
import { LogUnavailable } from '../../../src/log/event-log.js';
import { gate } from '../../support/domain-faults.js';
import { until } from '../../support/waiting.js';

type Made = (ending: Ending) => AsyncGenerator<string, void, undefined>;

let app: FastifyInstance;
let port: number;
let streams: EventStreams;
let make: Made;
let said: Record<string, unknown>[];
/** True once the stream has released its source. */
let released: boolean;
/** The media type of the answers. */
let type: string;
/** Whose token a request has. */
const ownerOf = ({ headers }: FastifyRequest): string => String(headers.owner ?? 'ada');

beforeEach(async () => {
  streams = new EventStreams();
  said = [];
  released = false;
  type = 'text/plain';
  const stream = { write: (line: string) => said.push(JSON.parse(line) as Record<string, unknown>) };
  app = fastify({ logger: { level: 'info', stream } });
  app.get('/', async (asking, reply) => {
    const principal = { owner: ownerOf(asking), subject: 'x', scopes: new Set<never>(), expiresAt: 0 };
    await streams.send(Object.assign(asking, { principal }), reply, type, async function* (ending) {
      try {
        yield* make(ending);
      } finally {
        released = true;
      }
    });
  });
  await app.listen({ port: 0 });
  Object.assign(app.server, { httpAllowHalfOpen: true }); // as the service has it
  port = (app.server.address() as AddressInfo).port;
});
afterEach(async () => {
  app.server.closeAllConnections();
  await app.close();
});

/** The status and text that a client receives; `whole` is true if the answer ended properly. */
const got = async (owner = 'ada'): Promise<{ status: number | undefined; text: string; whole: boolean }> => {
  const asking = request({ port, headers: { owner } });
  asking.end();
  const [response] = (await once(asking, 'response')) as [IncomingMessage];
  let text = '';
  response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  await new Promise((resolve) => response.on('error', resolve).on('close', resolve));
  return { status: response.statusCode, text, whole: response.complete };
};

/** Waits for nothing but its end. */
const aborted = async (signal: AbortSignal): Promise<void> => {
  if (!signal.aborted) await once(signal, 'abort');
};

describe('an answer of any length', () => {
  it('comes piece by piece, and ends', async () => {
    make = async function* () {
      await nextTurn();
      yield* ['one ', '', 'two'];
    };
    expect(await got()).toEqual({ status: 200, text: 'one two', whole: true });
  });

  it('is an error answer where it cannot begin', async () => {
    make = async function* () {
      await nextTurn();
      throw new Error('cannot begin');
    };
    expect(await got()).toMatchObject({ status: 500, whole: true });
    expect(released).toBe(true);
  });

  it.each([
    ['a log that has gone', new LogUnavailable('gone'), 40],
    ['a mistake of ours', new TypeError('no function'), 50],
  ])('breaks off at %s, so that nobody takes a part for the whole', async (_what, error, level) => {
    make = async function* () {
      yield 'one ';
      await nextTurn();
      throw error;
    };
    expect(await got()).toEqual({ status: 200, text: 'one ', whole: false });
    await until(() => said.some((line) => line.level === level));
  });

  it.each<[string, (socket: ReturnType<typeof connect>) => unknown]>([
    ['closes its side', (socket) => socket.end()],
    ['is cut off', (socket) => socket.resetAndDestroy()],
  ])('lets go of the log when a client %s to whom there is nothing to say', async (_what, leave) => {
    const { opened, open } = gate();
    make = async function* ({ gone }) {
      yield '';
      open();
      await aborted(gone);
    };
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await opened;
    leave(socket);
    await until(() => released);
    socket.destroy();
  });

  it('is refused while as many are under way as there may be, and comes once one has ended', async () => {
    const [{ opened, open }, { opened: enough, open: end }] = [gate(), gate()];
    streams = new EventStreams(1);
    make = async function* () {
      open();
      yield 'one ';
      await enough;
    };
    const first = got();
    await opened;
    make = async function* () {
      await nextTurn();
      yield 'two';
    };
    expect(await got()).toMatchObject({
      status: 503,
      text: expect.stringMatching(/The limit of open streams of events \(1\) is reached/) as unknown,
    });
    end();
    expect(await first).toEqual({ status: 200, text: 'one ', whole: true });
    await until(() => released);
    expect(await got()).toMatchObject({ status: 200, text: 'two' });
  });

  it('ends the oldest live one of its owner where there is no room, and no other', async () => {
    streams = new EventStreams(4, 2);
    let begun = 0;
    make = async function* ({ over }) {
      begun += 1;
      yield 'live';
      await aborted(over);
    };
    const ended: string[] = [];
    const open = async (name: string, owner: string): Promise<void> => {
      const before = begun;
      void got(owner).then(({ whole }) => ended.push(`${name} ${whole ? 'whole' : 'cut'}`));
      await until(() => begun > before);
    };
    await open('lines', 'ada');
    type = 'text/event-stream';
    await open('first', 'ada');
    await open('second', 'ada');
    await until(() => ended.length === 1);
    await open('of bob', 'bob');
    await open('of eve', 'eve');
    expect((await got('zoe')).status).toBe(503);
    await open('third', 'bob');
    await until(() => ended.length === 2);
    expect(ended).toEqual(['first whole', 'of bob whole']);
    streams.onModuleDestroy();
    await until(() => ended.length === 6);
  });

  it('ends well when the service stops, where it has no end of its own', async () => {
    make = async function* ({ over }) {
      yield 'one ';
      streams.onModuleDestroy();
      await aborted(over);
    };
    expect(await got()).toEqual({ status: 200, text: 'one ', whole: true });
    make = async function* ({ over }) {
      yield over.aborted ? 'over' : 'not over'; // one that comes while it stops
      await nextTurn();
    };
    expect(await got()).toMatchObject({ text: 'over' });
  });
});
