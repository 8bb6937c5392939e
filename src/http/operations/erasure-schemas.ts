import { z } from 'zod';
import { MAX_TEXT, nameFault as reasonFault } from '../../plants/fields.js';
import { MAX_NAME, nameFault } from '../auth/principal.js';
import { ruledBy, wanted } from '../schemas.js';

/** The body of POST /operations/erasures. */
export const NewErasure = z
  .strictObject(
    {
      owner: z
        .string(wanted('a string'))
        .superRefine(ruledBy(nameFault))
        .meta({
          minLength: 1,
          maxLength: MAX_NAME,
          description: 'Who is erased: the account that its tokens speak for.',
          examples: ['alice'],
        }),
      reason: z
        .string(wanted('a string'))
        .superRefine(ruledBy(reasonFault))
        .meta({
          minLength: 1,
          maxLength: MAX_TEXT,
          description: 'Why. It stays in the log, and must not name the owner.',
          examples: ['request 4711'],
        }),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewErasure', description: 'Whose events are erased, and why.' });

/** The answer to an order. */
export const ErasureAccepted = z
  .strictObject({ erasure: z.string().meta({ description: 'The id of the erasure.' }) })
  .meta({ id: 'ErasureAccepted', description: 'Which erasure it is about.' });

/** An erasure. */
export const ErasureStatus = z
  .strictObject({
    erasure: z.string().meta({ description: 'Its id.' }),
    state: z.enum(['ordered', 'erased', 'finished', 'cancelled']).meta({
      description:
        'ordered: plants are being deleted, and nothing was erased yet. erased: the log has lost the events, and files of the stores may still hold what they were. finished: nothing is left there either. cancelled: nothing was erased.',
    }),
    reason: z.string(),
    by: z.string().meta({ description: 'Who ordered it.' }),
    orderedAt: z.string().meta({ format: 'date-time' }),
    since: z.string().meta({ format: 'date-time', description: 'When the state was reached.' }),
    events: z
      .number()
      .nullable()
      .meta({ type: ['integer', 'null'], description: 'How many events were erased; null before.' }),
  })
  .meta({
    id: 'ErasureStatus',
    description: 'What has happened to an erasure. It does not say whose it is.',
  });
