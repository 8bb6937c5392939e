import { z } from 'zod';
import { accountOf, After, limitOf, moment, PlantId } from '../schemas.js';

/** Events as a JSON array: the batch format of CloudEvents, and the same for clients that know JSON only. */
export const BATCH_TYPES = ['application/cloudevents-batch+json', 'application/json'] as const;

export const isBatch = (type: string): boolean => BATCH_TYPES.some((batch) => batch === type);

/** Events in a page, unless the client says. */
export const DEFAULT_EVENTS = 100;

/** Most events in a page: about 1 MB of usual ones. */
export const MAX_EVENTS = 1_000;

const instant = (description: string) =>
  z
    .string()
    .transform(moment)
    .meta({ type: 'string', format: 'date-time', description, examples: ['2026-01-31T12:00:00Z'] });

const position = (description: string, pattern = '^[0-9]{1,64}$') =>
  z.string().meta({ pattern, description, examples: ['0000000000000042'] });

/** Last-Event-ID in the query; an empty one is none, as in the header. */
const LastEventId = position(
  'Of a live stream: `Last-Event-ID`, for clients that cannot send it as a header.',
  '^[0-9]{0,64}$',
).regex(/^[0-9]{0,64}$/, 'must be the id of an event that came');

/** The query of GET /plants/events. */
export const ListEventsQuery = z.strictObject({ lastEventId: LastEventId.optional() });

/** The query of GET /audit/events. */
export const AuditQuery = z
  .strictObject({
    owner: accountOf("Events of this owner's plants and requests.").optional(),
    plant: PlantId.meta({ type: 'integer', description: 'Events of this plant; needs `owner`.' }).optional(),
    type: z
      .string()
      .min(1, 'must not be empty')
      .meta({
        description: 'Events of this type; with its version, as the events show it, or without.',
        examples: ['PlantCreated'],
      })
      .optional(),
    actor: accountOf('Events that this subject asked for.').optional(),
    since: instant('Decided at this moment or later. An event that does not say when passes.').optional(),
    until: instant('Decided at this moment or earlier. An event that does not say when passes.').optional(),
    after: position(
      'Events after this position: from an earlier answer, or `head` for what is still to come.',
      '^([0-9]{1,64}|head)$',
    ).optional(),
    lastEventId: LastEventId.optional(),
    upTo: position('Events up to this position, itself included. Not for a live stream.').optional(),
    limit: limitOf(
      `How many events; a page never has more than ${MAX_EVENTS}, and ${DEFAULT_EVENTS} unless told. A stream has all, unless told. Not for a live stream.`,
    ).optional(),
  })
  .superRefine(({ owner, plant }, context) => {
    if (plant !== undefined && owner === undefined)
      context.addIssue({
        code: 'custom',
        path: ['plant'],
        message: 'must come with owner: plants of different owners may have the same id',
      });
  });

/** The query of GET /plants/{id}/history. */
export const PlantHistoryQuery = z.strictObject({
  limit: limitOf(
    `How many events; a page never has more than ${MAX_EVENTS}, and ${DEFAULT_EVENTS} unless told. Lines have all, unless told.`,
  ).optional(),
  after: After.optional(),
});
