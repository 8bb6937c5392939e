import { type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { scopeMissing } from '../auth/auth-error.js';
import { credentialsOf, failures } from '../auth/bearer.guard.js';
import { type TokenVerifier } from '../auth/verify.js';
import { requestIdOf } from '../correlation.js';
import { inPieces, PIECE } from '../large-answers.js';
import { messageFault } from '../message.js';
import { plantRoutes } from '../plants/plant-routes.js';
import { type ResponseObserver } from '../request-log.js';
import { tooMuch } from '../response-backpressure.js';
import { readerOf } from '../route.js';
import { EVERY_ANSWER } from '../server.js';
import { type ListAnswer, type ListAnswers } from './list-answer.js';

/** The target of a list: not much longer than all of its parameters together. */
const TARGET = /^\/plants(?:\?.{0,200})?$/;

/** The first header fields of each answer, names and values in turn, up to the value of the last one. */
const ALWAYS = [...Object.entries(EVERY_ANSWER).flat(), 'x-request-id'];

const { method: METHOD, path: PATH, scope: SCOPE } = plantRoutes.listPlants;

const read = readerOf(plantRoutes.listPlants);

/** The parts of the service that the fast path uses. */
export interface FastLists {
  readonly verifier: TokenVerifier;
  /** False where strangers are limited, which Fastify's hook does. */
  readonly verifiesNewTokens: boolean;
  readonly lists: ListAnswers;
  /** True if pages of other origins may use the API: answers to them have further header fields. */
  readonly crossOrigin: boolean;
  readonly onAnswered: ResponseObserver;
  /** Called with an unexpected error, after which the connection is cut. Must not throw. */
  readonly onError: (error: unknown) => void;
  readonly admits: (response: ServerResponse, bytes: number) => boolean;
}

/**
 * Answers lists before Fastify and Nest, which take half the time of such a request where its token was verified before
 * (docs/performance.md). What cannot be answered 200 or 304 goes to them with what it has failed with; requests that are
 * unusual, and those without a token, go to them as they are: `PlantsController.list` answers these.
 */
export const answerListsFast = (
  server: Server,
  { verifier, verifiesNewTokens, lists, crossOrigin, admits, onAnswered, onError }: FastLists,
): void => {
  // Fastify's.
  const [fastify] = server.listeners('request') as RequestListener[];
  if (!fastify) throw new Error('the server has no listener yet');

  /** Never rejects. */
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const began = performance.now();
    const { url = '', headers } = request;
    let found: Partial<ListAnswer> = {};
    let owner: string | undefined;
    try {
      const { token, known } = credentialsOf(request, verifier);
      const principal = known ?? (verifiesNewTokens ? await verifier.verify(token) : undefined);
      if (!principal) {
        fastify(request, response);
        return;
      }
      ({ owner } = principal);
      if (!principal.scopes.has(SCOPE)) throw scopeMissing([SCOPE]);
      found = await lists.answer(owner, read({ url, headers, params: {}, body: undefined }), response);
      if (!admits(response, found.body?.length ?? 0)) throw tooMuch();
    } catch (error) {
      if (!response.destroyed) {
        failures.set(request, error);
        fastify(request, response);
        return;
      }
    }
    try {
      const { status = 200, fields = [], body = '' } = found;
      const id = requestIdOf(request);
      response.writeHead(status, [...ALWAYS, id, ...fields]);
      if (body.length <= PIECE) response.end(body);
      // A client that breaks off is no error.
      else await pipeline(inPieces(body), response).catch(() => undefined);
      const seconds = (performance.now() - began) / 1_000;
      const aborted = response.destroyed && !response.writableFinished;
      onAnswered(
        { method: METHOD, route: PATH, status, seconds, problem: undefined, ...(aborted && { aborted }) },
        { id, headers, url: PATH, raw: request },
        owner,
      );
    } catch (error) {
      response.destroy(); // a part of an answer may have been written
      onError(error);
    }
  };

  server.off('request', fastify);
  server.prependListener('request', (request, response) => {
    const { method, url = '', headers } = request;
    const foreign = crossOrigin && headers.origin !== undefined;
    if (method === METHOD && TARGET.test(url) && !foreign && !messageFault(request))
      void answer(request, response);
    else fastify(request, response);
  });
};
