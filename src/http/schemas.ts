import { z } from 'zod';
import { type Instant, parseInstant, RFC_3339 } from '../history/instant.js';
import { idFault, MAX_TEXT, nameFault, tagFault } from '../domain/fields.js';
import { MAX_NAME, nameFault as accountFault } from './auth/principal.js';
import { InexactNumber } from './json.js';

/** Plants in a list, unless the client says. */
export const DEFAULT_LIMIT = 100;

/** Most plants in a list: about 2.5 MB of the longest ones, which is still one quick answer. */
export const MAX_LIMIT = 1_000;

/** Most plants in a list with ids: as many as are read in one step (LONG_LIST in list-plants.ts). */
export const MAX_FULL_LIMIT = 100;

/** The greatest limit that a request may name: that of a signed 32-bit integer, which every client can send. */
const MAX_INT32 = 2 ** 31 - 1;

/** Says what is missing or of the wrong type, in the words of `fields.ts`. */
export const wanted = (what: string) => ({
  error: ({ input }: { input?: unknown }) => {
    if (input === undefined) return 'is required';
    if (input instanceof InexactNumber) return 'must be a number that a double holds exactly';
    return `must be ${what}`;
  },
});

/** Lets the domain decide: its rules are not written down twice. */
export const ruledBy =
  (fault: (value: unknown) => string | undefined) =>
  (value: unknown, context: z.RefinementCtx): void => {
    const message = fault(value);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  };

/** `type: integer` with the bounds of `idFault`; z.int() would check them in words of its own. */
const id = z
  .number(wanted('an integer'))
  .superRefine(ruledBy(idFault))
  .meta({
    type: 'integer',
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'Chosen by the client; belongs to its owner alone. Any integer that a double holds exactly.',
    examples: [7],
  });

const name = z
  .string(wanted('a string'))
  .superRefine(ruledBy(nameFault))
  .meta({
    minLength: 1,
    maxLength: MAX_TEXT,
    description: 'Well-formed Unicode without control characters; stored and returned exactly as given.',
    examples: ['Zamioculcas zamiifolia'],
  });

const tag = z
  .string(wanted('a string'))
  .superRefine(ruledBy(tagFault))
  .meta({
    maxLength: MAX_TEXT,
    description: 'As a name, but may be empty.',
    examples: ['low light'],
  });

/** A body of a request, by its name in the API's document. */
export const requestBody = <Fields extends z.ZodRawShape>(id: string, description: string, fields: Fields) =>
  z.strictObject(fields, wanted('a JSON object')).meta({ id, description });

/** The body of POST /plants. */
export const NewPlant = requestBody('NewPlant', 'A plant to add.', { name, tag, id });

/** A plant as the answers show it. */
export const Plant = z
  .strictObject({ name, tag })
  .meta({ id: 'Plant', description: 'A plant: its name and its tag, exactly as given.' });

/** A plant of a list with `view=full`. */
export const PlantWithId = z
  .strictObject({ id, name, tag })
  .meta({ id: 'PlantWithId', description: 'A plant with its id: DELETE it at /plants/{id}.' });

/** The answer of GET /plants. */
export const PlantList = z.array(Plant).meta({ id: 'PlantList', description: 'In ascending order of id.' });

/** An integer as it stands in a URL: one spelling for each, so that a plant has one address. */
export const PlantId = z
  .string()
  .regex(/^(0|-?[1-9]\d{0,15})$/, 'must be an integer in its plain decimal form, such as 7 or -7')
  .transform(Number)
  .superRefine(ruledBy(idFault))
  .meta({
    type: 'integer',
    minimum: Number.MIN_SAFE_INTEGER,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'The id of a plant of yours.',
    examples: [7],
  });

/**
 * Makes the next page's `after`: opaque to clients, and versioned. `last` is the id of the last plant of a list, or
 * the revision of the last event of a history.
 */
export const cursorOf = (last: number): string => Buffer.from(`1:${last}`).toString('base64url');

/** A cursor of `cursorOf`. */
export const After = z
  .string()
  .transform((cursor, context): number => {
    const lastId = /^1:(.+)$/.exec(Buffer.from(cursor, 'base64url').toString('latin1'))?.[1];
    const parsed = PlantId.safeParse(lastId);
    if (parsed.success && cursorOf(parsed.data) === cursor) return parsed.data;
    context.addIssue({
      code: 'custom',
      message: 'must be taken from the Link of an earlier page, unchanged',
    });
    return z.NEVER;
  })
  .meta({
    type: 'string',
    pattern: '^[A-Za-z0-9_-]+$',
    maxLength: cursorOf(Number.MIN_SAFE_INTEGER).length,
    description: 'Where to go on: taken from the `Link` of the page before.',
    examples: [cursorOf(7)],
  });

