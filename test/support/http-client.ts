import { afterAll, afterEach, beforeAll, expect } from '@jest/globals';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { type ProblemCode, PROBLEMS } from '../../src/http/problem.js';
import { TestService } from './service.js';
import { until } from './waiting.js';

/** A request. What is left out is a good GET /plants without a token. */
export interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly token?: string | undefined;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Uint8Array;
  /** Without a Content-Length, in two pieces. */
  readonly chunked?: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface ProblemDocument {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly requestId: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
  readonly parts?: Readonly<Record<string, { readonly status: string }>>;
}

/** Digits of one length, whatever the log. */
export const POSITION = /^[0-9a-f]{16,}$/;

/** Required by RFC 6750 and RFC 9110. */
const HEADERS_OF_STATUS: Readonly<Record<number, [name: string, value: RegExp]>> = {
  401: ['www-authenticate', /^Bearer realm="plants"/],
  403: ['www-authenticate', /^Bearer realm="plants", error="insufficient_scope"/],
  405: ['allow', /^([A-Z]+(, [A-Z]+)*)?$/],
  429: ['retry-after', /^[1-9]\d*$/],
  503: ['retry-after', /^[1-9]\d*$/],
};

/** A client of a service: speaks HTTP as good clients do and as bad ones do, and keeps all that it is answered. */
export class HttpClient {
  readonly #agent = new Agent();
  readonly #tokens = new Map<string, string>();
  readonly #secrets = new Set<string>();
  readonly #answered: string[] = [];

  constructor(readonly service: TestService) {}

  /** A token, made once for each owner and scope. */
  async token(owner = 'ada', scope?: string): Promise<string> {
    const name = `${owner} ${scope ?? ''}`;
    const token = this.#tokens.get(name) ?? (await this.service.token(owner, scope));
    this.#tokens.set(name, token);
    return this.keepSecret(token);
  }

  /** Remembers that a token must be found nowhere; a JWT's signature alone would do harm enough. */
  keepSecret(token: string): string {
    const signature = token.split('.').at(-1) ?? '';
    if (signature.length > 20) this.#secrets.add(signature);
    return token;
  }

