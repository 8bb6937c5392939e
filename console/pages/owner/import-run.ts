/** One import of a file: its lines are sent a part at a time, until each of them is there or was refused. */
import { batch, signal } from '@preact/signals';
import { reached, sendOnce, sleep } from '../../api.js';
import { ApiProblem, type FieldError, isAborted, messageOf, Unreachable } from '../../problem.js';
import { type ImportLine, type LineFault, nextChunk, type ReadFile } from './import-lines.js';

/** A line of the answer (docs/api.md, "Many plants at once"); the last one has no `line`. */
interface Outcome {
  readonly line?: number;
  readonly status: number;
  readonly outcome: 'created' | 'exists' | 'refused';
  readonly position?: string;
  readonly detail?: string;
  readonly errors?: readonly FieldError[];
}

/** Refusals that are about the moment, not about the line: it is sent again. */
const NOT_NOW: ReadonlySet<number> = new Set([408, 410, 429, 500, 502, 503, 504]);

/** Tries of a part without progress, before a person has to say that it is to go on. */
const TRIES = 5;

/** The first pause, in milliseconds; each next one is twice as long. */
const PAUSE_MS = 1_000;

export type ImportState = 'running' | 'paused' | 'stopped' | 'done';

/** Runs from `start` on. Stopping and starting again is safe: no plant is added twice. */
export class ImportRun {
  readonly state = signal<ImportState>('paused');
  /** Why it is paused, or waits. */
  readonly reason = signal<string | undefined>(undefined);
  readonly created = signal(0);
  readonly exists = signal(0);
  readonly refused = signal<readonly LineFault[]>([]);
  /** Lines that there is an outcome of. */
  readonly settled = signal(0);
  readonly total: number;

  #left: readonly ImportLine[];
  #stopping = new AbortController();

  constructor(readonly file: ReadFile) {
    this.#left = file.lines;
    this.total = file.lines.length;
    this.refused.value = file.faults;
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** Sends what is left. Never rejects: `state` and `reason` say how it ended. */
  async start(): Promise<void> {
    if (this.state.peek() === 'running') return;
    this.#stopping = new AbortController();
    const { signal: stopped } = this.#stopping;
    this.state.value = 'running';
    this.reason.value = undefined;
    try {
      for (let fruitless = 0; this.#left.length > 0;) {
        const before = this.#left.length;
        const fault = await this.#sendSome(stopped);
        fruitless = this.#left.length < before ? 0 : fruitless + 1;
        this.reason.value = fault === undefined ? undefined : messageOf(fault);
        if (fault === undefined) continue;
        if (fruitless === TRIES || !isForNow(fault)) throw fault;
        const asked = fault instanceof ApiProblem ? fault.retryAfterMs : undefined;
        await sleep(asked ?? PAUSE_MS * 2 ** fruitless, stopped);
      }
      this.state.value = 'done';
    } catch (error) {
      this.state.value = isAborted(error) ? 'stopped' : 'paused';
      this.reason.value = isAborted(error) ? undefined : messageOf(error);
    }
  }

  /** Sends the next part, and takes away what there is an outcome of. Gives what hindered the rest; throws if stopped. */
  async #sendSome(stopped: AbortSignal): Promise<ApiProblem | Unreachable | undefined> {
    const chunk = nextChunk(this.#left);
    const settled = new Set<ImportLine>();
    let fault: ApiProblem | Unreachable | undefined;
    try {
      const response = await sendOnce('plants/import', {
        method: 'POST',
        headers: { 'content-type': 'application/x-ndjson' },
        body: chunk.map(({ json }) => `${json}\n`).join(''),
        signal: stopped,
      });
      for await (const outcomes of linesOf(response)) {
        fault = this.#take(outcomes, chunk, settled) ?? fault;
      }
      if (settled.size < chunk.length) fault ??= new Unreachable();
    } catch (error) {
      stopped.throwIfAborted();
      fault = error instanceof ApiProblem ? error : new Unreachable();
    } finally {
      this.#left = this.#left.filter((line) => !settled.has(line));
    }
    return fault;
  }

  #take(
    outcomes: readonly Outcome[],
    chunk: readonly ImportLine[],
    settled: Set<ImportLine>,
  ): ApiProblem | undefined {
    let fault: ApiProblem | undefined;
    const refused: LineFault[] = [];
    const counts = { created: 0, exists: 0, refused: 0 };
    for (const { line, status, outcome, position, detail = '', errors } of outcomes) {
      reached(position);
      const sent = line === undefined ? undefined : chunk[line - 1];
      if (!sent) continue;
      if (outcome === 'refused' && NOT_NOW.has(status)) {
        fault = new ApiProblem(status, '', '', detail, [], undefined, undefined);
        continue;
      }
      settled.add(sent);
      counts[outcome] += 1;
      if (outcome === 'refused') refused.push({ ...sent, detail: refusalOf(detail, errors) });
    }
    batch(() => {
      this.created.value += counts.created;
      this.exists.value += counts.exists;
      this.settled.value += counts.created + counts.exists + counts.refused;
      if (refused.length > 0)
        this.refused.value = [...this.refused.peek(), ...refused].sort((one, other) => one.line - other.line);
    });
    return fault;
  }
}

const isForNow = (fault: unknown): boolean =>
  fault instanceof Unreachable ||
  (fault instanceof ApiProblem && fault.status !== 410 && NOT_NOW.has(fault.status));

const refusalOf = (detail: string, errors: readonly FieldError[] = []): string =>
  errors.length === 0
    ? detail
    : errors
        .map(({ pointer, detail: what }) => `${pointer.replace(/^\//, '') || 'the line'} ${what}`)
        .join('; ');

/** The lines of an answer as they come, those of each piece together. Throws where it breaks off. */
async function* linesOf(response: Response): AsyncGenerator<readonly Outcome[]> {
  const reader = (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const lines = (rest + read.value).split('\n');
    rest = lines.pop() ?? '';
    if (lines.length > 0) yield lines.map((line) => JSON.parse(line) as Outcome);
  }
}
