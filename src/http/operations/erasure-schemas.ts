import { z } from 'zod';
import { MAX_NAME, nameFault } from '../auth/principal.js';
import { ruledBy, wanted } from '../schemas.js';
import { reasonOf } from './operation-schemas.js';

const owner = z
  .string(wanted('a string'))
  .superRefine(ruledBy(nameFault))
  .meta({
    minLength: 1,
    maxLength: MAX_NAME,
    description: 'Who is erased: the account that its tokens speak for.',
    examples: ['alice'],
  });

/** The body of POST /operations/erasures/counts. */
export const ErasureCount = z
  .strictObject({ owner }, wanted('a JSON object'))
  .meta({ id: 'ErasureCount', description: 'Whose events are counted.' });

/** The answer to it. */
export const ErasureCounted = z
  .strictObject({
    events: z.number().meta({ type: 'integer', description: 'How many events would be erased at present.' }),
  })
  .meta({ id: 'ErasureCounted', description: 'What an erasure would erase.' });

/** The body of POST /operations/erasures. */
export const NewErasure = z
  .strictObject(
    {
      owner,
      reason: reasonOf('Why. It stays in the log, and must not name the owner.', 'request 4711'),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewErasure', description: 'Whose events are erased, and why.' });

/** The answer to an order. */
export const ErasureAccepted = z
  .strictObject({ erasure: z.string().meta({ description: 'The id of the erasure.' }) })
  .meta({ id: 'ErasureAccepted', description: 'Which erasure it is about.' });
