/** An answer, as a cache gave it. */
export interface CachedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

interface Kept {
  readonly answer: CachedAnswer;
  /** The request header fields that Vary names, and what they were. */
  readonly varying: readonly (readonly [name: string, value: string | null])[];
  freshUntilMs: number;
  storedAtMs: number;
}

type Fields = Readonly<Record<string, string>>;

/**
 * A cache that many clients share, before a service: as much of RFC 9111 as nginx and Varnish do for GET. It
 * keeps what is `public` with a `max-age`, tells variants from each other by Vary, says Age, and asks the service again
 * by If-None-Match for what is stale. Its clock moves only by `pass`.
 */
export class HttpCache {
  /** In order, each with the status of its answer: `200 /log/checkpoint`. */
  readonly asked: string[] = [];
  readonly #kept = new Map<string, Kept[]>();
  #nowMs = 0;

  constructor(private readonly origin: string) {}

  /** Lets seconds pass. */
  pass(seconds: number): void {
    this.#nowMs += seconds * 1_000;
  }

  async get(path: string, fields: Fields = {}): Promise<CachedAnswer> {
    const request = new Headers(fields);
    const kept = this.#kept
      .get(path)
      ?.find(({ varying }) => varying.every(([name, value]) => request.get(name) === value));
    if (kept && this.#nowMs < kept.freshUntilMs) return this.#aged(kept);
    const etag = kept?.answer.headers.get('etag');
    const answer = await this.#ask(path, etag ? { ...fields, 'if-none-match': etag } : fields);
    if (kept && etag && answer.status === 304) {
      this.#store(path, request, kept.answer);
      return kept.answer;
    }
    this.#store(path, request, answer);
    return answer;
  }

  async #ask(path: string, fields: Fields): Promise<CachedAnswer> {
    const answer = await fetch(this.origin + path, { headers: { 'accept-encoding': 'identity', ...fields } });
    this.asked.push(`${answer.status} ${path}`);
    return {
      status: answer.status,
      headers: answer.headers,
      body: Buffer.from(await answer.arrayBuffer()),
    };
  }

  #store(path: string, request: Headers, answer: CachedAnswer): void {
    const control = answer.headers.get('cache-control') ?? '';
    const [, maxAge] = /(?:^|, )max-age=(\d+)/.exec(control) ?? [];
    if (maxAge === undefined || !/(^|, )public(,|$)/.test(control)) return;
    const varying = (answer.headers.get('vary') ?? '')
      .split(/,\s*/)
      .filter((name) => name !== '')
      .map((name) => [name, request.get(name)] as const);
    const others = (this.#kept.get(path) ?? []).filter((one) => String(one.varying) !== String(varying));
    this.#kept.set(path, [
      ...others,
      {
        answer,
        varying,
        freshUntilMs: this.#nowMs + Number(maxAge) * 1_000,
        storedAtMs: this.#nowMs,
      },
    ]);
  }

  #aged({ answer, storedAtMs }: Kept): CachedAnswer {
    const headers = new Headers(answer.headers);
    headers.set('age', String(Math.floor((this.#nowMs - storedAtMs) / 1_000)));
    return { ...answer, headers };
  }
}
