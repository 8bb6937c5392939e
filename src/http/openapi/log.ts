import { ConsistencyQuery, InclusionQuery, ListProofQuery, ReceiptQuery } from '../log/log-schemas.js';
import { type ProblemCode } from '../problem.js';
import {
  codingOut,
  etagIn,
  etagOut,
  EVERYWHERE,
  json,
  NO_TOKEN,
  oneOf,
  parameter,
  type PathItem,
  problems,
  PUBLIC,
  queryOf,
  reference,
  type Response,
  textHeader,
  TOKEN,
  unchanged,
} from './parts.js';

const PUBLICLY = { tags: ['log'], security: NO_TOKEN };
const WITH_TOKEN = { tags: ['log'], security: TOKEN };

/** What may go wrong with whatever reads the tree. */
const TREE = [
  'invalid_request',
  'entry_not_found',
  'not_signed_yet',
  'tree_unavailable',
  'log_altered',
] as const satisfies readonly ProblemCode[];

const cachingOut = {
  'Cache-Control': textHeader('How long it may be kept: for ever where it never changes.'),
};

const tileOut = { ...cachingOut, ...etagOut };

const levelIn = parameter('path', 'level', {
  type: 'integer',
  minimum: 0,
  maximum: 63,
  description: 'The level of the tile: 0 holds the hashes of leaves, 1 those of the full tiles of level 0.',
  examples: [0],
});

const pathIn = parameter('path', 'path', {
  type: 'string',
  pattern: String.raw`^(x\d{3}/)*\d{3}(\.p/[1-9]\d{0,2})?$`,
  maxLength: 32,
  description:
    'N, and for a partial tile its width, as C2SP tlog-tiles spells them. The slashes in it may be percent-encoded, as clients do that are generated.',
  examples: ['000.p/1', 'x001/067'],
});

const bytes = (description: string, headers: Response['headers']) => ({
  200: {
    description,
    ...(headers && { headers }),
    content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
  },
  ...unchanged(headers),
});

/** The tree over all events. */
export const logPaths: Readonly<Record<string, PathItem>> = {
  '/log/checkpoint': {
    get: {
      ...PUBLICLY,
      operationId: 'readCheckpoint',
      summary: 'Get the last signed checkpoint',
      description:
        'A signed note (C2SP tlog-checkpoint). `plants audit-key` prints what it is verified with.',
      responses: {
        200: {
          description: 'The checkpoint.',
          headers: cachingOut,
          content: { 'text/plain': { schema: { type: 'string' } } },
        },
        ...problems(...PUBLIC, 'invalid_request', 'not_signed_yet', 'tree_unavailable', 'log_altered'),
      },
    },
  },
  '/log/tile/entries/{path}': {
    get: {
      ...WITH_TOKEN,
      operationId: 'readEntries',
      summary: 'Get leaves of the tree: events as canonical JSON (C2SP tlog-tiles entry bundle)',
      description: 'Up to 256 of them. They hold all that events say, so that it needs `plants:audit`.',
      parameters: [pathIn, etagIn],
      responses: {
        ...bytes('Leaves, each behind its length in two bytes; as gzip to clients that accept it.', {
          ...tileOut,
          ...codingOut,
        }),
        ...problems(...EVERYWHERE, ...TREE, 'log_unavailable'),
      },
    },
  },
  '/log/tile/{level}/{path}': {
    get: {
      ...PUBLICLY,
      operationId: 'readTile',
      summary: 'Get hashes of the tree (C2SP tlog-tiles)',
      description: 'Up to 256 of them, one behind the other.',
      parameters: [levelIn, pathIn, etagIn],
      responses: {
        ...bytes('Hashes of 32 bytes, one behind the other.', tileOut),
        ...problems(...PUBLIC, ...TREE),
      },
    },
  },
  '/log/proof/inclusion': {
    get: {
      ...WITH_TOKEN,
      operationId: 'proveInclusion',
      summary: 'Prove that an event is in the tree',
      description: 'Of the leaf with this `index`, or of the event at this `position`: send one of them.',
      parameters: oneOf(queryOf(InclusionQuery), 'index'),
      responses: {
        200: { description: 'The proof.', content: json(reference('InclusionProof')) },
        ...problems(...EVERYWHERE, ...TREE, 'position_unknown', 'log_unavailable'),
      },
    },
  },
  '/log/proof/consistency': {
    get: {
      ...PUBLICLY,
      operationId: 'proveConsistency',
      summary: 'Prove that an earlier tree is the beginning of a later one',
      description: 'Public: whoever has kept an earlier checkpoint compares it with the last one.',
      parameters: queryOf(ConsistencyQuery, ['from']),
      responses: {
        200: { description: 'The proof.', headers: cachingOut, content: json(reference('ConsistencyProof')) },
        ...problems(
          ...PUBLIC,
          'not_acceptable',
          'invalid_request',
          'not_signed_yet',
          'tree_unavailable',
          'log_altered',
        ),
      },
    },
  },
  '/log/alarm': {
    get: {
      ...WITH_TOKEN,
      operationId: 'readAlarm',
      summary: 'Get the alarm that stands, if any',
      description:
        'An event was altered, or something else is not as it was signed. Nothing is signed until an operator has lifted it.',
      responses: {
        200: { description: 'The alarm, or null.', content: json(reference('LogAlarm')) },
        ...problems(...EVERYWHERE, 'invalid_request', 'tree_unavailable'),
      },
    },
  },
  '/log/receipt': {
    get: {
      ...WITH_TOKEN,
      operationId: 'readReceipt',
      summary: 'Get a proof that a write of yours is in the log',
      description:
        'Waits a moment for a checkpoint that covers it. Events of other owners are not found, except by auditors.',
      parameters: queryOf(ReceiptQuery, ['position']),
      responses: {
        200: {
          description:
            'The receipt; with `Accept: text/plain` as C2SP tlog-proof, whose extra data is the event.',
          content: { ...json(reference('LogReceipt')), 'text/plain': { schema: { type: 'string' } } },
        },
        ...problems(...EVERYWHERE, ...TREE, 'position_unknown', 'log_unavailable'),
      },
    },
  },
  '/log/list': {
    get: {
      ...WITH_TOKEN,
      operationId: 'proveList',
      summary: 'Get a proof that a page of your list is complete',
      description:
        'As of the last checkpoint that covers `position`, for which it waits a moment. `plants check` verifies it offline: nothing is left out between its first and its last id, and nothing comes after the last page. Where you have no plant it takes `plants:audit` too.',
      parameters: [...queryOf(ListProofQuery), etagIn],
      responses: {
        200: {
          description: 'The proof; as gzip to clients that accept it.',
          headers: { ...etagOut, ...codingOut },
          content: json(reference('LogListProof')),
        },
        ...unchanged(etagOut),
        ...problems(
          ...EVERYWHERE,
          'invalid_request',
          'entry_not_found',
          'not_signed_yet',
          'tree_unavailable',
          'log_altered',
          'position_unknown',
          'log_unavailable',
          'too_many_in_flight',
        ),
      },
    },
  },
};
