import { NewSkip, OperationsQuery } from '../operations/operation-schemas.js';
import {
  EVERYWHERE,
  json,
  keyIn,
  nextOut,
  parameter,
  type PathItem,
  problems,
  queryOf,
  reference,
  type Response,
  textHeader,
  TOKEN,
  WRITING,
} from './parts.js';

const ALL = { tags: ['operations'], security: TOKEN };

/** An answer that something was taken on. */
const accepted = (description: string): Response => ({
  description,
  headers: { Location: textHeader('Where it can be followed.') },
  content: json(reference('RebuildAccepted')),
});

const refusedOperations = problems(
  ...EVERYWHERE,
  ...WRITING,
  'malformed_json',
  'unsupported_media_type',
  'operation_refused',
);

const FOLLOWED =
  'Server-sent events: `progress`, whose data is an OperationProgress, now and then; at the end `outcome`, or `problem` with a problem document. It ends with the connection.';

/** The answer to what is followed as it goes on; `outcome` is the schema of its end. */
const followed = (outcome: string): Response => ({
  description: 'How far it is, and what came of it.',
  content: {
    'text/event-stream': {
      schema: {
        type: 'string',
        contentMediaType: 'text/event-stream',
        contentSchema: { anyOf: [reference('OperationProgress'), reference(outcome), reference('Problem')] },
      },
    },
  },
});

const FOLLOWING = [
  ...EVERYWHERE,
  ...WRITING,
  'log_unavailable',
  'read_model_unavailable',
  'read_model_incomplete',
  'operation_refused',
  'too_many_streams',
] as const;

const id = parameter('path', 'id', {
  type: 'string',
  format: 'uuid',
  description: 'The id of the rebuild, from the answer to its request or from the status.',
  examples: ['0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11'],
});