/** A number of things as it stands in a URL. */
export const limitOf = (description: string) =>
  z
    .string()
    .regex(/^[1-9]\d{0,9}$/, `must be an integer from 1 to ${MAX_INT32}, in plain decimal form`)
    .transform(Number)
    .refine((limit) => limit <= MAX_INT32, `must be an integer from 1 to ${MAX_INT32}`)
    .meta({
      type: 'integer',
      minimum: 1,
      maximum: MAX_INT32,
      default: DEFAULT_LIMIT,
      description,
      examples: [20],
    });

/** A moment, strictly by RFC 3339. A plus sign that was not encoded arrives as a space. */
export const moment = (text: string, context: z.RefinementCtx): Instant => {
  const instant = parseInstant(text);
  if (instant !== undefined) return instant;
  context.addIssue({
    code: 'custom',
    message: text.includes(' ')
      ? 'must be an RFC 3339 instant such as 2026-01-31T12:00:00Z; a plus sign in a URL is written %2B'
      : 'must be an RFC 3339 instant such as 2026-01-31T12:00:00Z',
  });
  return z.NEVER;
};

/** The point in time of GET /plants?asOf=: a position, which is all digits, or an instant. */
const AsOf = z
  .string()
  .transform((text, context): { readonly position: string } | { readonly instant: Instant } =>
    /^\d+$/.test(text) ? { position: text } : { instant: moment(text, context) },
  )
  .meta({
    type: 'string',
    pattern: `^\\d{1,64}$|${RFC_3339.source}`,
    description:
      'The list as it was: after the event at this position (from an earlier answer, or from the history), or after all events that were decided at this RFC 3339 instant or earlier. Made by reading the log, which takes a second for some 100,000 events: at most one at a time for each owner.',
    examples: ['2026-01-31T12:00:00Z'],
  });

const View = z.enum(['full'], { error: 'must be full, or left out' }).meta({
  description: `\`full\`: each plant with its id, at most ${MAX_FULL_LIMIT} in a page. Left out: name and tag.`,
  examples: ['full'],
});

/** The query of GET /plants. */
export const ListQuery = z.strictObject({
  limit: limitOf(
    `How many plants to list; never more than ${MAX_LIMIT} are, or ${MAX_FULL_LIMIT} with \`view=full\`.`,
  ).optional(),
  view: View.optional(),
  after: After.optional(),
  asOf: AsOf.optional(),
});

/** An Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): a quoted string, or the same without quotes. */
export const IdempotencyKey = z
  .string()
  .regex(
    /^(?:"[\x20-\x21\x23-\x5B\x5D-\x7E]{1,255}"|[\x21\x23-\x5B\x5D-\x7E]{1,255})$/,
    'must be 1 to 255 visible ASCII characters, in double quotes or without',
  )
  .transform((key) => key.replace(/^"(.*)"$/, '$1'))
  .meta({
    type: 'string',
    description:
      'Makes it safe to send the same request again: what was done is not done twice, and gives its first answer. A request that was refused is decided again. Keys belong to their owner and never expire.',
    examples: ['"5f0c2c1e-8f0e-4d8a-9a55-0a6d3a1c7f5e"'],
  });

/** A phrase that is not sent by chance. */
export const ConfirmErasure = z.enum(['everything'], { error: 'must be: everything' }).meta({
  description: 'Confirms that everything is removed, which cannot be undone.',
  examples: ['everything'],
});

/** A position of an earlier answer, which only the log can interpret; `fault` says what another text must be. */
export const positionOf = (description: string, fault = 'must be taken from an earlier answer, unchanged') =>
  z
    .string(wanted('a string'))
    .regex(/^[0-9]{1,64}$/, fault)
    .meta({ description, examples: ['0000000000000042'] });

/** The name of an account, by the rules of tokens. */
export const accountOf = (description: string) =>
  z
    .string(wanted('a string'))
    .superRefine(ruledBy(accountFault))
    .meta({ minLength: 1, maxLength: MAX_NAME, description, examples: ['alice'] });
