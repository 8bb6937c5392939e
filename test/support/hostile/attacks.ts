import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Sent } from '../http-client.js';
import { PLACES } from '../worst-texts.js';

export interface Target {
  readonly port: number;
  /** Of an owner who has PLANTS plants of the longest name and tag, and a plant BUSY_PLANT with a long history. */
  readonly token: string;
  /** Two more owners. */
  readonly others: readonly [string, string];
}

/** Plants of the owner with long lists: a list of all of them is 1.6 MB. */
export const PLANTS = 1_000;

/** The plant with a long history. */
export const BUSY_PLANT = 5_000;

/**
 * Bytes a second of one remote client: a line of 100 Mbit/s. Requests of 16 KB come at 780 a second at most; shorter
 * ones, and answers that are not read, are not slowed down by it.
 */
const UPLINK = 12_500_000;

/** When a client that was cut off comes back, in milliseconds. */
const AGAIN_MS = 100;

/** Every attack goes on until its process ends. */
export const ATTACKS = {
  "1,500 pipelined requests for the page's script, unread": ({ port }) => {
    unread(port, get('/docs/swagger-ui-bundle.js').repeat(1_500));
  },
  '1,500 pipelined requests for the API document, unread': ({ port }) => {
    unread(port, get('/openapi.json').repeat(1_500));
  },
  '1,500 pipelined requests for the metrics, unread': ({ port }) => {
    unread(port, get('/metrics').repeat(1_500));
  },
  "500 connections for the page's script, unread": ({ port }) => {
    for (let count = 0; count < 500; count += 1) unread(port, get('/docs/swagger-ui-bundle.js'));
  },
  '500 lists of distinct limits, unread': ({ port, token }) => {
    for (let count = 0; count < 500; count += 1) unread(port, get(`/plants?limit=${PLANTS - count}`, token));
  },
  'ten histories of all owners, unread': ({ port, token }) => {
    for (let count = 0; count < 10; count += 1) unread(port, get('/audit/events', token, LINES));
  },
  'histories of a plant with many events, unread': ({ port, token }) => {
    for (let count = 0; count < 10; count += 1)
      unread(port, get(`/plants/${BUSY_PLANT}/history`, token, LINES));
  },
  'histories of a plant with many events, in pages and in lines': ({ port, token }) => {
    const path = `/plants/${BUSY_PLANT}/history`;
    flood(port, 2, () => ({ path: `${path}?limit=1000`, token }));
    flood(port, 2, () => ({ path, token, headers: { accept: 'application/x-ndjson' } }));
  },
  'ten clients that write to a plant with many events': ({ port, token }) => {
    const body = JSON.stringify({ name: 'n', tag: 't', id: BUSY_PLANT });
    let sent = 0;
    flood(port, 10, () =>
      (sent += 1) % 2 === 0
        ? { method: 'POST', token, headers: { 'content-type': 'application/json' }, body }
        : { method: 'DELETE', path: `/plants/${BUSY_PLANT}`, token },
    );
  },
  'texts that are dear to read': ({ port, token }) => {
    const all = PLACES.flatMap(({ texts, request }) => texts.map((text) => request(text, token)));
    let sent = 0;
    flood(port, 8, () => all[(sent += 1) % all.length] ?? {});
  },
  'made-up tokens': ({ port }) => {
    let sent = 0;
    flood(port, 10, () => ({ token: madeUpToken((sent += 1)) }));
  },
  'bodies that are aborted': ({ port }) => {
    for (let count = 0; count < 20; count += 1) aborting(port);
  },
  'two owners who ask for the past without a pause': ({ port, others }) => {
    for (const token of others)
      flood(port, 4, () => ({ path: `/plants?asOf=${encodeURIComponent(new Date().toISOString())}`, token }));
  },
} satisfies Record<string, (target: Target) => void>;

export type AttackName = keyof typeof ATTACKS;

const LINES = 'application/x-ndjson';

const get = (path: string, token?: string, accept = '*/*'): string =>
  [
    `GET ${path} HTTP/1.1`,
    'Host: here',
    `Accept: ${accept}`,
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    '',
    '',
  ].join('\r\n');

/** Sends, never reads, and comes back when it is cut. */
const unread = (port: number, bytes: string): void => {
  const socket = connect(port, '127.0.0.1');
  socket.pause();
  socket
    .on('error', () => undefined)
    .on('close', () => {
      setTimeout(() => {
        unread(port, bytes);
      }, AGAIN_MS);
    });
  socket.write(bytes);
};

/** Requests on so many connections, on each the next one when an answer was read, as fast as UPLINK allows. */
const flood = (port: number, connections: number, next: () => Sent): void => {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  let due = performance.now();
  const run = async (): Promise<never> => {
    for (;;) {
      const sent = next();
      const now = performance.now();
      due = Math.max(due, now) + (bytesOf(sent) / UPLINK) * 1_000;
      if (due - now > 1) await delay(due - now);
      await exchange(agent, port, sent);
    }
  };
  for (let count = 0; count < connections; count += 1) void run();
};

const bytesOf = ({ path = '', headers = {}, body = '', token = '' }: Sent): number =>
  200 + path.length + token.length + Object.values(headers).join('').length + body.length;

/** Sends a request and reads its answer, of any status. */
const exchange = (
  agent: Agent,
  port: number,
  { method = 'GET', path = '/plants', token, headers, body }: Sent,
) =>
  new Promise<void>((resolve) => {
    const sent = request({
      agent,
      host: '127.0.0.1',
      port,
      method,
      path,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
        ...headers,
      },
    });
    sent
      .on('error', () => {
        setTimeout(resolve, 1);
      })
      .on('response', (response) =>
        response
          .resume()
          .on('end', resolve)
          .on('error', () => undefined),
      )
      .on('close', resolve)
      .end(body);
  });

/** A well-formed token, each of another key that the issuer does not have. */
const madeUpToken = (number: number): string => {
  const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = { sub: 'ada', iss: 'https://issuer.example', aud: 'plants', exp: 4_000_000_000 };
  return `${encoded({ alg: 'ES256', kid: `key ${number}` })}.${encoded(claims)}.${'A'.repeat(86)}`;
};

/** Announces a body, sends a part of it, and goes; again and again. */
const aborting = (port: number): void => {
  const socket = connect(port, '127.0.0.1');
  socket
    .on('error', () => undefined)
    .on('close', () => {
      setImmediate(() => {
        aborting(port);
      });
    });
  socket.write('POST /plants HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\n{"name":', () => {
    setTimeout(() => socket.resetAndDestroy(), 2);
  });
};
