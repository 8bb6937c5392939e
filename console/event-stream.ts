/** Server-sent events, read from a stream of text (https://html.spec.whatwg.org/multipage/server-sent-events.html). */

/** An event of a stream, or a sign of life, which has no data. */
export interface StreamEvent {
  /** `message` where the stream names none. */
  readonly type: string;
  readonly data: string | undefined;
  /** Resumes the stream after it: Last-Event-ID. */
  readonly id: string | undefined;
}

/** The longest event that is taken, in characters: a stream without line ends would fill the memory. */
const LONGEST = 1 << 20;

/** Takes a stream apart as it comes: each piece of text gives the events that it completes. */
export class EventStreamParser {
  #rest = '';
  #type = '';
  #data: string[] = [];
  #id: string | undefined;
  /** When a client comes back after the stream has ended, in milliseconds; as the stream says. */
  retryMs: number | undefined;

  /** Throws RangeError for an event that is too long. */
  *push(text: string): Generator<StreamEvent> {
    // A line may end in CR LF, of which the second half is still to come.
    const all = this.#rest + text;
    const lines = all.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > LONGEST) throw new RangeError('an event is longer than 1 MiB');
    for (const line of lines) {
      if (line === '') yield* this.#dispatch();
      else this.#field(line);
    }
  }

  #field(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const [name, value] =
      colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
    if (name === 'event') this.#type = value;
    else if (name === 'data') this.#data.push(value);
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
    else if (name === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
  }

  *#dispatch(): Generator<StreamEvent> {
    const data = this.#data.length > 0 ? this.#data.join('\n') : undefined;
    yield { type: this.#type || 'message', data, id: this.#id };
    this.#type = '';
    this.#data = [];
  }
}
