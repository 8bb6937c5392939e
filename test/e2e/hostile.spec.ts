import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { connect, type Socket } from 'node:net';
import { HttpClient } from '../support/http-client.js';
import { samplesIn } from '../support/samples.js';
import { TestService } from '../support/service.js';

/** How long each hostile client goes on, in seconds: a minute is the long form. */
const SECONDS = Number(process.env.HOSTILE_SECONDS ?? '1');

/** What the service may take at most, in bytes. */
const MOST_MEMORY = 300 * 1024 * 1024;

/** How many plants an owner with long lists has, each of the longest name and tag: a list of them is 2.5 MB. */
const PLANTS = SECONDS > 10 ? 1_000 : 200;

let http: HttpClient;
let token: string;
let greedy: string;
beforeEach(async () => {
  http = new HttpClient(await TestService.start());
  await http.service.ready();
  token = await http.token('somebody');
  await http.create({ name: 'n', tag: 't', id: 1 }, { token });
  greedy = await http.token('greedy', 'plants:read plants:write plants:audit');
  const long = '\u{1f335}'.repeat(100);
  for (let begin = 1; begin <= PLANTS; begin += 50)
    await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        http.create(
          { name: long, tag: long, id: begin + index },
          { token: greedy, headers: { prefer: 'respond-async' } },
        ),
      ),
    );
  await http.list('?limit=1000', { token: greedy });
});
afterEach(async () => {
  await http.finish();
});

const get = (path: string, bearer?: string): string =>
  [
    `GET ${path} HTTP/1.1`,
    'Host: here',
    ...(bearer === undefined ? [] : [`Authorization: Bearer ${bearer}`]),
    '',
    '',
  ].join('\r\n');

/** A client that sends, never reads, and comes back when it is cut. */
const unread = (bytes: string, stopped: AbortSignal): void => {
  if (stopped.aborted) return;
  const socket: Socket = connect(http.service.port, '127.0.0.1');
  socket.pause();
  socket
    .on('error', () => undefined)
    .on('close', () =>
      setTimeout(() => {
        unread(bytes, stopped);
      }, 100),
    );
  socket.write(bytes);
  stopped.addEventListener('abort', () => socket.destroy());
};

const memory = async (): Promise<number> =>
  samplesIn((await http.send({ path: '/metrics' })).text).get('process_resident_memory_bytes') ?? 0;

/** How long the slowest of a hundred of somebody's lists took, in milliseconds, over a while. */
const slowest = async (seconds: number): Promise<number> => {
  const times: number[] = [];
  for (const end = performance.now() + seconds * 1_000; performance.now() < end;) {
    const began = performance.now();
    const { status } = await http.list('', { token });
    if (status !== 200) throw new Error(`a list was answered ${status}`);
    times.push(performance.now() - began);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return times.sort((one, other) => one - other)[Math.floor(times.length * 0.99)] ?? 0;
};

const ATTACKS: Readonly<Record<string, () => readonly string[]>> = {
  "1,500 times the page's script": () => [get('/docs/swagger-ui-bundle.js').repeat(1_500)],
  '1,500 times the document': () => [get('/openapi.json').repeat(1_500)],
  '1,500 times the metrics': () => [get('/metrics').repeat(1_500)],
  "500 connections for the page's script": () => Array<string>(500).fill(get('/docs/swagger-ui-bundle.js')),
  '500 lists of other limits': () =>
    Array.from({ length: 500 }, (_, index) => get(`/plants?limit=${PLANTS - 199 + index}`, greedy)),
  'ten histories': () =>
    Array<string>(10).fill(
      get('/audit/events', greedy).replace('Host', 'Accept: application/x-ndjson\r\nHost'),
    ),
};

describe('a client that asks and does not read', () => {
  it.each(Object.entries(ATTACKS))(
    '%s',
    async (name, requests) => {
      await http.send({ path: '/docs' });
      const quiet = await slowest(SECONDS / 2);
      const stopping = new AbortController();
      for (const bytes of requests()) unread(bytes, stopping.signal);
      let most = 0;
      const watching = setInterval(() => void memory().then((now) => (most = Math.max(most, now))), 200);
      const during = await slowest(SECONDS);
      clearInterval(watching);
      most = Math.max(most, await memory());
      stopping.abort();
      if (SECONDS > 10)
        process.stdout.write(
          `${name}: ${Math.round(most / 1024 / 1024)} MB, lists ${during.toFixed(1)} ms beside ${quiet.toFixed(1)} ms\n`,
        );
      expect(most).toBeLessThan(MOST_MEMORY);
      // The first answers to 500 connections come at once; over a minute they are few.
      if (SECONDS > 10) expect(during).toBeLessThan(3 * quiet + 5);
    },
    (SECONDS * 3 + 60) * 1_000,
  );
});
