import { z } from 'zod';
import { MAX_LISTED } from '../../transparency/list-proof.js';
import { type ProblemCode } from '../problem.js';
import { type Routes } from '../route.js';
import { BYTES, CODING, json, TEXT, textHeader } from '../route-parts.js';
import { After, limitOf, positionOf, wanted } from '../schemas.js';

const digits = (description: string, example: number) =>
  z
    .string(wanted('an integer'))
    .regex(/^(0|[1-9]\d{0,15})$/, 'must be an integer in plain decimal form')
    .transform(Number)
    .refine(Number.isSafeInteger, 'must be an integer up to 2^53 - 1')
    .meta({
      type: 'integer',
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description,
      examples: [example],
    });

const position = positionOf('The position of an event, from an earlier answer.');

const InclusionQuery = z.strictObject({
  index: digits('Which leaf, from 0. Either this or `position`.', 0).meta({ example: 0 }).optional(),
  position: position.optional(),
  size: digits(
    'The size of the tree that it is to be proven in; without it, that of the last checkpoint.',
    41,
  ).optional(),
});

const ConsistencyQuery = z.strictObject({
  from: digits('The size of the smaller tree, at least 1.', 1),
  to: digits('The size of the greater tree; without it, that of the last checkpoint.', 41).optional(),
});

const ReceiptQuery = z.strictObject({ position });

const ListProofQuery = z.strictObject({
  limit: limitOf(`How many plants to list; never more than ${MAX_LISTED} are.`).optional(),
  after: After.optional(),
  position: positionOf(
    'What the list has to contain: the position of an event, from an earlier answer.',
  ).optional(),
});

const base64 = z.string().meta({ description: '32 bytes in base64.' });
const size = z.int().min(0).meta({ description: 'Leaves in the tree.' });
const hashes = z.array(base64).meta({ description: 'Hashes in base64, in the order of RFC 9162.' });

const InclusionProof = z
  .object({ index: z.int().min(0), size, leafHash: base64, root: base64, proof: hashes })
  .meta({
    id: 'InclusionProof',
    description: 'A proof that a leaf is in the tree: RFC 9162, section 2.1.3.',
  });

const ConsistencyProof = z
  .object({ from: size, to: size, fromRoot: base64, toRoot: base64, proof: hashes })
  .meta({
    id: 'ConsistencyProof',
    description: 'A proof that a tree is the beginning of another: RFC 9162, section 2.1.4.',
  });

const sibling = z.object({ bit: z.int().min(0).max(319), hash: base64 });

const LogListProof = z
  .object({
    format: z.literal('plants-list'),
    version: z
      .literal([1, 2])
      .meta({ description: '2 where `cosigned` is there: another note than `checkpoint` is cosigned.' }),
    owner: z.string(),
    after: z.int().optional().meta({ description: 'Only plants with greater ids are listed.' }),
    last: z.boolean().meta({ description: 'Whether no plant of the owner comes after the page.' }),
    plants: z.array(
      z.object({
        id: z.int(),
        event: z
          .object({ data: z.unknown(), id: z.string() })
          .meta({ description: 'Of the event that created the plant.' }),
      }),
    ),
    before: z
      .object({ id: z.int(), value: base64 })
      .optional()
      .meta({ description: 'The last plant before the page.' }),
    instead: z
      .object({ key: z.string(), value: base64 })
      .optional()
      .meta({ description: 'Where the owner has no plant: what is in the state beside it.' }),
    left: z.array(sibling),
    right: z.array(sibling),
    checkpoint: z.string().meta({ description: 'The signed checkpoint, with the state root.' }),
    cosigned: z
      .string()
      .optional()
      .meta({ description: 'The same checkpoint without the state root, with its cosignatures.' }),
    witnesses: z.array(z.string()).optional().meta({ description: 'As in a receipt.' }),
  })
  .meta({
    id: 'LogListProof',
    description: 'A proof that a page of a list is complete, good without the service.',
  });

const LogAlarm = z
  .object({
    alarm: z
      .object({
        kind: z.string().meta({
          description:
            'changed, missing, inserted, swapped, moved, shorter, tree, contradiction or fork (docs/audit.md).',
        }),
        index: z.int().min(0).optional().meta({ description: 'The first leaf that differs, where known.' }),
        position: z.string().optional(),
        stream: z.string().optional(),
        revision: z.string().optional(),
        message: z.string().meta({ description: 'All of it in one line.' }),
        raisedAt: z.string().meta({ format: 'date-time' }),
      })
      .nullable()
      .meta({ description: 'Null where none stands.' }),
  })
  .meta({ id: 'LogAlarm', description: 'The alarm that stands: nothing is signed until it is lifted.' });

const LogReceipt = z
  .object({
    event: z
      .object({
        data: z.unknown(),
        id: z.string(),
        metadata: z.unknown(),
        revision: z.int(),
        stream: z.string(),
        type: z.string(),
      })
      .meta({ description: 'The leaf: its RFC 8785 canonical JSON is what was hashed.' }),
    index: z.int().min(0),
    proof: hashes,
    checkpoint: z
      .string()
      .meta({ description: 'The signed checkpoint that covers it (C2SP tlog-checkpoint).' }),
    witnesses: z.array(z.string()).optional().meta({
      description:
        'Name and id of the key of each witness that has cosigned the checkpoint; absent where no witnesses are set.',
    }),
  })
  .meta({ id: 'LogReceipt', description: 'A proof that an event is in the log, good without the service.' });

/** Problems of every route that reads the tree. */
const TREE = [
  'entry_not_found',
  'not_signed_yet',
  'tree_unavailable',
  'log_altered',
] as const satisfies readonly ProblemCode[];

