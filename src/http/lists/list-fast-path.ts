import { type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type ListPlantsHandler, LONG_LIST } from '../../lists/list-plants.js';
import { type ResponseObserver } from '../request-log.js';
import { type Principal } from '../auth/principal.js';
import { type TokenVerifier } from '../auth/verify.js';
import { requestIdOf } from '../correlation.js';
import { POSITION, shortListAnswer } from './list-answer.js';
import { isPlainHost } from '../message.js';
import { countHeader, plainlyAcceptsJson } from '../requests.js';
import { EVERY_ANSWER } from '../server.js';
import { DEFAULT_LIMIT } from '../schemas.js';

/** The target of the first page of a list. */
const FIRST_PAGE = /^\/plants(?:\?limit=([1-9]\d{0,3}))?$/;

/** The first header fields of each answer, names and values in turn, up to the value of the last one. */
const ALWAYS = [...Object.entries(EVERY_ANSWER).flat(), 'x-request-id'];

const BEARER = 'Bearer ';

/** The parts of the service that the fast path uses. */
export interface FastLists {
  readonly verifier: TokenVerifier;
  /** False where strangers are limited, which Fastify's hook does. */
  readonly verifiesNewTokens: boolean;
  readonly lists: ListPlantsHandler;
  /** True if pages of other origins may use the API: answers to them have further header fields. */
  readonly crossOrigin: boolean;
  readonly onAnswered: ResponseObserver;
  /** Called with an unexpected error, after which the connection is cut. Must not throw. */
  readonly onError: (error: unknown) => void;
  readonly admits: (response: ServerResponse, bytes: number) => boolean;
}

interface ListRequest {
  readonly token: string;
  readonly limit: number;
}

/**
 * Answers the first page of a list before Fastify and Nest, which take half the time of such a request where its token
 * was verified before (docs/performance.md). Any other request, and each that cannot be answered 200 or 304 at once, goes to them
 * unchanged; `PlantsController.list` is the other door to the same core (`ListPlantsHandler`, `shortListAnswer`).
 */
export const answerListsFast = (
  server: Server,
  { verifier, verifiesNewTokens, lists, crossOrigin, admits, onAnswered, onError }: FastLists,
): void => {
  // Fastify's.
  const [fastify] = server.listeners('request') as RequestListener[];
  if (!fastify) throw new Error('the server has no listener yet');

  /** Never rejects. */
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    { token, limit }: ListRequest,
    known: Principal | undefined,
  ): Promise<void> => {
    const began = performance.now();
    try {
      // The guard meets a refusal again, and answers it.
      const principal = known ?? (await verifier.verifyFor(request, token).catch(() => undefined));
      if (!principal?.scopes.has('plants:read')) {
        fastify(request, response);
        return;
      }
      const { owner } = principal;
      // The controller meets an error again, and answers it.
      const page = await lists.atOnce(owner, limit).catch(() => undefined);
      if (!page) {
        fastify(request, response);
        return;
      }
      const { status, fields, body } = shortListAnswer(page, limit, request.headers['if-none-match']);
      if (!admits(response, body.length)) {
        fastify(request, response);
        return;
      }
      const id = requestIdOf(request);
      response.writeHead(status, [...ALWAYS, id, ...fields]).end(body);
      const seconds = (performance.now() - began) / 1_000;
      onAnswered(
        { method: 'GET', route: '/plants', status, seconds, problem: undefined },
        { id, headers: request.headers, url: '/plants', raw: request },
        owner,
      );
    } catch (error) {
      response.destroy(); // a part of an answer may have been written
      onError(error);
    }
  };

  server.off('request', fastify);
  server.prependListener('request', (request, response) => {
    const asked = crossOrigin && request.headers.origin !== undefined ? undefined : listRequestOf(request);
    const known = asked && verifier.known(asked.token);
    if (asked && (known || verifiesNewTokens)) void answer(request, response, asked, known);
    else fastify(request, response);
  });
};

/** The list that a request is for; undefined for a request that the controller must answer. */
const listRequestOf = (request: IncomingMessage): ListRequest | undefined => {
  const { method, url = '' } = request;
  if (method !== 'GET' || request.httpVersion !== '1.1') return undefined;
  const path = FIRST_PAGE.exec(url);
  if (!path || !isPlain(request)) return undefined;
  const limit = path[1] === undefined ? DEFAULT_LIMIT : Number(path[1]);
  if (limit > LONG_LIST) return undefined; // `LongLists` bounds how many are read at once
  const { authorization } = request.headers;
  return authorization?.startsWith(BEARER) ? { token: authorization.slice(BEARER.length), limit } : undefined;
};

/** True if no header field but the token and If-None-Match changes the answer. */
const isPlain = ({ headers, rawHeaders }: IncomingMessage): boolean =>
  isPlainHost(headers.host) &&
  countHeader(rawHeaders, 'host') === 1 &&
  countHeader(rawHeaders, 'authorization') === 1 &&
  plainlyAcceptsJson(headers.accept) &&
  headers[POSITION] === undefined &&
  headers.prefer === undefined &&
  headers['content-type'] === undefined &&
  headers['content-length'] === undefined &&
  headers['transfer-encoding'] === undefined &&
  headers.expect === undefined;
