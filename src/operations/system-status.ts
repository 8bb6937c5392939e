import { z } from 'zod';
import { PositionText, ProcessReport } from './process-report.js';

const time = z.iso.datetime();
const orUnknown = (schema: z.ZodNumber, description: string) =>
  schema.nullable().meta({ description: `${description}; null where it is not known.` });

/** The answer of GET /operations/status. Members may be added: clients must ignore unknown ones. */
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
    unanswered: z
      .array(z.enum(['event log', 'read model']))
      .readonly()
      .meta({
        description:
          'Stores that did not answer within a second: what they know is missing here, and `problems` says why.',
      }),
    head: PositionText,
    lag: z
      .object({
        seconds: orUnknown(z.number(), 'The age of the oldest event that is not in all lists'),
        events: orUnknown(z.number(), 'How many events are not in all lists'),
      })
      .meta({ description: 'How far the lists are behind.' }),
    processes: z.array(ProcessReport).readonly(),
    leaseHolder: z.string().nullable().meta({ description: 'The process that projects.' }),
    generations: z
      .array(
        z.object({
          generation: z.number(),
          active: z.boolean().meta({ description: 'Whether lists are answered from it.' }),
          slowest: PositionText,
          fastest: PositionText,
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
        problem: z.string().nullable().meta({ description: 'Why it is failing, if so.' }),
      })
      .nullable()
      .meta({ description: 'The rebuild that is under way.' }),
    lastRebuild: z
      .object({
        rebuild: z.string(),
        outcome: z.string(),
        at: time,
        generation: z.number().nullable().meta({
          description: 'Lists are answered from it since, or will be soon; null where that is not known.',
        }),
      })
      .nullable(),
    rollingBack: z.string().nullable().meta({ description: 'The rebuild whose rollback is under way.' }),
    erasures: z
      .array(
        z.object({
          erasure: z.string(),
          state: z.string().meta({ description: 'ordered or erased: see GET /operations/erasures/{id}.' }),
          reason: z.string(),
          by: z.string(),
          since: time.meta({ description: 'When the state was reached.' }),
        }),
      )
      .readonly()
      .meta({ description: 'Erasures that are not over. Nothing says whose they are.' }),
    wayBack: z
      .object({ generation: z.number(), until: time })
      .nullable()
      .meta({ description: 'What a rollback goes back to, and until when it can.' }),
    blocked: z
      .object({ position: PositionText, stream: z.string(), revision: z.string(), reason: z.string() })
      .nullable()
      .meta({
        description:
          'Always null: before version 1.0, an event whose owner cannot be told and that stopped all lists.',
      }),
    parked: z
      .object({
        owners: z.number().meta({ description: 'How many owners.' }),
        events: z
          .array(
            z.object({
              position: PositionText,
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

export type SystemStatus = Readonly<z.infer<typeof SystemStatus>>;
