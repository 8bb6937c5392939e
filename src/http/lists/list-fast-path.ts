import { type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type ListPlantsHandler, LONG_LIST } from '../../read/list-plants.js';
import { type OnAnswered } from '../request-log.js';
import { type Principal } from '../auth/principal.js';
import { type TokenVerifier } from '../auth/verify.js';
import { requestIdOf } from '../correlation.js';
import { listAnswer, POSITION } from './list-answer.js';
import { isPlainHost } from '../message.js';
import { isNamed } from '../representation.js';
import { countHeader, plainlyAcceptsJson } from '../requests.js';
import { EVERY_ANSWER } from '../server.js';
import { DEFAULT_LIMIT } from '../schemas.js';

/** The first page of a list, as nearly every client asks for it. */
const FIRST_PAGE = /^\/plants(?:\?limit=([1-9]\d{0,3}))?$/;

/** Header fields as `writeHead` is quickest to take them, up to the value of the last one. */
const ALWAYS = [...Object.entries(EVERY_ANSWER).flat(), 'x-request-id'];

const BEARER = 'Bearer ';

/** What the fast path needs of the service. */
export interface FastLists {
  readonly verifier: TokenVerifier;
  readonly lists: ListPlantsHandler;
  /** Whether pages of other origins may use the API: an answer to one has further header fields. */
  readonly crossOrigin: boolean;
  readonly onAnswered: OnAnswered;
  /** Called with what nobody thought of: the connection of that request was cut. Must not throw. */
  readonly onError: (error: unknown) => void;
  /** Whether an answer of so many bytes may be sent now. */
  readonly admits: (response: ServerResponse, bytes: number) => boolean;
}

interface Asked {
  readonly owner: string;
  readonly limit: number;
}

/**
 * Answers the lists that most clients ask for most of the time, the first page for a token that is known, before
 * Fastify and Nest: they would take twice as long as everything else about such a list (docs/performance.md).
 * Whatever is not exactly that, or is not good news, goes the long way as if this were not here.
 */
export const answerListsFast = (
  server: Server,
  { verifier, lists, crossOrigin, admits, onAnswered, onError }: FastLists,
): void => {
  // The one that the server was made with.
  const [longWay] = server.listeners('request') as RequestListener[];
  if (!longWay) throw new Error('the server has no listener yet');

  /** Never rejects. */
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    { owner, limit }: Asked,
  ): Promise<void> => {
    const began = performance.now();
    try {
      // An error is found again on the long way, which can tell it.
      const page = await lists.atOnce(owner, limit).catch(() => undefined);
      if (!page) {
        longWay(request, response);
        return;
      }
      const { fields, unchanged, body, encoding, etag } = listAnswer(page, limit);
      if (!admits(response, body.length)) {
        longWay(request, response);
        return;
      }
      const id = requestIdOf(request);
      const status = isNamed(request.headers['if-none-match'], etag) ? 304 : 200;
      if (status === 304) response.writeHead(status, [...ALWAYS, id, ...unchanged]).end();
      else response.writeHead(status, [...ALWAYS, id, ...fields]).end(body, encoding);
      const seconds = (performance.now() - began) / 1_000;
      onAnswered(
        { method: 'GET', route: '/plants', status, seconds, problem: undefined },
        { id, headers: request.headers, url: '/plants', raw: request },
        owner,
      );
    } catch (error) {
      response.destroy(); // nobody knows how much of an answer was written
      onError(error);
    }
  };

  server.off('request', longWay);
  server.prependListener('request', (request, response) => {
    const asked =
      crossOrigin && request.headers.origin !== undefined ? undefined : askedBy(request, verifier);
    if (asked) void answer(request, response, asked);
    else longWay(request, response);
  });
};

/** Which list is asked for, where that is all that there is to know about a request. */
const askedBy = (request: IncomingMessage, verifier: TokenVerifier): Asked | undefined => {
  const { method, url = '' } = request;
  if (method !== 'GET' || request.httpVersion !== '1.1') return undefined;
  const path = FIRST_PAGE.exec(url);
  if (!path || !isPlain(request)) return undefined;
  const limit = path[1] === undefined ? DEFAULT_LIMIT : Number(path[1]);
  if (limit > LONG_LIST) return undefined; // as many may be read at once as `LongLists` allows
  const principal = principalOf(request, verifier);
  if (!principal?.scopes.has('plants:read')) return undefined;
  return { owner: principal.owner, limit };
};

/** Whether nothing but the token makes this request another one than the next. */
const isPlain = ({ headers, rawHeaders }: IncomingMessage): boolean =>
  isPlainHost(headers.host) &&
  countHeader(rawHeaders, 'host') === 1 &&
  countHeader(rawHeaders, 'authorization') === 1 &&
  plainlyAcceptsJson(headers.accept) &&
  headers[POSITION] === undefined &&
  headers['content-type'] === undefined &&
  headers['content-length'] === undefined &&
  headers['transfer-encoding'] === undefined &&
  headers.expect === undefined;

/** Who asks, where the token was verified before and holds. */
const principalOf = (
  { headers: { authorization } }: IncomingMessage,
  verifier: TokenVerifier,
): Principal | undefined =>
  authorization?.startsWith(BEARER) ? verifier.known(authorization.slice(BEARER.length)) : undefined;
