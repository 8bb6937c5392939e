import { z } from 'zod';
import { ErasureStatus } from '../../operations/erasure-status.js';
import { type Routes } from '../route.js';
import { json, KEY } from '../route-parts.js';
import { accountOf, requestBody } from '../schemas.js';
import { accepted, idOf, OPERATING, reasonOf } from './operation-routes.js';

const owner = accountOf('Who is erased: the account that its tokens speak for.');

const ErasureCount = requestBody('ErasureCount', 'Whose events are counted.', { owner });

const ErasureCounted = z
  .strictObject({
    events: z.number().meta({ type: 'integer', description: 'How many events would be erased at present.' }),
  })
  .meta({ id: 'ErasureCounted', description: 'What an erasure would erase.' });

const NewErasure = requestBody('NewErasure', 'Whose events are erased, and why.', {
  owner,
  reason: reasonOf('Why. It stays in the log, and must not name the owner.', 'request 4711'),
});

/** The answer to an order. */
export const ErasureAccepted = z
  .strictObject({ erasure: z.string().meta({ description: 'The id of the erasure.' }) })
  .meta({ id: 'ErasureAccepted', description: 'Which erasure it is about.' });

/** Erasures of owners. */
export const erasureRoutes = {
  countOwned: {
    method: 'POST',
    path: '/operations/erasures/counts', // by POST, since the URL of a request is logged
    scope: 'plants:erase',
    summary: 'See how many events an erasure would erase',
    description: 'Nothing is erased. Takes the scope `plants:erase`.',
    headers: KEY,
    body: ErasureCount,
    example: { owner: 'alice' },
    answers: { 200: { description: 'How many.', content: json(ErasureCounted) } },
    problems: OPERATING,
  },
  orderErasure: {
    method: 'POST',
    path: '/operations/erasures',
    scope: 'plants:erase',
    summary: 'Erase an owner',
    description:
      'All plants and events of this owner are removed from all stores; a hash of each event is left, so that earlier proofs still verify. It cannot be undone. Takes the scope `plants:erase`. A process with the role `auditor` does it.',
    headers: KEY,
    body: NewErasure,
    example: { owner: 'alice', reason: 'request 4711' },
    answers: {
      202: accepted('It is ordered. The same Idempotency-Key gives the same erasure again.', ErasureAccepted),
    },
    problems: OPERATING,
  },
  readErasure: {
    method: 'GET',
    path: '/operations/erasures/{id}',
    scope: 'plants:erase',
    summary: 'See how far an erasure is',
    description: 'Takes the scope `plants:erase`.',
    params: { id: idOf('The id of the erasure, from the answer to its order.') },
    answers: { 200: { description: 'The erasure.', content: json(ErasureStatus) } },
    problems: ['erasure_not_found', 'log_unavailable'],
  },
} satisfies Routes;
