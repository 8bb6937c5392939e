import { v5 as uuidV5 } from 'uuid';
import { LocalOperations, type OperatedSystem } from '../../operations/local.js';
import { type Operator } from '../../commands/record-rebuilds.js';
import { type GuardedRequest } from '../auth/principal.js';
import { plantRequestOf } from '../plants/plant-request.js';

/** A request of an operator. */
interface Ordered {
  readonly request: GuardedRequest;
  readonly headers: { readonly 'Idempotency-Key'?: string | undefined };
}

/** The operator. The same owner with the same Idempotency-Key has the same command id. */
const operatorOf = ({ request, headers }: Ordered): Operator & { readonly commandId: string } => {
  const key = headers['Idempotency-Key'];
  const { owner, context } = plantRequestOf(request);
  return key === undefined
    ? context
    : { ...context, commandId: uuidV5(JSON.stringify([owner, key]), NAMED_COMMANDS) };
};

/** The namespace of commands that were named by their clients (RFC 9562, version 5): made once, by chance. */
const NAMED_COMMANDS = 'c20668a2-6191-4661-8738-ba73876bad25';

/** Operations that the client of a request asks for. Throws Problem. */
export const operationsOf = (system: OperatedSystem, asked: Ordered): LocalOperations =>
  new LocalOperations(system, operatorOf(asked));
