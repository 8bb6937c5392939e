import { Agent, type IncomingHttpHeaders, request } from 'node:http';

type Headers = Readonly<Record<string, string>>;

export interface Sent {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly headers?: Headers;
  readonly body?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** One client with one connection of its own, which is kept; or with a new one for each request. */
export class Connection {
  readonly #agent: Agent | false;

  constructor({ kept = true } = {}) {
    this.#agent = kept && new Agent({ keepAlive: true, maxSockets: 1 });
  }

  /** Rejects with what went wrong where no whole answer came. */
  send(url: string, { method, path, headers = {}, body }: Sent): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request(new URL(path, url), { method, headers, agent: this.#agent }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => {
          resolve({
            status: answer.statusCode ?? 0,
            headers: answer.headers,
            body: Buffer.concat(chunks).toString('utf8'),
          });
        });
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }

  close(): void {
    if (this.#agent) this.#agent.destroy();
  }
}

/** An owner's plants, over one connection, by one token. */
export class PlantsClient {
  readonly #connection = new Connection();

  constructor(
    private readonly url: () => string,
    private readonly token: string,
  ) {}

  create(plant: Readonly<{ id: number; name: string; tag: string }>, headers: Headers = {}): Promise<Answer> {
    return this.post(JSON.stringify(plant), headers);
  }

  /** Posts a body as it is. */
  post(body: string, headers: Headers = {}): Promise<Answer> {
    return this.#send({
      method: 'POST',
      path: '/plants',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
    });
  }

  delete(id: number): Promise<Answer> {
    return this.#send({ method: 'DELETE', path: `/plants/${id}` });
  }

  /** `path` may be that of a `Link`. */
  list(path = '/plants?limit=1000', headers: Headers = {}): Promise<Answer> {
    return this.#send({ method: 'GET', path, headers });
  }

  close(): void {
    this.#connection.close();
  }

  #send(sent: Sent): Promise<Answer> {
    const headers = { ...sent.headers, authorization: `Bearer ${this.token}` };
    return this.#connection.send(this.url(), { ...sent, headers });
  }
}

/** The path and query that a reference in the answer to a request leads to (RFC 3986, section 5). */
export const resolved = (reference: unknown, path: string): string => {
  const { pathname, search } = new URL(String(reference), `http://here${path}`);
  return pathname + search;
};

/** Path of the page after the one at `path`, if there is one. */
export const nextPage = (
  { headers: { link } }: Pick<Answer, 'headers'>,
  path: string,
): string | undefined => {
  const next = /^<([^>]+)>; rel="next"$/.exec([link ?? ''].flat().join())?.[1];
  return next === undefined ? undefined : resolved(next, path);
};

/** The code of a problem document, or the whole body where it is none. */
export const codeOf = ({ body }: Answer): string => {
  try {
    return (JSON.parse(body) as { code?: string }).code ?? body;
  } catch {
    return body;
  }
};
