import { randomUUID } from 'node:crypto';
import { type PlantRequest } from '../../write/plants.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { correlationIdOf, traceparentOf } from '../correlation.js';
import { readValue } from '../requests.js';
import { IdempotencyKey } from '../schemas.js';

const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** The owner, the context and the Idempotency-Key of a request. Throws Problem for a malformed key. */
export const plantRequestOf = (request: GuardedRequest): PlantRequest => {
  const { owner, subject, clientId } = principalOf(request);
  const header = request.headers['idempotency-key'];
  const traceparent = traceparentOf(request);
  return {
    owner,
    // A safe request changes nothing, however often it is sent.
    key:
      header === undefined || SAFE.has(request.method)
        ? undefined
        : readValue(IdempotencyKey, header, 'Idempotency-Key'),
    context: {
      commandId: randomUUID(),
      actor: { sub: subject, ...(clientId === undefined ? {} : { clientId }) },
      correlationId: correlationIdOf(request),
      ...(traceparent === undefined ? {} : { traceparent }),
    },
  };
};
