import { z } from 'zod';
import { MAX_LISTED } from '../../audit/state-tree/list-proof.js';
import { After, limitOf, wanted } from '../schemas.js';

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

const position = z
  .string(wanted('a position'))
  .regex(/^[0-9]{1,64}$/, 'must be taken from an earlier answer, unchanged')
  .meta({ description: 'The position of an event, from an earlier answer.', examples: ['0000000000000001'] });

/** The query of GET /log/proof/inclusion. */
export const InclusionQuery = z.strictObject({
  index: digits('Which leaf, from 0. Either this or `position`.', 0).optional(),
  position: position.optional(),
  size: digits(
    'The size of the tree that it is to be proven in; without it, that of the last checkpoint.',
    41,
  ).optional(),
});

/** The query of GET /log/proof/consistency. */
export const ConsistencyQuery = z.strictObject({
  from: digits('The size of the smaller tree, at least 1.', 1),
  to: digits('The size of the greater tree; without it, that of the last checkpoint.', 41).optional(),
});

/** The query of GET /log/receipt. */
export const ReceiptQuery = z.strictObject({ position });

/** The query of GET /log/list. */
export const ListProofQuery = z.strictObject({
  limit: limitOf(`How many plants to list; never more than ${MAX_LISTED} are.`).optional(),
  after: After.optional(),
  position: position
    .meta({ description: 'What the list has to contain: the position of an event, from an earlier answer.' })
    .optional(),
});

const base64 = z.string().meta({ description: '32 bytes in base64.' });
const size = z.int().min(0).meta({ description: 'Leaves in the tree.' });
const hashes = z.array(base64).meta({ description: 'Hashes in base64, in the order of RFC 9162.' });

/** The answer of GET /log/proof/inclusion. */
export const InclusionProof = z
  .object({ index: z.int().min(0), size, leafHash: base64, root: base64, proof: hashes })
  .meta({
    id: 'InclusionProof',
    description: 'A proof that a leaf is in the tree: RFC 9162, section 2.1.3.',
  });

/** The answer of GET /log/proof/consistency. */
export const ConsistencyProof = z
  .object({ from: size, to: size, fromRoot: base64, toRoot: base64, proof: hashes })
  .meta({
    id: 'ConsistencyProof',
    description: 'A proof that a tree is the beginning of another: RFC 9162, section 2.1.4.',
  });

const sibling = z.object({ bit: z.int().min(0).max(319), hash: base64 });

/** The answer of GET /log/list. */
export const LogListProof = z
  .object({
    format: z.literal('plants-list'),
    version: z.literal(1),
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
    checkpoint: z.string().meta({ description: 'The signed checkpoint (C2SP tlog-checkpoint).' }),
    witnesses: z.array(z.string()).optional().meta({ description: 'As in a receipt.' }),
  })
  .meta({
    id: 'LogListProof',
    description: 'A proof that a page of a list is complete, good without the service.',
  });

/** The answer of GET /log/alarm. */
export const LogAlarm = z
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

/** The answer of GET /log/receipt. */
export const LogReceipt = z
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
