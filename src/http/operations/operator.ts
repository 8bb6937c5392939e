import { v5 as uuidV5 } from 'uuid';
import { LocalOperations, type OperatedSystem } from '../../operations/local.js';
import { type Operator } from '../../write/rebuilds.js';
import { type GuardedRequest } from '../auth/principal.js';
import { plantRequestOf } from '../plants/plant-request.js';
import { readQuery, refuseUnlessJsonIsAccepted } from '../requests.js';
import { NoQuery } from '../schemas.js';

/** The operator. The same owner with the same Idempotency-Key has the same command id. */
export const operatorOf = (request: GuardedRequest): Operator & { readonly commandId: string } => {
  const { owner, key, context } = plantRequestOf(request);
  return key === undefined
    ? context
    : { ...context, commandId: uuidV5(JSON.stringify([owner, key]), NAMED_COMMANDS) };
};

/** The namespace of commands that were named by their clients (RFC 9562, version 5): made once, by chance. */
const NAMED_COMMANDS = 'c20668a2-6191-4661-8738-ba73876bad25';

/** Operations that the caller asks for, whose answer is JSON and whose URL has no query. Throws Problem. */
export const askedOf = (system: OperatedSystem, request: GuardedRequest): LocalOperations => {
  refuseUnlessJsonIsAccepted(request);
  readQuery(request, NoQuery);
  return new LocalOperations(system, operatorOf(request));
};
