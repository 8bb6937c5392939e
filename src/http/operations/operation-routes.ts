import { z } from 'zod';
import { OperationProgress } from '../../operations/long-operation.js';
import { RebuildEstimate } from '../../operations/operations.js';
import { PastOperation } from '../../operations/past-operations.js';
import { UnreadEvent } from '../../operations/skip-unread.js';
import { SystemStatus } from '../../operations/system-status.js';
import { Verification } from '../../operations/verification.js';
import { MAX_TEXT, nameFault } from '../../domain/fields.js';
import { type ProblemCode, ProblemDocument } from '../problem.js';
import { type Answer, type Routes } from '../route.js';
import { BYTES, json, KEY, NEXT, TEXT, textHeader, WRITING } from '../route-parts.js';
import { LIVE } from '../server-sent-events.js';
import { requestBody, limitOf, positionOf, ruledBy, wanted } from '../schemas.js';

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

const NewEstimate = requestBody('NewEstimate', 'Of which rebuild. All of it may be left out, the body too.', {
  rate,
});

const NewRebuild = requestBody('NewRebuild', 'How to rebuild. All of it may be left out, the body too.', {
  rate,
  unskip: z
    .boolean(wanted('true or false'))
    .optional()
    .meta({ description: 'Look again at events that were skipped.', default: false }),
});

const NewRollback = requestBody('NewRollback', 'Why to go back. It may be left out, the body too.', {
  reason: reasonOf('Why, for the history.', 'lists are slower than before').optional(),
});

const RebuildAccepted = z
  .strictObject({ rebuild: z.string().meta({ description: 'The id of the rebuild.' }) })
  .meta({ id: 'RebuildAccepted', description: 'Which rebuild it is about.' });

const NewSkip = requestBody('NewSkip', 'Which event is left out of the lists, and why.', {
  position: positionOf(
    'Of the event: one of `parked` in the status, or one that a warning names.',
    'must be the position of an event',
  ),
  reason: reasonOf('Why. It stays in the log.', 'written by a script of ours'),
  force: z
    .boolean(wanted('true or false'))
    .optional()
    .meta({ description: 'Skip it also where a newer version of this service can read it.', default: false }),
});

const SkipAccepted = z
  .strictObject({
    stream: z.string().meta({ description: 'The stream of the event.' }),
    revision: z.number().meta({ type: 'integer', description: 'Its number in that stream, from 0.' }),
  })
  .meta({ id: 'SkipAccepted', description: 'Which event it is about.' });

const NewLift = requestBody('NewLift', 'Why the alarm is lifted.', {
  reason: reasonOf('Why, for the record.', 'log restored from the backup of last night'),
});

const Lifted = z
  .object({
    lifted: z
      .looseObject({ kind: z.string(), message: z.string(), raisedAt: z.string() })
      .nullable()
      .meta({ description: 'The alarm that was lifted; null where none stood.' }),
  })
  .meta({ id: 'Lifted', description: 'The alarm that was lifted.' });

/** Operations in a page, unless the client says. */
export const DEFAULT_OPERATIONS = 100;

/** Most operations in a page: some 300 KB. */
export const MAX_OPERATIONS = 1_000;

const OperationsQuery = z.strictObject({
  limit: limitOf(
    `How many operations; a page never has more than ${MAX_OPERATIONS}, and ${DEFAULT_OPERATIONS} unless told.`,
  ).optional(),
  before: positionOf(
    'Only operations that began before this position: taken from the `Link` of a page.',
    'must be the position of an operation, or be taken from the Link of a page',
  ).optional(),
});

/** Problems of every route of operators. */
export const OPERATING = [...WRITING, 'operation_refused'] as const satisfies readonly ProblemCode[];

const FOLLOWING = [
  ...OPERATING,
  'read_model_unavailable',
  'read_model_incomplete',
  'too_many_streams',
] as const satisfies readonly ProblemCode[];

/** An answer that something was taken on. */
export const accepted = (description: string, schema: z.ZodType): Answer => ({
  description,
  headers: { Location: textHeader('Where it can be followed.') },
  content: json(schema),
});

/** An id in a path. */
export const idOf = (description: string) => ({
  type: 'string',
  format: 'uuid',
  description,
  examples: ['0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11'],
});

const FOLLOWED =
  'Server-sent events: `progress`, whose data is an OperationProgress, now and then; at the end `outcome`, or `problem` with a problem document. It ends with the connection.';

/** The answer to what is followed as it goes on, and what it ends with. */
const followed = (outcome: z.ZodType): Answer => ({
  description: 'How far it is, and what came of it.',
  content: {
    [LIVE]: {
      schema: {
        type: 'string',
        contentMediaType: LIVE,
        contentSchema: { anyOf: [OperationProgress, outcome, ProblemDocument] },
      },
    },
  },
});

/** https://www.iana.org/assignments/media-types/application/vnd.sqlite3 */
export const SQLITE = 'application/vnd.sqlite3';

const ORDER = { method: 'POST', scope: 'plants:operate', headers: KEY } as const;
const LOOK = { method: 'GET', scope: 'plants:operate' } as const;

