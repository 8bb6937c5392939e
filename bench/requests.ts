import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type Agent, type IncomingMessage, request as send } from 'node:http';
import { text } from 'node:stream/consumers';
import { plantOf } from './filled.js';

/** One request of a load that is not wrk's. */
interface LoadRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
}

/** The lines of a file of authorizations. */
export const linesOf = (file: string): string[] => readFileSync(file, 'utf8').trim().split('\n');

/** The request that adds a plant. */
export const creation = (id: number, authorization: string): LoadRequest => ({
  method: 'POST',
  path: '/plants',
  headers: { authorization, 'content-type': 'application/json' },
  body: JSON.stringify(plantOf(id)),
});

export const LIST_OF_20 = '/plants?limit=20';

export const listing = (authorization: string): LoadRequest => ({
  method: 'GET',
  path: LIST_OF_20,
  headers: { authorization },
});

/** Sends a request by node:http, which takes less processor time than fetch. Rejects where there is no answer. */
export const answerTo = async (
  { method, path, headers, body }: LoadRequest,
  url: string,
  agent: Agent,
): Promise<{ readonly status: number; readonly body: string }> => {
  const sent = send(`${url}${path}`, { agent, method, headers }).end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode ?? 0, body: await text(answer) };
};
