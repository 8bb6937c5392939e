import { type z } from 'zod';
import { CloudEvent } from '../history/cloud-event-schema.js';
import { type ProblemCode } from './problem.js';
import { type Answer, type Content, type Header, type Schema } from './route.js';
import { IdempotencyKey, positionOf } from './schemas.js';

/** Content that is JSON. */
export const json = (
  schema: z.ZodType | Schema,
  examples?: Content['examples'],
): NonNullable<Answer['content']> => ({
  'application/json': { schema, ...(examples && { examples }) },
});

/** Content of text, or of bytes. */
export const TEXT = { schema: { type: 'string' } };
export const BYTES = { schema: { type: 'string', format: 'binary' } };

/** A header field of text. */
export const textHeader = (description: string): Header => ({ description, schema: { type: 'string' } });

/** Problems of every route that writes. */
export const WRITING = [
  'idempotency_key_reused',
  'outcome_unknown',
  'log_unavailable',
  'owner_blocked',
] as const satisfies readonly ProblemCode[];

/** The position up to which an answer contains the log. */
export const positionOut = (description: string): Record<string, Header> => ({
  'Plants-Position': { description, schema: positionOf('').meta({ description: undefined }) },
});

/** The position that a list must contain at least. */
export const AT_LEAST = {
  'Plants-Position': positionOf(
    'From an earlier answer: the list contains at least everything up to there.',
  ).optional(),
};

/** The name of a request that may be sent again. */
export const KEY = { 'Idempotency-Key': IdempotencyKey.optional() };

/** Place at which a live stream goes on. */
export const LAST_EVENT = {
  'Last-Event-ID': {
    type: 'string',
    maxLength: 64,
    description: 'Where a live stream goes on: the id of the last event that came.',
  },
};

/** Of answers that may be compressed. */
export const CODING = {
  'Content-Encoding': textHeader('`gzip`, or not there.'),
  Vary: textHeader('`accept-encoding`, where the answer is long enough to be compressed.'),
};

/** Link to the next page. */
export const NEXT = {
  Link: textHeader('The next page, `<…>; rel="next"`, when there are more (RFC 8288).'),
};

/** Events as JSON arrays. */
export const EVENT_BATCHES: Record<string, Content> = {
  'application/cloudevents-batch+json': { schema: { type: 'array', items: CloudEvent } },
  'application/json': { schema: { type: 'array', items: CloudEvent } },
};
