import { type AskWitness } from '../audit/add-checkpoint.js';

/** Limit for an answer: longer than any that works, so that who is slow is not asked again. */
const TIMEOUT_MS = 10_000;

/** The longest answer of a witness that is read, in bytes: cosignatures of 5 kB each, or a checkpoint with them. */
const MAX_ANSWER = 64 * 1024;

/**
 * Asks a witness over HTTP, as `AskWitness`; redirects are not followed. Throws an Error with one line where no answer of
 * at most MAX_ANSWER bytes comes in 10 s, or `signal` aborts.
 */
export const askWitness: AskWitness = async (url, body, signal) => {
  const headers = { 'content-type': 'text/plain' };
  const late = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const response = await fetch(url, {
      ...(body === undefined ? {} : { method: 'POST', body, headers }),
      redirect: 'error',
      signal: AbortSignal.any([signal, late]),
    });
    const type = response.headers.get('content-type') ?? '';
    return { status: response.status, type, body: await bodyOf(response) };
  } catch (error) {
    throw new Error(late.aborted ? `it has not answered within ${TIMEOUT_MS / 1_000} s` : reasonOf(error), {
      cause: error,
    });
  }
};

const bodyOf = async (response: Response): Promise<string> => {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    const bytes = part as Uint8Array;
    length += bytes.length;
    if (length > MAX_ANSWER) throw new Error(`its answer is longer than ${MAX_ANSWER} bytes`);
    parts.push(bytes);
  }
  return Buffer.concat(parts).toString('utf8');
};

/** The message of fetch is "fetch failed"; its cause says why. */
const reasonOf = (error: unknown): string => {
  const { cause, message } = error as Error;
  const { code, message: why } = (cause ?? {}) as { readonly code?: string; readonly message?: string };
  return cause === undefined ? message : `it cannot be reached (${code ?? why ?? message})`;
};
