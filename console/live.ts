/** Live streams of the service: server-sent events over fetch, since EventSource cannot send a token in its header. */
import { type ReadonlySignal, signal } from '@preact/signals';
import { sendOnce, sleep } from './api.js';
import { EventStreamParser, type StreamEvent } from './event-stream.js';
import { ApiProblem, isAborted, messageOf } from './problem.js';
import { type Query } from './router.js';
import { ended } from './session.js';

/** After so long without a sign of life, in milliseconds, a stream counts as broken: the service sends one each 15 s. */
const SILENCE_MS = 40_000;

/** Time in the background after which a tab's stream rests. */
const REST_AFTER_MS = 10_000;

/** The longest pause before a stream that has broken is opened again, in milliseconds. */
const LONGEST_PAUSE_MS = 30_000;

/** `resting` while the tab is in the background, `broken` until it is mended. */
export type LiveState = 'connecting' | 'live' | 'resting' | 'broken';

export interface Following {
  readonly path: string;
  readonly query?: Query;
  /** Id of the event to begin after. */
  readonly after?: string;
  /** Called for each event in turn, signs of life left out. */
  readonly onEvent: (event: StreamEvent & { readonly data: string }) => void;
}

/** A stream that is followed until it is closed. */
export interface Live {
  readonly state: ReadonlySignal<LiveState>;
  /** While it is broken. */
  readonly reason: ReadonlySignal<string | undefined>;
  readonly close: () => void;
}

/**
 * Follows a stream: it is opened again after the last event that came when it breaks, and rests while the tab is in the
 * background. Ends when the token does: follow it again with the next one.
 */
export const follow = (following: Following): Live => {
  const state = signal<LiveState>('connecting');
  const reason = signal<string | undefined>(undefined);
  const closing = new AbortController();
  void keepOpen(following, closing.signal, (next, why) => {
    state.value = next;
    reason.value = why;
  });
  return {
    state,
    reason,
    close: () => {
      closing.abort();
    },
  };
};

type Tell = (state: LiveState, reason?: string) => void;

/** Never rejects: ends when it is closed, or the token has ended. */
const keepOpen = async (following: Following, closed: AbortSignal, tell: Tell): Promise<void> => {
  let after = following.after;
  let failures = 0;
  const isOver = (): boolean => closed.aborted || ended.peek() !== undefined;
  while (!isOver())
    try {
      if (document.hidden) {
        tell('resting');
        await visible(closed);
      }
      const parser = new EventStreamParser();
      const rested = await readStream(following, after, parser, closed, {
        onOpen: () => {
          tell('live');
        },
        onEvent: (event) => {
          failures = 0;
          if (event.id) after = event.id;
          if (event.data !== undefined) following.onEvent({ ...event, data: event.data });
        },
      });
      if (!rested) await sleep(parser.retryMs ?? 2_000, closed);
    } catch (error) {
      if (isOver()) return;
      failures += 1;
      tell('broken', isAborted(error) ? 'Nothing came for a while.' : messageOf(error));
      const asked = error instanceof ApiProblem ? error.retryAfterMs : undefined;
      const pause = Math.min(500 * 2 ** failures, LONGEST_PAUSE_MS) * (0.75 + Math.random() / 2);
      await sleep(Math.max(pause, asked ?? 0), closed).catch(() => undefined);
    }
};

/** Reads one stream to its end; true where that is since the tab rests. */
const readStream = async (
  { path, query }: Following,
  after: string | undefined,
  parser: EventStreamParser,
  closed: AbortSignal,
  { onOpen, onEvent }: { readonly onOpen: () => void; readonly onEvent: (event: StreamEvent) => void },
): Promise<boolean> => {
  const stopping = new AbortController();
  const stop = (): void => {
    stopping.abort();
  };
  closed.addEventListener('abort', stop);
  let rested = false as boolean;
  const unwatch = whenHidden(() => {
    rested = true;
    stop();
  });
  let silence = setTimeout(stop, SILENCE_MS);
  try {
    const response = await sendOnce(path, {
      ...(query && { query }),
      headers: { accept: 'text/event-stream', ...(after !== undefined && { 'last-event-id': after }) },
      signal: stopping.signal,
    });
    onOpen();
    const reader = (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      clearTimeout(silence);
      silence = setTimeout(stop, SILENCE_MS);
      for (const event of parser.push(read.value)) onEvent(event);
    }
    return false;
  } catch (error) {
    if (rested) return true;
    throw error;
  } finally {
    clearTimeout(silence);
    unwatch();
    closed.removeEventListener('abort', stop);
    stop();
  }
};

/** Calls back once the tab has been in the background for a while. Gives what stops watching. */
const whenHidden = (act: () => void): (() => void) => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(act, REST_AFTER_MS);
  };
  document.addEventListener('visibilitychange', look);
  look();
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', look);
  };
};

/** Resolves when the tab is looked at. Throws what `until` is aborted with. */
const visible = (until: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const look = (): void => {
      if (document.hidden && !until.aborted) return;
      document.removeEventListener('visibilitychange', look);
      until.removeEventListener('abort', look);
      if (until.aborted) reject(until.reason as Error);
      else resolve();
    };
    document.addEventListener('visibilitychange', look);
    until.addEventListener('abort', look);
    look();
  });
