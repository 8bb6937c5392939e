import { type FastifyRequest } from 'fastify';
import { type LongOperation, type OperationProgress } from '../../operations/long-operation.js';
import { requestLog } from '../correlation.js';
import { problemDocument } from '../problem.js';
import { problemOf } from '../problem.filter.js';
import { type LiveStep, sentEvent } from '../server-sent-events.js';

/** The shortest time between two events `progress` of a phase, in milliseconds. */
const PROGRESS_EVERY_MS = 200;

/**
 * A long operation as server-sent events: `progress`, and at the end `outcome`, or `problem` with a problem document. The
 * first is awaited before anything is sent, so that what fails at once has the status of its problem.
 */
export async function* stepsOf(
  operation: LongOperation<unknown>,
  request: FastifyRequest,
): AsyncGenerator<LiveStep, void, undefined> {
  let told = -Infinity;
  let phase = '';
  let untold: OperationProgress | undefined;
  try {
    for (;;) {
      const step = await operation.next();
      if (step.done) {
        if (untold) yield { events: [sentEvent('progress', JSON.stringify(untold))] };
        yield { events: [sentEvent('outcome', JSON.stringify(step.value))] };
        return;
      }
      untold = step.value;
      if (untold.phase === phase && performance.now() - told < PROGRESS_EVERY_MS) continue;
      yield { events: [sentEvent('progress', JSON.stringify(untold))] };
      ({ phase } = untold);
      told = performance.now();
      untold = undefined;
    }
  } catch (error) {
    if (phase === '') throw error; // nothing was sent
    const problem = problemOf(error);
    if (problem.status >= 500) requestLog(request).error({ err: error }, 'a long operation failed');
    const document = problemDocument(problem, request.id, request.url);
    yield { events: [sentEvent('problem', JSON.stringify(document))] };
  } finally {
    await operation.return(undefined);
  }
}
