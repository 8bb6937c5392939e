/** Answers that are errors: problem documents (RFC 9457), and what is no answer at all. */

/** `pointer` is a JSON Pointer into the body, or names a parameter. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

/** The service has refused a request. */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem';
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    detail: string,
    readonly errors: readonly FieldError[],
    readonly requestId: string | undefined,
    /** When to ask again, in milliseconds from now. */
    readonly retryAfterMs: number | undefined,
  ) {
    super(detail);
  }
}

/** The service cannot be reached. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
  constructor() {
    super('The service cannot be reached. Check the network; nothing that you typed is lost.');
  }
}

/** Reads an error answer. Also of a proxy, which has no problem document. */
export const problemOf = async (response: Response): Promise<ApiProblem> => {
  const seconds = Number(response.headers.get('retry-after') ?? NaN);
  const isProblem = response.headers.get('content-type')?.includes('json') === true;
  const body: unknown = isProblem ? await response.json().catch(() => undefined) : undefined;
  const { code, title, detail, errors, requestId } = (body ?? {}) as Partial<Record<string, unknown>>;
  return new ApiProblem(
    response.status,
    typeof code === 'string' ? code : 'unknown',
    typeof title === 'string' ? title : `The answer was ${response.status}`,
    typeof detail === 'string' ? detail : `The answer was ${response.status} ${response.statusText}.`,
    Array.isArray(errors) ? (errors as FieldError[]) : [],
    typeof requestId === 'string' ? requestId : undefined,
    Number.isFinite(seconds) ? seconds * 1_000 : undefined,
  );
};

/** Text of a failure, in a sentence or two. */
export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : 'Something went wrong.';

/** True if this page gave up the request, which is not shown. */
export const isAborted = (error: unknown): boolean =>
  error instanceof DOMException && error.name === 'AbortError';
