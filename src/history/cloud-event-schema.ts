import { z } from 'zod';

const text = (description: string) => z.string().meta({ description }).optional();

/**
 * An event as a CloudEvents 1.0 JSON object: the one declaration of it, for the code and for the OpenAPI document. What
 * CloudEvents does not define are extension attributes; those that an event has nothing for are left out.
 */
export const CloudEvent = z
  .object({
    specversion: z.literal('1.0'),
    id: z.string().meta({ description: 'A UUID.' }),
    // No host and no store: those change when a log is copied or moved, and an event stays the same.
    source: z.literal('urn:plants:log'),
    type: z
      .string()
      .meta({ description: 'Type and version, as stored.', examples: ['plants.PlantCreated.v1'] }),
    subject: text('The plant: `plants/7`; or the request, or the operation.'),
    time: text('When it was decided, RFC 3339.'),
    datacontenttype: z.literal('application/json'),
    data: z.unknown().meta({ description: 'As stored.', examples: [{ id: 7, name: 'n', tag: '' }] }),
    owner: text('Whose plant or request.'),
    position: z.string().meta({ description: 'Its place in this log. Another one in a copy.' }),
    stream: z.string().meta({ description: 'One for each plant of each owner.' }),
    revision: z.int().min(0).meta({ description: 'Its number in its stream, from 0.' }),
    actor: text("Who asked: a token's subject."),
    clientid: text('The client that the token was issued to.'),
    correlationid: text('The same for everything that follows from one request.'),
    causationid: text('The command that caused it.'),
    traceparent: text('W3C Trace Context.'),
    refused: text('Why the service cannot read this event, which is shown as it was stored.'),
    metadata: text('The JSON text of its metadata, where that says more than the attributes.'),
  })
  .meta({ id: 'CloudEvent', description: 'A CloudEvents 1.0 object; extensions from `owner` on.' });

/** See the schema. */
export type CloudEvent = z.infer<typeof CloudEvent>;