export const operationRoutes = {
  listOperations: {
    ...LOOK,
    path: '/operations',
    summary: 'See what operators have asked for, and what came of it',
    description:
      'Rebuilds, their cancelling, rollbacks, skipped events and erasures, the newest first, from the log: all that was ever asked for, over HTTP or by a command. Nothing says whom an erasure was about.',
    query: OperationsQuery,
    answers: {
      200: {
        description: 'A page of operations.',
        headers: NEXT,
        content: json({ type: 'array', items: PastOperation }),
      },
    },
    problems: ['position_unknown', 'log_unavailable'],
  },
  estimateRebuild: {
    ...ORDER,
    path: '/operations/estimates',
    summary: 'Estimate how long a rebuild would take',
    description: `Nothing is asked for. ${FOLLOWED} A RebuildEstimate is the outcome.`,
    optionalBody: NewEstimate,
    types: [LIVE],
    answers: { 200: followed(RebuildEstimate) },
    problems: FOLLOWING,
  },
  verifyLists: {
    ...ORDER,
    path: '/operations/verifications',
    summary: 'Compare the lists with the log and with the signed state',
    description: `Beside all that goes on; nothing is mended. ${FOLLOWED} A Verification is the outcome.`,
    types: [LIVE],
    answers: { 200: followed(Verification) },
    problems: FOLLOWING,
  },
  liftAlarm: {
    ...ORDER,
    path: '/operations/lifts',
    summary: 'Lift the alarm of the auditor',
    description:
      'Once it is known why it was raised. The auditor then reads the whole log before it signs anything, and raises it again if the log is still not what was signed. Answered by a process with the roles `api` and `auditor`.',
    body: NewLift,
    example: { reason: 'restored from the backup of last night' },
    answers: { 200: { description: 'What was lifted, if anything was.', content: json(Lifted) } },
    problems: [...OPERATING, 'tree_unavailable'],
  },
  downloadBackup: {
    ...LOOK,
    path: '/operations/backup',
    summary: 'Download a backup of the embedded event log',
    description:
      'A copy of the log as it is at one moment, as `plants backup` makes it: it holds its own checksum, which `plants restore` looks at. Sent once it is made and checked. One at a time.',
    types: [SQLITE],
    answers: {
      200: {
        description: 'The backup. One that is shorter than Content-Length is none.',
        content: { [SQLITE]: BYTES },
      },
    },
    problems: ['operation_refused', 'log_unavailable'],
  },
  readUnread: {
    ...LOOK,
    path: '/operations/skips/{position}',
    summary: 'See an event that cannot be read',
    description: 'With what it holds, before it is left out of the lists.',
    params: { position: NewSkip.shape.position },
    answers: {
      200: { description: 'The event, and why it cannot be read.', content: json(UnreadEvent) },
    },
    problems: ['operation_refused', 'log_unavailable', 'read_model_unavailable'],
  },
  requestRebuild: {
    ...ORDER,
    path: '/operations/rebuilds',
    summary: 'Rebuild the lists',
    description:
      'Beside those that are answered: they are verified, and then switched to. One at a time. A projector does it.',
    optionalBody: NewRebuild,
    answers: {
      202: accepted(
        'It is requested. The same Idempotency-Key gives the same rebuild again.',
        RebuildAccepted,
      ),
    },
    problems: OPERATING,
  },
  cancelRebuild: {
    method: 'DELETE',
    path: '/operations/rebuilds/{id}',
    scope: 'plants:operate',
    summary: 'Cancel the rebuild that is running',
    description: 'That one, and no other. What it has built is dropped.',
    params: { id: idOf('The id of the rebuild, from the answer to its request or from the status.') },
    headers: KEY,
    answers: { 204: { description: 'It is cancelled.' } },
    problems: [...OPERATING, 'rebuild_not_found'],
  },
  requestRollback: {
    ...ORDER,
    path: '/operations/rollback',
    summary: 'Go back to the lists from before the last rebuild',
    description: 'For 15 minutes after a rebuild, or until the next one: `wayBack` of the status.',
    optionalBody: NewRollback,
    answers: { 202: accepted('It is requested.', RebuildAccepted) },
    problems: OPERATING,
  },
  skipEvent: {
    ...ORDER,
    path: '/operations/skips',
    summary: 'Leave an event that cannot be read out of the lists',
    description:
      'One that the status names: its owner, or every owner, gets no list until then. It stays in the log; a rebuild with `unskip` looks at it again.',
    body: NewSkip,
    example: { position: '0000000000000042', reason: 'not ours' },
    answers: {
      202: accepted(
        'It is skipped, and lists go on within seconds. The same Idempotency-Key skips it once.',
        SkipAccepted,
      ),
    },
    problems: OPERATING,
  },
  followStatus: {
    ...LOOK,
    path: '/operations/events',
    summary: 'Follow the status as it changes',
    description:
      'Server-sent events: an event `status`, whose data is the SystemStatus of `GET /operations/status`, at once and when it has changed, at most once a second. A client that reads slowly gets the newest one and none of those before. Stores that do not answer are named in it (`unanswered`). It ends with the token, and when the process stops: come back then.',
    types: [LIVE],
    answers: { 200: { description: 'The status, for as long as you read.', content: { [LIVE]: TEXT } } },
    problems: ['too_many_streams'],
  },
  readStatus: {
    ...LOOK,
    path: '/operations/status',
    summary: 'See processes, lists, rebuilds and what is wrong',
    description: 'As `plants status --json` shows it.',
    answers: { 200: { description: 'The system at one moment.', content: json(SystemStatus) } },
  },
} satisfies Routes;
