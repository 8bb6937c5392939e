import { until } from './waiting.js';

/** A server-sent event, as it came. */
export interface LiveEvent {
  readonly id: string | undefined;
  readonly type: string | undefined;
  readonly data: unknown;
}

/** A client of a live stream, which keeps what comes. */
export class LiveStream {
  readonly events: LiveEvent[] = [];
  /** All that came, as text. */
  text = '';
  /** Resolves when the stream has ended: whether it ended as it should. */
  readonly ended: Promise<boolean>;
  readonly #closing = new AbortController();

  private constructor(
    readonly response: Response,
    closing: AbortController,
  ) {
    this.#closing = closing;
    this.ended = this.#read().then(
      () => true,
      () => false,
    );
  }

  /** Opens a stream, whatever the answer is. */
  static async open(
    url: string,
    token: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<LiveStream> {
    const closing = new AbortController();
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', ...headers },
      signal: closing.signal,
    });
    return new LiveStream(response, closing);
  }

  /** Waits for an event, and gives the first that is so. */
  async event(so: (event: LiveEvent) => boolean): Promise<LiveEvent> {
    let found: LiveEvent | undefined;
    await until(
      () => (found = this.events.find(so)) !== undefined,
      () => this.text.slice(-2_000),
    );
    return found ?? { id: undefined, type: undefined, data: undefined };
  }

  close(): void {
    this.#closing.abort();
  }

  async #read(): Promise<void> {
    let rest = '';
    const body = this.response.body ?? new ReadableStream<Uint8Array>();
    for await (const piece of body.pipeThrough(new TextDecoderStream())) {
      this.text += piece;
      const blocks = (rest + piece).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) this.#take(block.split('\n'));
    }
  }

  #take(lines: readonly string[]): void {
    const field = (name: string): string | undefined =>
      lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = field('data');
    if (data !== undefined)
      this.events.push({ id: field('id'), type: field('event'), data: JSON.parse(data) });
  }
}
