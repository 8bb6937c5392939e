import { z } from 'zod';
import { MAX_TEXT, nameFault } from '../../plants/fields.js';
import { limitOf, ruledBy, wanted } from '../schemas.js';

/** What a position looks like, in whatever log. */
const POSITION = /^[0-9]{1,64}$/;

/** Why something is done. It goes by the rules of a name: it is shown in the same places. */
export const reasonOf = (description: string, example: string) =>
  z
    .string(wanted('a string'))
    .superRefine(ruledBy(nameFault))
    .meta({ minLength: 1, maxLength: MAX_TEXT, description, examples: [example] });

const rateFault = (rate: unknown): string | undefined =>
  Number.isSafeInteger(rate) && (rate as number) >= 1 ? undefined : 'must be an integer of at least 1';

const rate = z
  .number(wanted('an integer of at least 1'))
  .superRefine(ruledBy(rateFault))
  .optional()
  .meta({
    type: 'integer',
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'At most so many events a second. Without it, as many as go.',
    examples: [5_000],
  });

/** The body of POST /operations/estimates. */
export const NewEstimate = z
  .strictObject({ rate }, wanted('a JSON object'))
  .meta({ id: 'NewEstimate', description: 'Of which rebuild. All of it may be left out, the body too.' });

/** The body of POST /operations/rebuilds. */
export const NewRebuild = z
  .strictObject(
    {
      rate,
      unskip: z
        .boolean(wanted('true or false'))
        .optional()
        .meta({ description: 'Look again at events that were skipped.', default: false }),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewRebuild', description: 'How to rebuild. All of it may be left out, the body too.' });

/** The body of POST /operations/rollback. */
export const NewRollback = z
  .strictObject(
    {
      reason: reasonOf('Why, for the history.', 'lists are slower than before').optional(),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewRollback', description: 'Why to go back. It may be left out, the body too.' });

/** The answer to a request about a rebuild. */
export const RebuildAccepted = z
  .strictObject({ rebuild: z.string().meta({ description: 'The id of the rebuild.' }) })
  .meta({ id: 'RebuildAccepted', description: 'Which rebuild it is about.' });

/** The body of POST /operations/skips. */
export const NewSkip = z
  .strictObject(
    {
      position: z
        .string(wanted('a string'))
        .regex(POSITION, 'must be the position of an event')
        .meta({
          pattern: POSITION.source,
          description: 'Of the event: one of `parked` in the status, or one that a warning names.',
          examples: ['0000000000000042'],
        }),
      reason: reasonOf('Why. It stays in the log.', 'written by a script of ours'),
      force: z.boolean(wanted('true or false')).optional().meta({
        description: 'Skip it also where a newer version of this service can read it.',
        default: false,
      }),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewSkip', description: 'Which event is left out of the lists, and why.' });

/** The answer to a request to skip an event. */
export const SkipAccepted = z
  .strictObject({
    stream: z.string().meta({ description: 'The stream of the event.' }),
    revision: z.number().meta({ type: 'integer', description: 'Its number in that stream, from 0.' }),
  })
  .meta({ id: 'SkipAccepted', description: 'Which event it is about.' });

/** The body of POST /operations/lifts. */
export const NewLift = z
  .strictObject(
    {
      reason: reasonOf('Why, for the record.', 'log restored from the backup of last night'),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewLift', description: 'Why the alarm is lifted.' });

/** The answer to it. */
export const Lifted = z
  .object({
    lifted: z
      .looseObject({ kind: z.string(), message: z.string(), raisedAt: z.string() })
      .nullable()
      .meta({ description: 'The alarm that was lifted; null where none stood.' }),
  })
  .meta({ id: 'Lifted', description: 'The alarm that was lifted.' });

/** How many operations a page holds where the client does not say. */
export const DEFAULT_OPERATIONS = 100;

/** How many operations a page holds at most: some 300 KB. */
export const MAX_OPERATIONS = 1_000;

/** The query of GET /operations. */
export const OperationsQuery = z.strictObject({
  limit: limitOf(
    `How many operations; a page never has more than ${MAX_OPERATIONS}, and ${DEFAULT_OPERATIONS} unless told.`,
  ).optional(),
  before: z
    .string()
    .regex(POSITION, 'must be the position of an operation, or be taken from the Link of a page')
    .optional()
    .meta({
      pattern: POSITION.source,
      description: 'Only operations that began before this position: taken from the `Link` of a page.',
      examples: ['0000000000000042'],
    }),
});
