/** A failure, in its place, with what can be done about it. */
import { ApiProblem, messageOf } from '../problem.js';

/** An error of a request, with its code and request id for whoever has to look it up. */
export const Failure = ({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }) => (
  <div class="failure" role="alert">
    <p>
      {error instanceof ApiProblem && <strong>{error.title}. </strong>}
      <bdi>{messageOf(error)}</bdi>
    </p>
    {error instanceof ApiProblem && (
      <p class="faint small">
        <code>{error.code}</code>
        {error.requestId !== undefined && (
          <>
            , request <code>{error.requestId}</code>
          </>
        )}
      </p>
    )}
    {onRetry && (
      <button type="button" onClick={onRetry}>
        Try again
      </button>
    )}
  </div>
);
