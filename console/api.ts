/** Requests to the service's API: the same that scripts use, and nothing else. */
import { signal } from '@preact/signals';
import { ApiProblem, problemOf, Unreachable } from './problem.js';
import { API_ROOT, type Query } from './router.js';
import { endSession, session } from './session.js';

/** Limit of one try: a list of the past takes 55 s at most. */
const TRY_MS = 60_000;

/** Time for all tries of a request that can be sent again. */
const PATIENCE_MS = 30_000;

/** Pauses between tries where the service names none, in milliseconds. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000];

/** Answers that say: not now. */
const NOT_NOW: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** True if the last request reached the service; a browser's own opinion (`navigator.onLine`) is only a hint. */
export const reachable = signal(true);

/** Why a request is being tried again, in the words of the service; undefined when none is. */
export const waitingFor = signal<string | undefined>(undefined);

/** Position of the newest write of this session: a list that is sent this is at least as fresh, or 503. */
export const position = signal<string | undefined>(undefined);

/** Takes note of a position. All have the same width, and their order as texts is that of the log. */
export const reached = (next: string | null | undefined): void => {
  if (next && !(position.peek() && next <= (position.peek() ?? ''))) position.value = next;
};

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
  /** Makes a write safe to be sent again, as this does where its outcome is not known. */
  readonly idempotencyKey?: string;
}

/** A new key for `Idempotency-Key`. crypto.randomUUID is not there on pages without TLS. */
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );

/** The address of a part of the API, such as `plants`. */
export const addressOf = (path: string, query: Query = {}): string => {
  const url = new URL(path.replace(/^\//, ''), API_ROOT);
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') url.searchParams.set(name, String(value));
  return url.href;
};

/** The header fields that every request has. Throws where nobody is signed in. */
const fieldsOf = ({ headers, body, idempotencyKey }: RequestOptions): Record<string, string> => {
  const { token } = session.peek() ?? {};
  if (token === undefined) throw new DOMException('Signed out.', 'AbortError');
  return {
    authorization: `Bearer ${token}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    ...headers,
  };
};

/**
 * One try of a request. Resolves with an answer of success; its body is still to be read. Throws ApiProblem for any
 * other, Unreachable where there is none, and what `signal` was aborted with.
 */
export const sendOnce = async (path: string, options: RequestOptions = {}): Promise<Response> => {
  const { method = 'GET', query, body, signal: given } = options;
  const headers = fieldsOf(options);
  const sentWith = session.peek();
  let response: Response;
  try {
    response = await fetch(addressOf(path, query), {
      ...{ method, headers, credentials: 'omit', cache: 'no-store', redirect: 'error' },
      ...(body !== undefined && { body }),
      ...(given && { signal: given }),
    });
  } catch {
    given?.throwIfAborted();
    reachable.value = false;
    throw new Unreachable();
  }
  reachable.value = true;
  if (response.ok) return response;
  const problem = await problemOf(response);
  // Another token may have come meanwhile.
  if (response.status === 401 && session.peek() === sentWith) endSession(problem.message);
  throw problem;
};

/**
 * Sends a request, and again where that is safe (a read, or a write with a key) and the service says that it cannot now,
 * or cannot be reached, for 30 s. Throws as `sendOnce` does.
 */
export const send = async (path: string, options: RequestOptions = {}): Promise<Response> => {
  const { method = 'GET', idempotencyKey, signal: given } = options;
  const safe = method === 'GET' || idempotencyKey !== undefined;
  const end = Date.now() + PATIENCE_MS;
  for (let tries = 0; ; tries += 1)
    try {
      const limit = AbortSignal.timeout(TRY_MS);
      const response = await sendOnce(path, {
        ...options,
        signal: given ? AbortSignal.any([given, limit]) : limit,
      });
      waitingFor.value = undefined;
      if (method !== 'GET') reached(response.headers.get('plants-position'));
      return response;
    } catch (error) {
      const pause = pauseAfter(error, tries);
      if (!safe || pause === undefined || Date.now() + pause > end) {
        waitingFor.value = undefined;
        throw error;
      }
      waitingFor.value = error instanceof ApiProblem ? error.title : 'The service cannot be reached';
      await sleep(pause, given);
    }
};

/** Milliseconds before the next try; undefined where there is to be none. */
const pauseAfter = (error: unknown, tries: number): number | undefined => {
  const usual = PAUSES_MS[Math.min(tries, PAUSES_MS.length - 1)] ?? 4_000;
  if (error instanceof Unreachable) return usual;
  if (error instanceof ApiProblem && NOT_NOW.has(error.status)) return error.retryAfterMs ?? usual;
  return undefined;
};

/** Resolves after some time, or at once when the network is back. Throws what `until` is aborted with. */
export const sleep = (ms: number, until?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const finish = (act: () => void) => (): void => {
      clearTimeout(timer);
      removeEventListener('online', done);
      until?.removeEventListener('abort', stop);
      act();
    };
    const done = finish(resolve);
    const stop = finish(() => {
      reject(until?.reason as Error);
    });
    const timer = setTimeout(done, ms);
    addEventListener('online', done);
    until?.addEventListener('abort', stop);
    if (until?.aborted) stop();
  });

/** The body of an answer, as JSON of the type that its documentation says. */
export const json = async <T>(path: string, options?: RequestOptions): Promise<T> =>
  (await send(path, options)).json() as Promise<T>;

/** The parameters of the next page, from `Link` (RFC 8288); undefined on the last one. */
export const nextPage = (response: Response): URLSearchParams | undefined => {
  const link = /<([^>]*)>\s*;\s*rel="?next"?/.exec(response.headers.get('link') ?? '')?.[1];
  return link === undefined ? undefined : new URL(link, API_ROOT).searchParams;
};

/** Follows what browsers say of the network. */
export const watchNetwork = (): void => {
  addEventListener('offline', () => {
    reachable.value = false;
  });
  addEventListener('online', () => {
    reachable.value = true; // as it is said: the next request shows it
  });
};
