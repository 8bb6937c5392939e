import { v5 as uuidV5 } from 'uuid';
import { type Operator } from '../../write/rebuilds.js';
import { type GuardedRequest } from '../auth/principal.js';
import { plantRequestOf } from '../plants/plant-request.js';

/** The operator. The same owner with the same Idempotency-Key has the same command id. */
export const operatorOf = (request: GuardedRequest): Operator & { readonly commandId: string } => {
  const { owner, key, context } = plantRequestOf(request);
  return key === undefined
    ? context
    : { ...context, commandId: uuidV5(JSON.stringify([owner, key]), NAMED_COMMANDS) };
};

/** The namespace of commands that were named by their clients (RFC 9562, version 5): made once, by chance. */
const NAMED_COMMANDS = 'c20668a2-6191-4661-8738-ba73876bad25';
