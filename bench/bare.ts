/**
 * The limit of lists: a bare node:http server, which asks a service once for what it is to answer, reads each request
 * whole, and answers the same bytes. It neither checks a token nor reads a parameter.
 */
import { createServer } from 'node:http';
import { fetched } from './processes.js';

/** One of the lists that this server fetches once and then answers. */
export interface Asked {
  readonly path: string;
  readonly authorization: string;
}

/** Every node:http server sends these itself. */
const OF_ANY_SERVER = ['connection', 'keep-alive', 'date', 'transfer-encoding'];

const { PORT, SERVICE = '', ASKED = '[]' } = process.env;

const answers = new Map<string | undefined, { headers: Record<string, string>; body: string }>();
for (const { path, authorization } of JSON.parse(ASKED) as Asked[]) {
  // The load generators accept no compression either.
  const headers = { authorization, 'accept-encoding': 'identity' };
  const answer = await fetched(`${SERVICE}${path}`, { headers });
  const body = await answer.text();
  const sent = [...answer.headers].filter(([name]) => !OF_ANY_SERVER.includes(name));
  answers.set(path, { headers: Object.fromEntries(sent), body });
}

createServer({ keepAliveTimeout: 65_000 }, (request, response) => {
  request.resume();
  request.on('end', () => {
    const { headers, body } = answers.get(request.url) ?? { headers: {}, body: '' };
    response.writeHead(200, headers).end(body);
  });
}).listen(Number(PORT), '127.0.0.1');
