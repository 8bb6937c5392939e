import { randomUUID } from 'node:crypto';
import { type PlantRequest } from '../../commands/plants.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { correlationIdOf, traceparentOf } from '../correlation.js';

/** The owner and the context of a request, with its Idempotency-Key where it has one. */
export const plantRequestOf = (request: GuardedRequest, key?: string): PlantRequest => {
  const { owner, subject, clientId } = principalOf(request);
  const traceparent = traceparentOf(request);
  return {
    owner,
    key,
    context: {
      commandId: randomUUID(),
      actor: { sub: subject, ...(clientId === undefined ? {} : { clientId }) },
      correlationId: correlationIdOf(request),
      ...(traceparent === undefined ? {} : { traceparent }),
    },
  };
};
