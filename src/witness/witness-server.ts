import { hash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { WitnessStoreUnavailable } from './witness-store.js';
import { type Witness, type WitnessAnswer } from './witness.js';

/** The longest body of a request, in bytes: a checkpoint with 16 signatures, the longest of them of 5 kB, and its proof. */
const MAX_BODY = 128 * 1024;

/** Connections at a time. More are closed at once; each may hold MAX_BODY in memory. */
const MAX_CONNECTIONS = 500;

/** Limits for a client's request, and for its headers: a request is a few kB. */
const REQUEST_MS = 10_000;
const HEADERS_MS = 5_000;

/** Lifetime of an idle connection: a log submits a checkpoint a second, or one an hour. */
const KEEP_ALIVE_MS = 15_000;

/** Limit for requests in progress at a stop. */
const STOP_MS = 3_000;

/** A witness that listens. */
export interface ListeningWitness {
  readonly url: string;
  stop(): Promise<void>;
}

/** Takes reports on its requests, one line each. */
export interface WitnessReport {
  readonly onFound: (message: string) => void;
  readonly onError: (message: string) => void;
}

/** Serves a witness over HTTP. Rejects with the error of the socket where it cannot listen. */
export const serveWitness = async (
  witness: Witness,
  { host, port }: { readonly host: string; readonly port: number },
  report: WitnessReport,
): Promise<ListeningWitness> => {
  const server = createServer(
    {
      requestTimeout: REQUEST_MS,
      headersTimeout: HEADERS_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Milliseconds between two checks of both timeouts.
      connectionsCheckingInterval: 1_000,
    },
    (request, response) => {
      void serve(witness, request, response, report);
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve);
  });
  const { address, family, port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`,
    stop: () => stop(server),
  };
};

const stop = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    const impatient = setTimeout(() => {
      server.closeAllConnections();
    }, STOP_MS);
    server.close(() => {
      clearTimeout(impatient);
      resolve();
    });
    server.closeIdleConnections();
  });

const serve = async (
  witness: Witness,
  request: IncomingMessage,
  response: ServerResponse,
  report: WitnessReport,
): Promise<void> => {
  try {
    const answer = await answerTo(witness, request);
    if (!answer) return; // the client has gone
    if (answer.found !== undefined) report.onFound(answer.found);
    send(response, answer, request);
  } catch (error) {
    const known = error instanceof WitnessStoreUnavailable;
    report.onError(known ? error.message : ((error as Error).stack ?? String(error)));
    send(response, plain(known ? 503 : 500, 'the witness cannot answer now'), request);
  }
};

/** The answer to a request; undefined where its client has gone. */
const answerTo = async (witness: Witness, request: IncomingMessage): Promise<WitnessAnswer | undefined> => {
  const { method = '', url = '' } = request;
  const [, originHash] = /^\/([0-9a-f]{64})\/checkpoint$/.exec(url) ?? [];
  if (originHash !== undefined)
    return method === 'GET' || method === 'HEAD'
      ? witness.checkpoint(originHash, (origin) => hash('sha256', origin))
      : plain(405, 'a checkpoint is read with GET');
  if (url !== '/add-checkpoint') return plain(404, 'there are /add-checkpoint and /<origin hash>/checkpoint');
  if (method !== 'POST') return plain(405, 'a checkpoint is sent with POST');
  const body = await bodyOf(request);
  if (body === 'gone') return undefined;
  if (body === 'too long') return plain(413, `a request has at most ${MAX_BODY} bytes`);
  return witness.addCheckpoint(body);
};

/** The body of a request, read no further than MAX_BODY. */
const bodyOf = async (request: IncomingMessage): Promise<Uint8Array | 'gone' | 'too long'> => {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY) return 'too long';
  const parts: Buffer[] = [];
  let length = 0;
  try {
    for await (const part of request) {
      length += (part as Buffer).length;
      if (length > MAX_BODY) return 'too long';
      parts.push(part as Buffer);
    }
  } catch {
    return 'gone';
  }
  return Buffer.concat(parts);
};

const plain = (status: number, reason: string): WitnessAnswer => ({
  status,
  type: 'text/plain; charset=utf-8',
  body: `${reason}\n`,
});

/** Sends an answer. A request that was not read to its end is not waited for: its connection closes. */
const send = (
  response: ServerResponse,
  { status, type, body }: WitnessAnswer,
  request: IncomingMessage,
): void => {
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(request.complete ? {} : { connection: 'close' }),
    ...(status === 405 ? { allow: request.url === '/add-checkpoint' ? 'POST' : 'GET, HEAD' } : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
};
