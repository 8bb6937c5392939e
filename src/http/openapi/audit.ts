import { AuditQuery } from '../audit/audit-schemas.js';
import { PositionHeader } from '../schemas.js';
import {
  codingOut,
  etagIn,
  etagOut,
  eventsIn,
  EVERYWHERE,
  lastEventIn,
  type PathItem,
  problems,
  queryOf,
  schemaOf,
  textHeader,
  TOKEN,
  unchanged,
} from './parts.js';

const reachOut = {
  Link: textHeader(
    'What is after this page, `<…>; rel="next"`, when there may be more (RFC 8288). Also of a page that ends early, since looking for its events took long.',
  ),
  'Plants-Position': {
    ...textHeader('Of a page: everything up to here was looked at. Send it as `after` to go on.'),
    schema: schemaOf(PositionHeader.meta({ description: undefined })),
  },
};

/** The events of all owners. */
export const auditPaths: Readonly<Record<string, PathItem>> = {
  '/audit/events': {
    get: {
      tags: ['audit'],
      security: TOKEN,
      operationId: 'readEvents',
      summary: 'Read the events of all owners, in the order of the log',
      description:
        'A page is a JSON array. `Accept: application/x-ndjson` gives all of them, one in each line, as fast as you read; if the connection breaks off, it was not all; over HTTP/1.0, which cannot tell, it is refused. `Accept: text/event-stream` goes on with what is still to come; `Last-Event-ID` resumes it.',
      parameters: [...queryOf(AuditQuery), lastEventIn, etagIn],
      responses: {
        200: {
          description: 'Events, as CloudEvents.',
          headers: { ...reachOut, ...etagOut, ...codingOut },
          content: eventsIn(
            'application/cloudevents-batch+json',
            'application/json',
            'application/x-ndjson',
            'text/event-stream',
          ),
        },
        ...unchanged({ ...reachOut, ...etagOut }),
        ...problems(
          ...EVERYWHERE,
          'invalid_request',
          'position_unknown',
          'upgrade_required',
          'log_unavailable',
          'too_many_streams',
        ),
      },
    },
  },
};