  async send({
    method = 'GET',
    path = '/plants',
    token,
    headers = {},
    body,
    chunked,
  }: Sent): Promise<Answer> {
    const sent = request({
      agent: this.#agent,
      host: '127.0.0.1',
      port: this.service.port,
      method,
      path,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined || chunked ? {} : { 'content-length': Buffer.byteLength(body) }),
        ...headers,
      },
    });
    const answer = new Promise<Answer>((resolve, reject) => {
      sent.on('error', reject).on('response', (response) => {
        const pieces: Buffer[] = [];
        response
          .on('error', reject)
          .on('data', (piece: Buffer) => pieces.push(piece))
          .on('end', () => {
            const bytes = Buffer.concat(pieces);
            const zipped = response.headers['content-encoding'] === 'gzip' && bytes.length > 0;
            const text = (zipped ? gunzipSync(bytes) : bytes).toString();
            this.#answered.push(`${response.rawHeaders.join('\n')}\n${text}`);
            resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
          });
      });
    });
    if (body !== undefined && chunked) sent.write(body.slice(0, 1));
    sent.end(chunked ? body?.slice(1) : body);
    return answer;
  }

  /** Adds a plant as a good client does. */
  async create(plant: unknown, sent: Sent = {}): Promise<Answer> {
    return this.send({
      method: 'POST',
      token: sent.token ?? (await this.token()),
      body: typeof plant === 'string' || plant instanceof Uint8Array ? plant : JSON.stringify(plant),
      ...sent,
      headers: { 'content-type': 'application/json', ...sent.headers },
    });
  }

  async list(query = '', sent: Sent = {}): Promise<Answer> {
    return this.send({ path: `/plants${query}`, ...sent, token: sent.token ?? (await this.token()) });
  }

  async delete(id: number | string, sent: Sent = {}): Promise<Answer> {
    return this.send({
      method: 'DELETE',
      path: `/plants/${id}`,
      ...sent,
      token: sent.token ?? (await this.token()),
    });
  }

  /** Asserts that an answer is this problem, and that nothing was written. */
  async refused(
    answering: Promise<Answer>,
    status: number,
    code: ProblemCode,
    pointers?: readonly string[],
  ): Promise<ProblemDocument> {
    const before = await this.service.eventCount();
    const answer = await answering;
    const problem = problemIn(answer, status, code, pointers);
    expect(await this.service.eventCount()).toBe(before);
    return problem;
  }

  /** Waits until a line of the log has these members, and gives it. */
  async logged(members: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>> {
    let line: Record<string, unknown> | undefined;
    await until(
      () => {
        line = this.service.logged.find((one) =>
          Object.entries(members).every(([name, value]) => one[name] === value),
        );
        return line !== undefined;
      },
      () => members,
    );
    return line ?? {};
  }

  /** Opens a connection to write bytes on as they are. */
  connect(): RawConnection {
    return new RawConnection(connect(this.service.port, '127.0.0.1'), (answered) =>
      this.#answered.push(answered),
    );
  }

  /** Sends bytes as they are, and gives every answer once the service has closed the connection. */
  async exchange(...pieces: (string | Uint8Array)[]): Promise<Answer[]> {
    const connection = this.connect();
    for (const piece of pieces) connection.write(piece);
    return connection.closed;
  }

  /** Ends and removes the service, which must not have given any token away. */
  async finish(): Promise<void> {
    try {
      if (this.#secrets.size > 0 && this.#answered.length > 0) this.expectNoSecrets();
    } finally {
      await this.service.remove();
    }
  }

  /** Asserts that no token has come back in an answer, in the log or on standard error. */
  expectNoSecrets(): void {
    const said = [this.service.stderr, JSON.stringify(this.service.logged), ...this.#answered].join('\n');
    expect(this.#secrets.size).toBeGreaterThan(0);
    expect(this.#answered.length).toBeGreaterThan(0);
    const words = said.match(/[\w-]{21,}/g)?.join(' ') ?? ''; // of the characters of a signature, and long enough
    expect([...this.#secrets].filter((secret) => words.includes(secret))).toEqual([]);
  }
}

/** A client of a service for the tests of a block: ready before them, removed after them, as `finish` does. */
export const served = (settings: Readonly<Record<string, string>> = {}): HttpClient => {
  const http = new HttpClient(TestService.of(settings));
  beforeAll(async () => {
    await http.service.start();
    await http.service.ready();
  });
  afterAll(() => http.finish());
  return http;
};

const clientsOfThisTest: HttpClient[] = [];
afterEach(async () => {
  for (const http of clientsOfThisTest.splice(0).reverse()) await http.finish();
});

/** A client of a service that goes with the test that has started it. */
export const ofThisTest = (service: TestService): HttpClient => {
  const http = new HttpClient(service);
  clientsOfThisTest.push(http);
  return http;
};

/** A connection for what HTTP clients refuse to send. */
export class RawConnection {
  /** Every answer of the connection, once the service has closed it. */
  readonly closed: Promise<Answer[]>;
  #received = '';

  constructor(
    private readonly socket: Socket,
    keep: (answered: string) => void,
  ) {
    this.closed = new Promise((resolve) => {
      socket
        .setEncoding('latin1')
        .on('data', (text: string) => (this.#received += text))
        .on('error', () => undefined) // a reset is a way to close
        .on('close', () => {
          keep(this.#received);
          resolve(answersIn(this.#received));
        });
    });
  }

  get answers(): Answer[] {
    return answersIn(this.#received);
  }

  write(bytes: string | Uint8Array): void {
    this.socket.write(bytes);
  }

  /** Says that no more will come, and goes on reading. */
  end(): void {
    this.socket.end();
  }

  /** Cuts the connection. */
  cut(): void {
    this.socket.destroy();
  }

  /** Waits until so many whole answers have come. */
  async answered(count: number): Promise<Answer[]> {
    while (this.answers.length < count)
      await new Promise((resolve) => this.socket.once('data', resolve).once('close', resolve));
    return this.answers;
  }
}

/** The answers in the bytes of a connection, one character each. */
const answersIn = (received: string): Answer[] => {
  const answers: Answer[] = [];
  for (let rest = received; rest !== '';) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) break;
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 2),
      ]),
    );
    const length = Number(headers['content-length'] ?? 0);
    const body = rest.slice(end + 4, end + 4 + length);
    if (body.length < length) break;
    answers.push({
      status: Number(statusLine.split(' ')[1]),
      headers,
      text: Buffer.from(body, 'latin1').toString(),
    });
    rest = rest.slice(end + 4 + length);
  }
  return answers;
};

/** The problem document in an answer. Asserts that it is one, in every part (RFC 9457). */
export const problemIn = (
  { status, headers, text }: Answer,
  expectedStatus: number,
  code: ProblemCode,
  pointers?: readonly string[],
): ProblemDocument => {
  expect(`${status} ${text}`).toMatch(new RegExp(`^${expectedStatus} .*"code":"${code}"`, 's'));
  expect(headers['content-type']).toBe('application/problem+json; charset=utf-8');
  expect(headers['cache-control']).toBe('no-store');
  const { parts, ...problem } = JSON.parse(text) as ProblemDocument;
  expect(problem).toEqual({
    type: expect.stringMatching(new RegExp(`^(/|(\\.\\./)*)docs/problems#${code}$`)),
    title: PROBLEMS[code].title,
    status: expectedStatus,

    detail: expect.stringMatching(/^\S.{8,}[.?]$/s),
    code,
    requestId: headers['x-request-id'],

    ...(problem.errors ? { errors: expect.any(Array) } : {}),
  });
  expect(problem.errors?.map(({ pointer }) => pointer)).toEqual(pointers);
  for (const { detail } of problem.errors ?? []) expect(detail).toMatch(/^(must|is|there) .{4,}/);
  const [name, value] = HEADERS_OF_STATUS[expectedStatus] ?? ['content-type', /./];
  expect(headers[name]).toMatch(value);
  return parts ? { ...problem, parts } : problem;
};
