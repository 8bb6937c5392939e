import { z } from 'zod';
import { PositionText, ProcessReport } from './process-report.js';

const time = z.iso.datetime();
const orUnknown = (schema: z.ZodNumber, description: string) =>
  schema.nullable().describe(`${description}; null where it is not known.`);
const list = <Item extends z.ZodType>(item: Item, description: string) =>
  z.array(item).readonly().describe(description);

/** Why an event cannot be read, in a word. */
export const UnreadKind = z.string().meta({
  description: 'newer_version, unknown_type or invalid.',
  examples: ['newer_version'],
});

/** The answer of GET /operations/status. Members may be added: clients must ignore unknown ones. */
export const SystemStatus = z
  .object({
    at: time,
    problems: list(z.string(), 'What an operator has to look at; none if all is well.'),
    warnings: list(z.string(), 'What an operator should know, though everything works.'),
    unanswered: list(
      z.enum(['event log', 'read model']),
      'Stores that did not answer within a second: what they know is missing here, and `problems` says why.',
    ),
    head: PositionText,
    lag: z
      .object({
        seconds: orUnknown(z.number(), 'The age of the oldest event that is not in all lists'),
        events: orUnknown(z.number(), 'How many events are not in all lists'),
      })
      .describe('How far the lists are behind.'),
    processes: z.array(ProcessReport).readonly(),
    leaseHolder: z.string().nullable().describe('The process that projects.'),
    generations: z
      .array(
        z.object({
          generation: z.number(),
          active: z.boolean().describe('Whether lists are answered from it.'),
          slowest: PositionText,
          fastest: PositionText,
          behind: z.number().describe('How many of its 64 partitions are not at the head.'),
          problem: z.string().nullable().describe('Why its positions cannot be read, if so.'),
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
        problem: z.string().nullable().describe('Why it is failing, if so.'),
      })
      .nullable()
      .describe('The rebuild that is running.'),
    lastRebuild: z
      .object({
        rebuild: z.string(),
        outcome: z.string(),
        at: time,
        generation: z
          .number()
          .nullable()
          .describe('Lists are answered from it since, or will be soon; null where that is not known.'),
      })
      .nullable(),
    rollingBack: z.string().nullable().describe('The rebuild whose rollback is in progress.'),
    erasures: list(
      z.object({
        erasure: z.string(),
        state: z.string().describe('ordered or erased: see GET /operations/erasures/{id}.'),
        reason: z.string(),
        by: z.string(),
        since: time.describe('When the state was reached.'),
      }),
      'Erasures that are not over. Nothing says whose they are.',
    ),
    wayBack: z
      .object({ generation: z.number(), until: time })
      .nullable()
      .describe('What a rollback goes back to, and until when it can.'),
    blocked: z
      .object({ position: PositionText, stream: z.string(), revision: z.string(), reason: z.string() })
      .nullable()
      .describe(
        'Always null: before version 1.0, an event whose owner cannot be told and that stopped all lists.',
      ),
    parked: z
      .object({
        owners: z.number().describe('How many owners.'),
        events: list(
          z.object({
            position: PositionText,
            stream: z.string(),
            revision: z.number(),
            kind: UnreadKind,
            reason: z.string(),
          }),
          'The events that cannot be read, 20 at most.',
        ),
      })
      .describe('Owners whose lists are not answered, since an event cannot be read.'),
    skipped: list(
      z.object({
        stream: z.string().meta({
          description: 'Its stream; of an event of an owner its id, since the owner may be erased.',
        }),
        revision: z.number(),
        reason: z.string(),
        by: z.string(),
        at: z.string(),
        inForce: z.boolean(),
      }),
      'Events that are left out of the lists.',
    ),
  })
  .meta({ id: 'SystemStatus', description: 'The system at one moment.' });

export type SystemStatus = Readonly<z.infer<typeof SystemStatus>>;