const CACHING = { 'Cache-Control': textHeader('How long it may be kept: for ever where it never changes.') };

const BINARY = { 'application/octet-stream': BYTES };

const tilePath = {
  type: 'string',
  pattern: String.raw`^(x\d{3}/)*\d{3}(\.p/[1-9]\d{0,2})?$`,
  maxLength: 32,
  description:
    'N, and for a partial tile its width, as C2SP tlog-tiles spells them. The slashes in it may be percent-encoded, as clients do that are generated.',
  examples: ['000.p/1', 'x001/067'],
};

/** The tree over all events. */
export const logRoutes = {
  readCheckpoint: {
    method: 'GET',
    path: '/log/checkpoint',
    scope: 'no token',
    summary: 'Get the last signed checkpoint',
    description: 'A signed note (C2SP tlog-checkpoint). `plants audit-key` prints what it is verified with.',
    types: 'any',
    answers: { 200: { description: 'The checkpoint.', headers: CACHING, content: { 'text/plain': TEXT } } },
    problems: ['not_signed_yet', 'tree_unavailable', 'log_altered'],
  },
  readState: {
    method: 'GET',
    path: '/log/state',
    scope: 'no token',
    summary: 'Get the signed state root of the last checkpoint',
    description:
      'The last checkpoint in a note of its own, with the root of the state below it (docs/state-tree.md).',
    types: 'any',
    answers: { 200: { description: 'The note.', headers: CACHING, content: { 'text/plain': TEXT } } },
    problems: ['not_signed_yet', 'tree_unavailable', 'log_altered'],
  },
  readEntries: {
    method: 'GET',
    path: '/log/tile/entries/{path}',
    scope: 'plants:audit',
    summary: 'Get leaves of the tree: events as canonical JSON (C2SP tlog-tiles entry bundle)',
    description: 'Up to 256 of them. They hold all that events say, so that it needs `plants:audit`.',
    params: { path: tilePath },
    types: 'any',
    hasTag: true,
    answers: {
      200: {
        description: 'Leaves, each behind its length in two bytes; as gzip to clients that accept it.',
        headers: { ...CACHING, ...CODING },
        content: BINARY,
      },
    },
    problems: [...TREE, 'log_unavailable'],
  },
  readTile: {
    method: 'GET',
    path: '/log/tile/{level}/{path}',
    scope: 'no token',
    summary: 'Get hashes of the tree (C2SP tlog-tiles)',
    description: 'Up to 256 of them, one behind the other.',
    params: {
      level: {
        type: 'integer',
        minimum: 0,
        maximum: 63,
        description:
          'The level of the tile: 0 holds the hashes of leaves, 1 those of the full tiles of level 0.',
        examples: [0],
      },
      path: tilePath,
    },
    types: 'any',
    hasTag: true,
    answers: {
      200: { description: 'Hashes of 32 bytes, one behind the other.', headers: CACHING, content: BINARY },
    },
    problems: TREE,
  },
  proveInclusion: {
    method: 'GET',
    path: '/log/proof/inclusion',
    scope: 'plants:audit',
    summary: 'Prove that an event is in the tree',
    description: 'Of the leaf with this `index`, or of the event at this `position`: send one of them.',
    query: InclusionQuery,
    answers: { 200: { description: 'The proof.', content: json(InclusionProof) } },
    problems: [...TREE, 'position_unknown', 'log_unavailable'],
  },
  proveConsistency: {
    method: 'GET',
    path: '/log/proof/consistency',
    scope: 'no token',
    summary: 'Prove that an earlier tree is the beginning of a later one',
    description: 'Public: anyone who has kept an earlier checkpoint compares it with the last one.',
    query: ConsistencyQuery,
    answers: { 200: { description: 'The proof.', headers: CACHING, content: json(ConsistencyProof) } },
    problems: ['not_signed_yet', 'tree_unavailable', 'log_altered'],
  },
  readAlarm: {
    method: 'GET',
    path: '/log/alarm',
    scope: 'plants:audit',
    summary: 'Get the alarm that stands, if any',
    description:
      'An event was altered, or something else is not as it was signed. Nothing is signed until an operator has lifted it.',
    answers: { 200: { description: 'The alarm, or null.', content: json(LogAlarm) } },
    problems: ['tree_unavailable'],
  },
  readReceipt: {
    method: 'GET',
    path: '/log/receipt',
    scope: 'plants:read',
    summary: 'Get a proof that a write of yours is in the log',
    description:
      'Waits a moment for a checkpoint that covers it. Events of other owners are not found, except by auditors.',
    query: ReceiptQuery,
    types: ['application/json', 'text/plain'],
    answers: {
      200: {
        description:
          'The receipt; with `Accept: text/plain` as C2SP tlog-proof, whose extra data is the event.',
        content: { ...json(LogReceipt), 'text/plain': TEXT },
      },
    },
    problems: [...TREE, 'position_unknown', 'log_unavailable'],
  },
  proveList: {
    method: 'GET',
    path: '/log/list',
    scope: 'plants:read',
    summary: 'Get a proof that a page of your list is complete',
    description:
      'As of the last checkpoint that covers `position`, for which it waits a moment. `plants check` verifies it offline: nothing is left out between its first and its last id, and nothing comes after the last page. Where you have no plant it takes `plants:audit` too.',
    query: ListProofQuery,
    hasTag: true,
    answers: {
      200: {
        description: 'The proof; as gzip to clients that accept it.',
        headers: CODING,
        content: json(LogListProof),
      },
    },
    problems: [...TREE, 'position_unknown', 'log_unavailable', 'too_many_in_flight'],
  },
} satisfies Routes;
