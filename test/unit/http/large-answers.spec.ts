import { afterEach, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, get, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { nextLoopTurn, yieldToLoop, noteRequest } from '../../../src/runtime/event-loop.js';
import { inPieces, PIECE } from '../../../src/http/large-answers.js';
import { quickTime } from '../../support/quick-time.js';
import { replaceParts } from '../../support/replaced-runtime.js';
import { until } from '../../support/waiting.js';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** Starts a server that answers every request in this way, and gives its port. */
const serving = async (answer: (response: ServerResponse) => void): Promise<number> => {
  const server = createServer((_request, response) => {
    answer(response);
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
};

it('one caller goes on in each turn of the event loop, in the order in which they asked', async () => {
  const done: number[] = [];
  for (const id of [1, 2, 3]) void nextLoopTurn().then(() => done.push(id));
  const seen: number[] = [];
  while (done.length < 3) {
    seen.push(done.length);
    await nextTurn();
  }
  expect(done).toEqual([1, 2, 3]);
  expect(seen).toEqual([...seen].sort());
  expect(new Set(seen)).toEqual(new Set([0, 1, 2]));
});

it('long work pauses between its steps while others ask, and else does not', async () => {
  const pauses = quickTime(1);
  replaceParts({ monotonicMs: () => 0 }); // a slow machine would take a request for an old one
  for (let step = 0; step < 50; step += 1) await yieldToLoop();
  expect(pauses).toHaveLength(0);
  for (let step = 0; step < 50; step += 1) {
    noteRequest();
    await yieldToLoop();
  }
  expect(pauses).toHaveLength(50);
});

it('a large answer arrives whole', async () => {
  const body = Buffer.alloc(5 * PIECE + 1, 'ab');
  const port = await serving((response) => {
    inPieces(body).pipe(response);
  });
  const [response] = (await once(get({ port }), 'response')) as [NodeJS.ReadableStream];
  expect((await buffer(response)).equals(body)).toBe(true);
});

it('of an answer that its client does not read no more is handed over than the connection takes', async () => {
  let response: ServerResponse | undefined;
  const port = await serving((begun) => {
    response = begun;
    inPieces(Buffer.alloc(100 * 1024 * 1024)).pipe(begun);
  });
  const socket = connect(port, '127.0.0.1').pause();
  socket.write('GET / HTTP/1.1\r\nHost: here\r\n\r\n');
  while (!response?.writableNeedDrain) await nextTurn();
  expect(response.writableLength).toBeLessThan(4 * PIECE);
  const closed = once(response, 'close');
  socket.destroy();
  await closed;
  expect(response.writableFinished).toBe(false);
});

it('an answer that was sent holds its body no longer: connections at rest keep their last one', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  let body: WeakRef<ArrayBufferLike> | undefined;
  let sent: ServerResponse | undefined;
  const port = await serving((response) => {
    const bytes = Buffer.alloc(5 * PIECE);
    body = new WeakRef(bytes.buffer);
    sent = response;
    void pipeline(inPieces(bytes), response);
  });
  const [response] = (await once(get({ port }), 'response')) as [NodeJS.ReadableStream];
  expect(await buffer(response)).toHaveLength(5 * PIECE);
  await until(() => {
    collect();
    return body?.deref() === undefined;
  });
  expect(sent?.writableFinished).toBe(true);
});
