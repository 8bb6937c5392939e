import { z } from 'zod';
import { MAX_TEXT, nameFault } from '../../plants/fields.js';
import { ruledBy, wanted } from '../schemas.js';

const rateFault = (rate: unknown): string | undefined =>
  Number.isSafeInteger(rate) && (rate as number) >= 1 ? undefined : 'must be an integer of at least 1';

/** The body of POST /operations/rebuilds. */
export const NewRebuild = z
  .strictObject(
    {
      rate: z
        .number(wanted('an integer of at least 1'))
        .superRefine(ruledBy(rateFault))
        .optional()
        .meta({
          type: 'integer',
          minimum: 1,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'At most so many events a second. Without it, as many as go.',
          examples: [5_000],
        }),
      unskip: z
        .boolean(wanted('true or false'))
        .optional()
        .meta({ description: 'Look again at events that were skipped.', default: false }),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewRebuild', description: 'How to rebuild. All of it may be left out, the body too.' });

/** The body of POST /operations/rollback. The reason goes by the rules of a name: it is shown in the same places. */
export const NewRollback = z
  .strictObject(
    {
      reason: z
        .string(wanted('a string'))
        .superRefine(ruledBy(nameFault))
        .optional()
        .meta({
          minLength: 1,
          maxLength: MAX_TEXT,
          description: 'Why, for the history.',
          examples: ['lists are slower than before'],
        }),
    },
    wanted('a JSON object'),
  )
  .meta({ id: 'NewRollback', description: 'Why to go back. It may be left out, the body too.' });

/** The answer to what was asked about a rebuild. */
export const RebuildAccepted = z
  .strictObject({ rebuild: z.string().meta({ description: 'The id of the rebuild.' }) })
  .meta({ id: 'RebuildAccepted', description: 'Which rebuild it is about.' });

const position = z.string().meta({ description: 'A position of the log; empty before its first event.' });
const time = z.iso.datetime();
const orUnknown = (schema: z.ZodNumber, description: string) =>
  schema.nullable().meta({ description: `${description}; null where it is not known.` });

const ProcessStatus = z.object({
  process: z.string(),
  host: z.string(),
  pid: z.number(),
  roles: z.array(z.string()),
  version: z.string(),
  address: z.string().meta({ description: 'Where it listens.' }),
  since: z.string(),
  projector: z
    .object({
      state: z.string(),
      since: z.string(),
      generation: z.number().optional(),
      position: z.string().optional(),
      stream: z.string().optional(),
      revision: z.string().optional(),
      reason: z.string().optional(),
    })
    .nullable()
    .meta({ description: 'Null where the process leaves projecting to others.' }),
  rebuild: z
    .object({
      rebuild: z.string(),
      phase: z.string(),
      generation: z.number().optional(),
      position,
      events: z.number(),
      elapsedMs: z.number(),
      share: z.number(),
      secondsLeft: z.number().optional(),
      problem: z.string().optional(),
    })
    .nullable()
    .meta({ description: 'What it rebuilds.' }),
  verified: z
    .object({ at: z.string(), differing: z.number() })
    .optional()
    .meta({ description: 'The last comparison of the lists with the log that its DATA_DIR records.' }),
  auditor: z
    .object({
      state: z.string(),
      since: z.string(),
      size: z.number().meta({ description: 'Leaves in its tree.' }),
      position,
      checkpoint: z
        .object({ size: z.number(), signedAt: z.string() })
        .optional()
        .meta({ description: 'The last that it signed.' }),
      recheckedAt: z
        .string()
        .optional()
        .meta({ description: 'When it last found the whole log as it was signed.' }),
      rechecking: z.object({ since: z.string(), events: z.number() }).optional().meta({
        description:
          'The reading of the whole log that is under way: since when, and how many events it has compared with the tree.',
      }),
      reason: z.string().optional(),
      notice: z.string().optional().meta({
        description: 'What a person should know of its start, such as that its tree was begun anew.',
      }),
      times: z.object({ count: z.number(), position, message: z.string() }).optional().meta({
        description:
          'Events whose times contradict the checkpoints that were signed around them, and the first of them; absent where none does.',
      }),
      signing: z
        .object({
          key: z.string().meta({ description: 'Name and id of the key that it signs with.' }),
          since: z.string().optional().meta({
            description:
              'When the log first recorded a checkpoint by this key of this tree; absent before that.',
          }),
          recorded: z
            .object({ size: z.number(), at: z.string() })
            .optional()
            .meta({ description: 'The last checkpoint by this key that the log records.' }),
          before: z.object({ key: z.string(), until: z.string(), confirmed: z.boolean() }).optional().meta({
            description: 'What signed before that; confirmed where that key has signed the change, too.',
          }),
          warnings: z.array(z.string()),
        })
        .optional(),
      alarm: z
        .object({
          kind: z.string(),
          index: z.number().optional(),
          position: position.optional(),
          stream: z.string().optional(),
          revision: z.string().optional(),
          message: z.string(),
          raisedAt: z.string(),
        })
        .optional()
        .meta({ description: 'The log is not what was signed: nothing more is until it is lifted.' }),
    })
    .nullish()
    .meta({ description: 'Null where the process is no auditor.' }),
  eventLog: z
    .object({
      state: z.string().meta({ description: 'ok, failing or stopped (until a restart).' }),
      since: z.string(),
      reason: z.string().optional(),
      restartHelps: z
        .boolean()
        .meta({ description: 'Whether a restart of the process is expected to help.' }),
    })
    .optional()
    .meta({ description: 'Whether its appends to the event log work.' }),
});

/** The answer of GET /operations/status. Members may be added: clients ignore what they do not know. */
export const SystemStatus = z
  .object({
    at: time,
    problems: z
      .array(z.string())
      .readonly()
      .meta({ description: 'What an operator has to look at; none if all is well.' }),
    warnings: z
      .array(z.string())
      .readonly()
      .meta({ description: 'What an operator should know, though everything works.' }),
    head: position,
    lag: z
      .object({
        seconds: orUnknown(z.number(), 'The age of the oldest event that is not in all lists'),
        events: orUnknown(z.number(), 'How many events are not in all lists'),
      })
      .meta({ description: 'How far the lists are behind.' }),
    processes: z.array(ProcessStatus).readonly(),
    leaseHolder: z.string().nullable().meta({ description: 'The process that projects.' }),
    generations: z
      .array(
        z.object({
          generation: z.number(),
          active: z.boolean().meta({ description: 'Whether lists are answered from it.' }),
          slowest: position,
          fastest: position,
          behind: z.number().meta({ description: 'How many of its 64 partitions are not at the head.' }),
          problem: z.string().nullable().meta({ description: 'Why its positions cannot be read, if so.' }),
        }),
      )
      .readonly(),
    rebuild: z
      .object({
        rebuild: z.string(),
        requestedAt: time,
        generation: z.number().nullable(),
        phase: z.string(),
        events: orUnknown(z.number(), 'How many were applied'),
        total: orUnknown(z.number(), 'How many there are'),
        eventsPerSecond: orUnknown(z.number(), 'How fast it is'),
        share: orUnknown(z.number(), 'How much of it all is done, from 0 to 1'),
        secondsLeft: orUnknown(z.number(), 'Until it is over, as far as it can be foreseen'),
        problem: z.string().nullable().meta({ description: 'Why it does not get on, if so.' }),
      })
      .nullable()
      .meta({ description: 'The rebuild that is under way.' }),
    lastRebuild: z.object({ rebuild: z.string(), outcome: z.string(), at: time }).nullable(),
    wayBack: z
      .object({ generation: z.number(), until: time })
      .nullable()
      .meta({ description: 'What a rollback goes back to, and until when it can.' }),
    blocked: z
      .object({ position, stream: z.string(), revision: z.string(), reason: z.string() })
      .nullable()
      .meta({
        description: 'An event that cannot be read and whose owner cannot be told: it stops all lists.',
      }),
    parked: z
      .object({
        owners: z.number().meta({ description: 'How many owners.' }),
        events: z
          .array(
            z.object({
              position,
              stream: z.string(),
              revision: z.number(),
              kind: z.string().meta({
                description: 'newer_version, unknown_type or invalid.',
                examples: ['newer_version'],
              }),
              reason: z.string(),
            }),
          )
          .readonly()
          .meta({ description: 'The events that cannot be read, 20 at most.' }),
      })
      .meta({ description: 'Owners whose lists are not answered, since an event cannot be read.' }),
    skipped: z
      .array(
        z.object({
          stream: z.string(),
          revision: z.number(),
          reason: z.string(),
          by: z.string(),
          at: z.string(),
          inForce: z.boolean(),
        }),
      )
      .readonly()
      .meta({ description: 'Events that are left out of the lists.' }),
  })
  .meta({ id: 'SystemStatus', description: 'The system at one moment.' });
