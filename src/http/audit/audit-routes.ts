import { LINES, LINES_TYPES } from '../long-bodies.js';
import { type Routes } from '../route.js';
import { CODING, EVENT_BATCHES, LAST_EVENT, positionOut, TEXT, textHeader } from '../route-parts.js';
import { LIVE } from '../server-sent-events.js';
import { AuditQuery, BATCH_TYPES } from './audit-schemas.js';

/** The events of all owners. */
export const auditRoutes = {
  readEvents: {
    method: 'GET',
    path: '/audit/events',
    scope: 'plants:audit',
    summary: 'Read the events of all owners, in the order of the log',
    description:
      'A page is a JSON array. `Accept: application/x-ndjson` gives all of them, one in each line, as fast as you read; if the connection breaks off, it was not all; over HTTP/1.0, which cannot tell, it is refused. `Accept: text/event-stream` goes on with what is still to come; `Last-Event-ID` resumes it.',
    query: AuditQuery,
    headers: LAST_EVENT,
    types: [...BATCH_TYPES, ...LINES_TYPES, LIVE],
    hasTag: true,
    answers: {
      200: {
        description: 'Events, as CloudEvents.',
        headers: {
          Link: textHeader(
            'What is after this page, `<…>; rel="next"`, when there may be more (RFC 8288). Also of a page that ends early, since looking for its events took long.',
          ),
          ...positionOut('Of a page: everything up to here was looked at. Send it as `after` to go on.'),
          ...CODING,
        },
        content: { ...EVENT_BATCHES, [LINES]: TEXT, [LIVE]: TEXT },
      },
    },
    problems: ['position_unknown', 'upgrade_required', 'log_unavailable', 'too_many_streams'],
  },
} satisfies Routes;