/** What operators do with a running system. */
export const operationPaths: Readonly<Record<string, PathItem>> = {
  '/operations': {
    get: {
      ...ALL,
      operationId: 'listOperations',
      summary: 'See what operators have asked for, and what came of it',
      description:
        'Rebuilds, their cancelling, rollbacks, skipped events and erasures, the newest first, from the log: all that was ever asked for, over HTTP or by a command. Nothing says whom an erasure was about.',
      parameters: [...queryOf(OperationsQuery)],
      responses: {
        200: {
          description: 'A page of operations.',
          headers: nextOut,
          content: json({ type: 'array', items: reference('PastOperation') }),
        },
        ...problems(...EVERYWHERE, 'invalid_request', 'position_unknown', 'log_unavailable'),
      },
    },
  },
  '/operations/estimates': {
    post: {
      ...ALL,
      operationId: 'estimateRebuild',
      summary: 'Estimate how long a rebuild would take',
      description: `Nothing is asked for. ${FOLLOWED} A RebuildEstimate is the outcome.`,
      parameters: [keyIn],
      requestBody: {
        required: false,
        content: json(reference('NewEstimate'), { plain: { summary: 'As most want it', value: {} } }),
      },
      responses: {
        200: followed('RebuildEstimate'),
        ...problems(...FOLLOWING, 'malformed_json', 'unsupported_media_type'),
      },
    },
  },
  '/operations/verifications': {
    post: {
      ...ALL,
      operationId: 'verifyLists',
      summary: 'Compare the lists with the log and with the signed state',
      description: `Beside all that goes on; nothing is mended. ${FOLLOWED} A Verification is the outcome.`,
      parameters: [keyIn],
      responses: { 200: followed('Verification'), ...problems(...FOLLOWING) },
    },
  },
  '/operations/lifts': {
    post: {
      ...ALL,
      operationId: 'liftAlarm',
      summary: 'Lift the alarm of the auditor',
      description:
        'Once it is known why it was raised. The auditor then reads the whole log before it signs anything, and raises it again if the log is still not what was signed. Answered by a process with the roles `api` and `auditor`.',
      parameters: [keyIn],
      requestBody: {
        required: true,
        content: json(reference('NewLift'), {
          plain: { summary: 'As most want it', value: { reason: 'restored from the backup of last night' } },
        }),
      },
      responses: {
        200: { description: 'What was lifted, if anything was.', content: json(reference('Lifted')) },
        ...refusedOperations,
        ...problems('tree_unavailable'),
      },
    },
  },
  '/operations/backup': {
    get: {
      ...ALL,
      operationId: 'downloadBackup',
      summary: 'Download a backup of the embedded event log',
      description:
        'A copy of the log as it is at one moment, as `plants backup` makes it: it holds its own checksum, which `plants restore` looks at. Sent once it is made and checked. One at a time.',
      responses: {
        200: {
          description: 'The backup. One that is shorter than Content-Length is none.',
          content: { 'application/vnd.sqlite3': { schema: { type: 'string', format: 'binary' } } },
        },
        ...problems(...EVERYWHERE, 'invalid_request', 'operation_refused', 'log_unavailable'),
      },
    },
  },
  '/operations/skips/{position}': {
    get: {
      ...ALL,
      operationId: 'readUnread',
      summary: 'See an event that cannot be read',
      description: 'With what it holds, before it is left out of the lists.',
      parameters: [parameter('path', 'position', NewSkip.shape.position)],
      responses: {
        200: {
          description: 'The event, and why it cannot be read.',
          content: json(reference('UnreadEvent')),
        },
        ...problems(
          ...EVERYWHERE,
          'invalid_request',
          'operation_refused',
          'log_unavailable',
          'read_model_unavailable',
        ),
      },
    },
  },
  '/operations/erasures/counts': {
    post: {
      ...ALL,
      operationId: 'countOwned',
      summary: 'See how many events an erasure would erase',
      description: 'Nothing is erased. Takes the scope `plants:erase`.',
      parameters: [keyIn],
      requestBody: {
        required: true,
        content: json(reference('ErasureCount'), {
          plain: { summary: 'As most want it', value: { owner: 'alice' } },
        }),
      },
      responses: {
        200: { description: 'How many.', content: json(reference('ErasureCounted')) },
        ...refusedOperations,
      },
    },
  },
  '/operations/rebuilds': {
    post: {
      ...ALL,
      operationId: 'requestRebuild',
      summary: 'Rebuild the lists',
      description:
        'Beside those that are answered: they are verified, and then switched to. One at a time. A projector does it.',
      parameters: [keyIn],
      requestBody: {
        required: false,
        content: json(reference('NewRebuild'), { plain: { summary: 'As most want it', value: {} } }),
      },
      responses: {
        202: accepted('It is requested. The same Idempotency-Key gives the same rebuild again.'),
        ...refusedOperations,
      },
    },
  },
  '/operations/rebuilds/{id}': {
    delete: {
      ...ALL,
      operationId: 'cancelRebuild',
      summary: 'Cancel the rebuild that is running',
      description: 'That one, and no other. What it has built is dropped.',
      parameters: [id, keyIn],
      responses: {
        204: { description: 'It is cancelled.' },
        ...problems(...EVERYWHERE, ...WRITING, 'rebuild_not_found', 'operation_refused'),
      },
    },
  },
  '/operations/rollback': {
    post: {
      ...ALL,
      operationId: 'requestRollback',
      summary: 'Answer lists from what the last rebuild replaced',
      description: 'For 15 minutes after a rebuild, or until the next one: `wayBack` of the status.',
      parameters: [keyIn],
      requestBody: {
        required: false,
        content: json(reference('NewRollback'), { plain: { summary: 'As most want it', value: {} } }),
      },
      responses: { 202: accepted('It is requested.'), ...refusedOperations },
    },
  },
  '/operations/skips': {
    post: {
      ...ALL,
      operationId: 'skipEvent',
      summary: 'Leave an event that cannot be read out of the lists',
      description:
        'One that the status names: its owner, or everybody, gets no list until then. It stays in the log; a rebuild with `unskip` looks at it again.',
      parameters: [keyIn],
      requestBody: {
        required: true,
        content: json(reference('NewSkip'), {
          plain: { summary: 'As most want it', value: { position: '0000000000000042', reason: 'not ours' } },
        }),
      },
      responses: {
        202: {
          description:
            'It is skipped, and lists go on within seconds. The same Idempotency-Key skips it once.',
          headers: { Location: textHeader('Where it can be followed.') },
          content: json(reference('SkipAccepted')),
        },
        ...refusedOperations,
      },
    },
  },
  '/operations/erasures': {
    post: {
      ...ALL,
      operationId: 'orderErasure',
      summary: 'Erase an owner',
      description:
        'All plants and events of this owner are removed from all stores; a hash of each event is left, so that proofs of before still verify. It cannot be undone. Takes the scope `plants:erase`. A process with the role `auditor` does it.',
      parameters: [keyIn],
      requestBody: {
        required: true,
        content: json(reference('NewErasure'), {
          plain: { summary: 'As most want it', value: { owner: 'alice', reason: 'request 4711' } },
        }),
      },
      responses: {
        202: {
          description: 'It is ordered. The same Idempotency-Key gives the same erasure again.',
          headers: { Location: textHeader('Where it can be followed.') },
          content: json(reference('ErasureAccepted')),
        },
        ...refusedOperations,
      },
    },
  },
  '/operations/erasures/{id}': {
    get: {
      ...ALL,
      operationId: 'readErasure',
      summary: 'See how far an erasure is',
      description: 'Takes the scope `plants:erase`.',
      parameters: [
        parameter('path', 'id', {
          type: 'string',
          format: 'uuid',
          description: 'The id of the erasure, from the answer to its order.',
          examples: ['0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11'],
        }),
      ],
      responses: {
        200: { description: 'The erasure.', content: json(reference('ErasureStatus')) },
        ...problems(...EVERYWHERE, 'invalid_request', 'erasure_not_found', 'log_unavailable'),
      },
    },
  },
  '/operations/events': {
    get: {
      ...ALL,
      operationId: 'followStatus',
      summary: 'Follow the status as it changes',
      description:
        'Server-sent events: an event `status`, whose data is the SystemStatus of `GET /operations/status`, at once and when it has changed, at most once a second. A client that reads slowly gets the newest one and none of those before. Stores that do not answer are named in it (`unanswered`). It ends with the token, and when the process stops: come back then.',
      responses: {
        200: {
          description: 'The status, for as long as you read.',
          content: { 'text/event-stream': { schema: { type: 'string' } } },
        },
        ...problems(...EVERYWHERE, 'invalid_request', 'too_many_streams'),
      },
    },
  },
  '/operations/status': {
    get: {
      ...ALL,
      operationId: 'readStatus',
      summary: 'See processes, lists, rebuilds and what is wrong',
      description: 'As `plants status --json` shows it.',
      responses: {
        200: { description: 'The system at one moment.', content: json(reference('SystemStatus')) },
        ...problems(...EVERYWHERE, 'invalid_request'),
      },
    },
  },
};
