import { randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { type ReadableStream } from 'node:stream/web';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { pause } from '../runtime/pause.js';
import { type CopiedLog, type KeepBackup } from '../log/backup.js';
import { type Alarm } from '../audit/tree-store.js';
import { OperationRefused, RebuildNotUnderWay } from '../commands/rebuilds.js';
import { type ErasureStatus } from './erasure-status.js';
import { type LongOperation, longOperation, type OperationProgress } from './long-operation.js';
import { type Operations, type RebuildEstimate, ServiceRefused, ServiceUnreachable } from './operations.js';
import { type PastOperation } from './past-operations.js';
import { type Place, type SkipRequest, type UnreadEvent } from './skip-unread.js';
import { type SystemStatus } from './system-status.js';
import { type Verification } from './verification.js';

/** The number of tries of a request whose connection fails, and the pause before the next one, in milliseconds. */
const TRIES = 3;
const TRY_AGAIN_MS = 500;

/** The form of a request. */
interface Asked {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly body?: unknown;
  readonly accept?: string;
  readonly signal?: AbortSignal;
}

/** Asks for operations over HTTP. A request is repeated where its connection fails: each carries an Idempotency-Key. */
export class RemoteOperations implements Operations {
  constructor(
    /** Of the service, as it is listening or behind a proxy. */
    private readonly url: string,
    /** A bearer token for each request. */
    private readonly token: () => Promise<string>,
    /** Keeps a backup that is downloaded. */
    private readonly keep: KeepBackup,
  ) {}

  status(): Promise<SystemStatus> {
    return this.#json('operations/status');
  }

  async past(limit: number, before?: string) {
    const response = await this.#ask(
      `operations?limit=${limit}${before === undefined ? '' : `&before=${before}`}`,
    );
    const operations = await this.#parsed<readonly PastOperation[]>(response);
    return { operations, more: response.headers.has('link') };
  }

  estimate(rate: number | null, signal: AbortSignal): LongOperation<RebuildEstimate> {
    return this.#follow('operations/estimates', rate === null ? {} : { rate }, signal);
  }

  async rebuild({ rate, unskip }: Readonly<{ rate: number | null; unskip: boolean }>): Promise<string> {
    const body = { ...(rate !== null && { rate }), unskip };
    return (await this.#post<{ rebuild: string }>('operations/rebuilds', body)).rebuild;
  }

  async cancel(rebuild?: string): Promise<string> {
    const id = rebuild ?? (await this.status()).rebuild?.rebuild;
    if (id === undefined) throw new RebuildNotUnderWay('no rebuild is running');
    await this.#ask(`operations/rebuilds/${encodeURIComponent(id)}`, { method: 'DELETE' });
    return id;
  }

  async rollback(reason: string): Promise<string> {
    return (await this.#post<{ rebuild: string }>('operations/rollback', { reason })).rebuild;
  }

  verify(signal: AbortSignal): LongOperation<Verification> {
    return this.#follow('operations/verifications', undefined, signal);
  }

  unread(position: string): Promise<UnreadEvent> {
    return this.#json(`operations/skips/${encodeURIComponent(position)}`);
  }

  skip({ position, reason, force }: SkipRequest): Promise<Place> {
    return this.#post('operations/skips', { position, reason, force });
  }

  async countOwned(owner: string): Promise<number> {
    return (await this.#post<{ events: number }>('operations/erasures/counts', { owner })).events;
  }

  async erase(order: Readonly<{ owner: string; reason: string }>): Promise<string> {
    return (await this.#post<{ erasure: string }>('operations/erasures', order)).erasure;
  }

  async erasure(id: string): Promise<ErasureStatus | undefined> {
    try {
      return await this.#json<ErasureStatus>(`operations/erasures/${encodeURIComponent(id)}`);
    } catch (error) {
      if (error instanceof ServiceRefused && error.code === 'erasure_not_found') return undefined;
      throw error;
    }
  }

  async lift(reason: string): Promise<Alarm | undefined> {
    return (await this.#post<{ lifted: Alarm | null }>('operations/lifts', { reason })).lifted ?? undefined;
  }

  backup(file: string, signal: AbortSignal): LongOperation<CopiedLog> {
    return longOperation(signal, (onProgress, ended) =>
      this.keep(file, (partial) => this.#download(partial, onProgress, ended), { onProgress, signal: ended }),
    );
  }

  async #download(
    file: string,
    report: (progress: OperationProgress) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { body, headers } = await this.#ask('operations/backup', {
      accept: 'application/vnd.sqlite3',
      signal,
    });
    const total = Number(headers.get('content-length') ?? NaN);
    if (!body) throw this.#noPlantStore();
    const handle = await open(file, 'r+');
    let done = 0;
    try {
      for await (const piece of body as ReadableStream<Uint8Array>) {
        await handle.write(piece);
        done += piece.length;
        report({ phase: 'copying', unit: 'bytes', done, total });
      }
    } catch (error) {
      signal.throwIfAborted();
      if ((error as NodeJS.ErrnoException).syscall !== undefined) throw error; // of the file
      throw this.#brokenOff(`after ${done} of ${total} bytes`);
    } finally {
      await handle.close();
    }
    if (done !== total) throw this.#brokenOff(`after ${done} of ${total} bytes`);
  }

  /** A long operation whose progress and outcome come as server-sent events. */
  #follow<Outcome>(path: string, body: unknown, signal: AbortSignal): LongOperation<Outcome> {
    return longOperation(signal, async (report, ended) => {
      const response = await this.#ask(path, {
        method: 'POST',
        body,
        accept: 'text/event-stream',
        signal: ended,
      });
      try {
        const events = (response.body as ReadableStream<Uint8Array>)
          .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
          .pipeThrough(new EventSourceParserStream());
        for await (const { event, data } of events as unknown as AsyncIterable<{
          event?: string;
          data: string;
        }>) {
          const told: unknown = JSON.parse(data);
          if (event === 'progress') report(told as OperationProgress);
          else if (event === 'problem') throw refusalOf(told as ProblemDocument);
          else if (event === 'outcome') return told as Outcome;
        }
      } catch (error) {
        ended.throwIfAborted();
        if (error instanceof TypeError) throw this.#brokenOff('before the outcome'); // what fetch rejects with
        throw error;
      }
      throw this.#brokenOff('before the outcome');
    });
  }

  #brokenOff(when: string): ServiceUnreachable {
    return new ServiceUnreachable(`${this.url} ended the answer ${when}: run the command again`);
  }

  #post<T>(path: string, body: unknown): Promise<T> {
    return this.#json(path, { method: 'POST', body });
  }

  async #json<T>(path: string, asked: Asked = {}): Promise<T> {
    return this.#parsed(await this.#ask(path, asked));
  }

  async #parsed<T>(response: Response): Promise<T> {
    try {
      return (await response.json()) as T;
    } catch (error) {
      if (error instanceof SyntaxError) throw this.#noPlantStore();
      throw this.#brokenOff('in the middle of an answer');
    }
  }

  #noPlantStore(): ServiceRefused {
    return new ServiceRefused('', `${this.url} is not a plant store of this version: correct --url`);
  }

  async #ask(path: string, { method = 'GET', body, accept, signal }: Asked = {}): Promise<Response> {
    const headers = {
      accept: accept ?? 'application/json',
      authorization: `Bearer ${await this.token()}`,
      ...(method !== 'GET' && { 'idempotency-key': randomUUID() }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    };
    const response = await this.#sent(`${this.url.replace(/\/$/, '')}/${path}`, {
      method,
      headers,
      redirect: 'error', // it would send the token elsewhere
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    if (response.ok) return response;
    const isProblem = response.headers.get('content-type')?.startsWith('application/problem+json');
    throw isProblem ? refusalOf(await this.#parsed<ProblemDocument>(response)) : this.#noPlantStore();
  }

  async #sent(url: string, request: RequestInit): Promise<Response> {
    for (let tries = 1; ; tries++)
      try {
        return await fetch(url, request);
      } catch (error) {
        request.signal?.throwIfAborted();
        const { cause } = error as { readonly cause?: { readonly code?: string; readonly message?: string } };
        if (tries === TRIES)
          throw new ServiceUnreachable(
            `${this.url} cannot be reached (${cause?.code ?? cause?.message ?? (error as Error).message}): check that the service runs there`,
          );
        await pause(TRY_AGAIN_MS, request.signal ?? undefined);
      }
  }
}

interface ProblemDocument {
  readonly code: string;
  readonly detail: string;
}

/** The error of this process for a problem document. */
const refusalOf = ({ code, detail }: ProblemDocument): Error => {
  const line = `${detail.charAt(0).toLowerCase()}${detail.slice(1)}`.replace(/\.$/, '');
  if (code === 'operation_refused') return new OperationRefused(line);
  if (code === 'rebuild_not_found') return new RebuildNotUnderWay(line);
  return new ServiceRefused(code, line);
};
