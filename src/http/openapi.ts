import { applyDecorators, type INestApplication, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  ApiBearerAuth,
  ApiBody,
  ApiExcludeController,
  ApiHeader,
  ApiOperation,
  ApiParam,
  ApiQuery,
  ApiResponse,
  ApiTags,
  DocumentBuilder,
  type OpenAPIObject,
  SwaggerModule,
} from '@nestjs/swagger';
import { type FastifyInstance } from 'fastify';
import { z } from 'zod';
import { AuditQuery, CloudEvent, PlantHistoryQuery } from './audit-schemas.js';
import { DESCRIPTION, type Description } from './described.js';
import { type Docs } from './docs.js';
import {
  ConsistencyProof,
  ConsistencyQuery,
  InclusionProof,
  InclusionQuery,
  LogReceipt,
  ReceiptQuery,
} from './log-schemas.js';
import { PROBLEMS, type ProblemCode, typeOf } from './problem.js';
import { NewRebuild, NewRollback, RebuildAccepted, SystemStatus } from './operation-schemas.js';
import {
  IdempotencyKey,
  ListQuery,
  NewPlant,
  Plant,
  PlantId,
  PlantList,
  PlantWithId,
  PositionHeader,
} from './schemas.js';

type Schema = Exclude<NonNullable<Parameters<typeof ApiHeader>[0]['schema']>, { $ref: string }>;

/** The JSON Schema of a schema that validates: what clients read here is what they are held to. */
const schemaOf = (schema: z.ZodType): Schema => {
  const { $defs, ...json } = z.toJSONSchema(schema, { io: 'input', target: 'draft-2020-12' });
  const [definition] = Object.values($defs ?? {});
  // A schema with an id comes as a reference to its definition; the document keeps its own components.
  const own = { ...('$ref' in json && definition ? definition : json) };
  delete own.$schema;
  // z.toJSONSchema leaves these two out where a schema transforms what it is given; here they are what clients send.
  const plain = schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema;
  const { examples, default: preset } = plain.meta() ?? {};
  Object.assign(own, examples !== undefined && { examples }, preset !== undefined && { default: preset });
  // What stands in a URL is checked as a text, but is an integer to whoever writes the URL.
  if (own.type === 'integer') delete own.pattern;
  return own as Schema;
};

/** What a schema says of itself. */
const aboutOf = (schema: z.ZodType): string => schemaOf(schema).description ?? '';

/** A reference to a component of the document. */
const reference = (
  name:
    | 'NewPlant'
    | 'Plant'
    | 'PlantList'
    | 'PlantWithId'
    | 'Problem'
    | 'CloudEvent'
    | 'NewRebuild'
    | 'NewRollback'
    | 'RebuildAccepted'
    | 'SystemStatus'
    | 'InclusionProof'
    | 'ConsistencyProof'
    | 'LogReceipt',
) => ({
  $ref: `#/components/schemas/${name}`,
});

/** A problem document (RFC 9457), as every error answer holds one. */
const ProblemDocument = z
  .object({
    type: z.string().meta({
      description: 'Where the problem is explained, relative to this service.',
      examples: [typeOf('plant_exists')],
    }),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string().meta({ description: 'What happened, and what to change.' }),
    code: z.enum(Object.keys(PROBLEMS) as ProblemCode[]).meta({ description: 'For programs to match on.' }),
    requestId: z.string().meta({ description: 'Names the request in our log.' }),
    errors: z
      .array(
        z.object({
          pointer: z.string().meta({
            description: 'A JSON Pointer into the body, `?name` of the query, or the name of a header.',
          }),
          detail: z.string(),
        }),
      )
      .optional()
      .meta({ description: 'Every field that is not valid.' }),
  })
  .meta({ description: 'A problem document, RFC 9457.' });

/** What everything behind the guard may answer. */
const EVERYWHERE = [
  'malformed_request',
  'token_malformed',
  'token_repeated',
  'token_misplaced',
  'token_missing',
  'token_invalid',
  'scope_missing',
  'not_acceptable',
  'request_timeout',
  'expectation_failed',
  'rate_limited',
  'overloaded',
  'headers_too_large',
  'internal_error',
  'keys_unavailable',
] as const satisfies readonly ProblemCode[];

/** What an operation without a token may answer as well, where requests are counted. */
const PUBLIC = [
  'malformed_request',
  'request_timeout',
  'expectation_failed',
  'rate_limited',
  'overloaded',
  'headers_too_large',
  'internal_error',
] as const satisfies readonly ProblemCode[];

const WRITING = [
  'invalid_request',
  'body_too_large',
  'idempotency_key_reused',
  'outcome_unknown',
  'log_unavailable',
  'owner_blocked',
] as const satisfies readonly ProblemCode[];

/** What may go wrong with whatever reads plants. */
const LISTING = [
  'invalid_request',
  'position_unknown',
  'read_model_unavailable',
  'read_model_incomplete',
  'read_model_ahead',
  'not_fresh_yet',
  'owner_blocked',
  'log_unavailable',
] as const satisfies readonly ProblemCode[];

/** One response for each status, with an example for each code. */
const problems = (...codes: readonly ProblemCode[]): MethodDecorator => {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of codes) {
    const { status } = PROBLEMS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return applyDecorators(
    ...[...byStatus].map(([status, group]) =>
      ApiResponse({
        status,
        description: group.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join('\n\n'),
        headers: headersOf(status),
        content: {
          'application/problem+json': {
            schema: reference('Problem'),
            examples: Object.fromEntries(group.map((code) => [code, { value: exampleOf(code) }])),
          },
        },
      }),
    ),
  );
};

const exampleOf = (code: ProblemCode) => ({
  type: typeOf(code),
  title: PROBLEMS[code].title,
  status: PROBLEMS[code].status,
  detail: PROBLEMS[code].title,
  code,
  requestId: '0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11',
});

const textHeader = (description: string) => ({ description, schema: { type: 'string' } });

const headersOf = (status: number) => {
  if (status === 401 || status === 403) return { 'WWW-Authenticate': textHeader('The challenge, RFC 6750.') };
  const retryAfter = { 'Retry-After': { description: 'In seconds.', schema: { type: 'integer' } } };
  if (status === 429)
    return {
      ...retryAfter,
      'RateLimit-Policy': textHeader(
        'Which limit it is, and what it allows, `"owner";q=600;w=60`: q requests in w seconds (draft-ietf-httpapi-ratelimit-headers). On every answer where a limit is set.',
      ),
      RateLimit: textHeader(
        'What is left of it, `"owner";r=12;t=34`: r requests for the next t seconds. On every answer where a limit is set.',
      ),
    };
  if (status === 503) return retryAfter;
  return {};
};

const positionOut = {
  'Plants-Position': {
    description: aboutOf(PositionHeader),
    schema: schemaOf(PositionHeader),
  },
};

const positionIn = ApiHeader({
  name: 'Plants-Position',
  required: false,
  description: aboutOf(PositionHeader),
  schema: schemaOf(PositionHeader),
});

/** Of answers that a client may have already: ETag, If-None-Match and 304; of those that may be long also gzip. */
const etagOut = { ETag: textHeader('Names the content in this coding: send it as `If-None-Match`.') };

const codingOut = {
  'Content-Encoding': textHeader('`gzip`, or not there.'),
  Vary: textHeader('`accept-encoding`, where the answer is long enough to be compressed.'),
};

const unlessUnchanged = applyDecorators(
  ApiHeader({
    name: 'If-None-Match',
    required: false,
    description: 'The `ETag` of an earlier answer: where that is still the content, the answer is 304.',
    schema: { type: 'string' },
  }),
  ApiResponse({
    status: 304,
    description: 'It is what `If-None-Match` names.',
    headers: { ...etagOut, ...positionOut },
  }),
);

const listsOut = {
  'Plants-Lists': {
    description:
      'There only where lists may not contain the write yet: it is durable, and the next list contains it or is 503. After `respond-async` that holds from two seconds on.',
    schema: { type: 'string', enum: ['behind'] },
  },
};

const receiptOut = {
  Link: textHeader('Where the receipt is, `<…>; rel="receipt"`, where `Prefer: receipt` asked for it.'),
};

const keyHeader = ApiHeader({
  name: 'Idempotency-Key',
  required: false,
  description: aboutOf(IdempotencyKey),
  schema: schemaOf(IdempotencyKey),
});

const writeHeaders = applyDecorators(
  keyHeader,
  ApiHeader({
    name: 'Prefer',
    required: false,
    description:
      '`respond-async` answers as soon as the write is durable; a list may not contain it yet. `receipt` asks for a link to the proof that the write is in the log.',
    schema: { type: 'string', examples: ['respond-async', 'receipt'] },
  }),
);

/** All that is said of POST /plants. */
const createPlant = applyDecorators(
  ApiOperation({
    operationId: 'createPlant',
    summary: 'Add a plant',
    description:
      'The plant is durable when the answer comes, and in your lists unless the answer says `Plants-Lists: behind`.',
  }),
  ApiBody({
    required: true,
    schema: reference('NewPlant'),
    examples: {
      plant: { summary: 'A plant', value: { name: 'Zamioculcas zamiifolia', tag: 'low light', id: 7 } },
    },
  }),
  writeHeaders,
  ApiResponse({
    status: 201,
    description: 'The plant was added.',
    headers: {
      Location: textHeader('Where the plant is: GET or DELETE it there.'),
      ...positionOut,
      ...listsOut,
      ...receiptOut,
    },
    content: { 'application/json': { schema: reference('Plant') } },
  }),
  problems(
    ...EVERYWHERE,
    ...WRITING,
    'malformed_json',
    'unsupported_media_type',
    'plant_exists',
    'too_many_in_flight',
  ),
);

/** All that is said of GET /plants. */
const listPlants = applyDecorators(
  ApiOperation({
    operationId: 'listPlants',
    summary: 'List your plants',
    description:
      'In ascending order of id. It contains every write that was answered before you asked, by whatever process, or is 503.',
  }),
  ApiQuery({ name: 'limit', required: false, schema: schemaOf(ListQuery.shape.limit) }),
  ApiQuery({ name: 'view', required: false, schema: schemaOf(ListQuery.shape.view) }),
  ApiQuery({ name: 'after', required: false, schema: schemaOf(ListQuery.shape.after) }),
  ApiQuery({ name: 'asOf', required: false, schema: schemaOf(ListQuery.shape.asOf) }),
  positionIn,
  ApiResponse({
    status: 200,
    description: 'A page of your plants.',
    headers: {
      Link: textHeader('The next page, `<…>; rel="next"`, when there are more (RFC 8288).'),
      ...positionOut,
      ...etagOut,
      ...codingOut,
    },
    content: {
      'application/json': {
        schema: {
          anyOf: [reference('PlantList'), { type: 'array', items: reference('PlantWithId') }],
        },
        examples: {
          list: { value: [{ name: 'Zamioculcas zamiifolia', tag: 'low light' }] },
          full: {
            summary: 'With view=full',
            value: [{ id: 7, name: 'Zamioculcas zamiifolia', tag: 'low light' }],
          },
        },
      },
    },
  }),
  unlessUnchanged,
  problems(...EVERYWHERE, ...LISTING, 'past_unavailable'),
);

/** All that is said of GET /plants/{id}. */
const readPlant = applyDecorators(
  ApiOperation({
    operationId: 'readPlant',
    summary: 'Get a plant of yours',
    description: 'As fresh as a list: it contains every write that was answered before you asked, or is 503.',
  }),
  ApiParam({ name: 'id', schema: schemaOf(PlantId) }),
  positionIn,
  ApiResponse({
    status: 200,
    description: 'The plant.',
    headers: { ...positionOut, ...etagOut },
    content: {
      'application/json': {
        schema: reference('Plant'),
        examples: { plant: { value: { name: 'Zamioculcas zamiifolia', tag: 'low light' } } },
      },
    },
  }),
  unlessUnchanged,
  problems(...EVERYWHERE, ...LISTING, 'plant_not_found'),
);

/** Events in each of the forms that a client may ask for. */
const eventsIn = (...types: readonly string[]) =>
  Object.fromEntries(
    types.map((type) => [
      type,
      type.endsWith('json') && type !== 'application/x-ndjson'
        ? { schema: { type: 'array', items: reference('CloudEvent') } }
        : { schema: { type: 'string' } },
    ]),
  );

/** All that is said of GET /plants/{id}/history. */
const readPlantHistory = applyDecorators(
  ApiOperation({
    operationId: 'readPlantHistory',
    summary: 'See all that happened to a plant of yours',
    description:
      'From the log itself, in pages, the newest last; also of a plant that was deleted. `Accept: application/x-ndjson` gives all of it, one event in each line, as fast as you read; if the connection breaks off, it was not all.',
  }),
  ApiParam({ name: 'id', schema: schemaOf(PlantId) }),
  ApiQuery({ name: 'limit', required: false, schema: schemaOf(PlantHistoryQuery.shape.limit) }),
  ApiQuery({ name: 'after', required: false, schema: schemaOf(PlantHistoryQuery.shape.after) }),
  ApiResponse({
    status: 200,
    description: 'Its events, as CloudEvents.',
    headers: {
      Link: textHeader('The next page, `<…>; rel="next"`, when there are more (RFC 8288).'),
      ...positionOut,
      ...etagOut,
      ...codingOut,
    },
    content: eventsIn('application/cloudevents-batch+json', 'application/json', 'application/x-ndjson'),
  }),
  unlessUnchanged,
  problems(
    ...EVERYWHERE,
    'invalid_request',
    'plant_not_found',
    'log_unavailable',
    'too_many_in_flight',
    'too_many_streams',
  ),
);

/** All that is said of GET /audit/events. */
const readEvents = applyDecorators(
  ApiOperation({
    operationId: 'readEvents',
    summary: 'Read the events of all owners, in the order of the log',
    description:
      'A page is a JSON array. `Accept: application/x-ndjson` gives all of them, one in each line, as fast as you read; if the connection breaks off, it was not all. `Accept: text/event-stream` goes on with what is still to come; `Last-Event-ID` resumes it.',
  }),
  ...Object.entries(AuditQuery.shape).map(([name, schema]) =>
    ApiQuery({ name, required: false, schema: schemaOf(schema) }),
  ),
  ApiHeader({
    name: 'Last-Event-ID',
    required: false,
    description: 'Where a live stream goes on: the id of the last event that came.',
    schema: { type: 'string' },
  }),
  ApiResponse({
    status: 200,
    description: 'Events, as CloudEvents.',
    headers: {
      Link: textHeader(
        'What is after this page, `<…>; rel="next"`, when there may be more (RFC 8288). Also of a page that ends early, since looking for its events took long.',
      ),
      'Plants-Position': {
        description: 'Of a page: everything up to here was looked at. Send it as `after` to go on.',
        schema: schemaOf(PositionHeader),
      },
      ...etagOut,
      ...codingOut,
    },
    content: eventsIn(
      'application/cloudevents-batch+json',
      'application/json',
      'application/x-ndjson',
      'text/event-stream',
    ),
  }),
  unlessUnchanged,
  problems(...EVERYWHERE, 'invalid_request', 'position_unknown', 'log_unavailable', 'too_many_streams'),
);

/** What is said of every operation of auditors. */
const audit = applyDecorators(ApiTags('audit'), ApiBearerAuth('token'));

/** All that is said of DELETE /plants/{id}. */
const deletePlant = applyDecorators(
  ApiOperation({
    operationId: 'deletePlant',
    summary: 'Delete a plant',
    description: 'The plant is gone from your lists when the answer comes. Its id may be used again.',
  }),
  ApiParam({ name: 'id', schema: schemaOf(PlantId) }),
  writeHeaders,
  ApiResponse({
    status: 204,
    description: 'The plant is gone.',
    headers: { ...positionOut, ...listsOut, ...receiptOut },
  }),
  problems(...EVERYWHERE, ...WRITING, 'plant_not_found', 'too_many_in_flight'),
);

/** What may go wrong with whatever reads the tree. */
const TREE = [
  'invalid_request',
  'entry_not_found',
  'not_signed_yet',
  'tree_unavailable',
] as const satisfies readonly ProblemCode[];

const caching = {
  'Cache-Control': textHeader('How long it may be kept: for ever where it never changes.'),
};

/** All that is said of GET /log/checkpoint. */
const readCheckpoint = applyDecorators(
  ApiOperation({
    operationId: 'readCheckpoint',
    summary: 'Get the last signed checkpoint',
    description: 'A signed note (C2SP tlog-checkpoint). `plants audit-key` prints what it is verified with.',
  }),
  ApiResponse({
    status: 200,
    description: 'The checkpoint.',
    headers: caching,
    content: { 'text/plain': { schema: { type: 'string' } } },
  }),
  problems(...PUBLIC, 'invalid_request', 'not_signed_yet', 'tree_unavailable', 'log_altered'),
);

const tileCaching = { ...caching, ...etagOut };

const bytes = (description: string, headers: typeof tileCaching = tileCaching) =>
  applyDecorators(
    ApiResponse({
      status: 200,
      description,
      headers,
      content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
    }),
    ApiResponse({ status: 304, description: 'It is what `If-None-Match` names.', headers }),
  );

const tilePathParameter = ApiParam({
  name: 'path',
  schema: { type: 'string', examples: ['x001/067.p/5'] },
  description: 'N, and for a partial tile its width: as C2SP tlog-tiles spells them.',
});

/** All that is said of GET /log/tile/{level}/{path}. */
const readTile = applyDecorators(
  ApiOperation({ operationId: 'readTile', summary: 'Get hashes of the tree (C2SP tlog-tiles)' }),
  ApiParam({ name: 'level', schema: { type: 'integer', minimum: 0, maximum: 63, examples: [0] } }),
  tilePathParameter,
  bytes('Hashes of 32 bytes, one behind the other.'),
  problems(...PUBLIC, ...TREE, 'log_altered'),
);

/** All that is said of GET /log/tile/entries/{path}. */
const readEntries = applyDecorators(
  ApiBearerAuth('token'),
  ApiOperation({
    operationId: 'readEntries',
    summary: 'Get leaves of the tree: events as canonical JSON (C2SP tlog-tiles entry bundle)',
  }),
  tilePathParameter,
  bytes('Leaves, each behind its length in two bytes; as gzip to clients that accept it.', {
    ...tileCaching,
    ...codingOut,
  }),
  problems(...EVERYWHERE, ...TREE, 'log_altered', 'log_unavailable'),
);

/** All that is said of GET /log/proof/inclusion. */
const proveInclusion = applyDecorators(
  ApiBearerAuth('token'),
  ApiOperation({ operationId: 'proveInclusion', summary: 'Prove that an event is in the tree' }),
  ...Object.entries(InclusionQuery.shape).map(([name, schema]) =>
    ApiQuery({ name, required: false, schema: schemaOf(schema) }),
  ),
  ApiResponse({
    status: 200,
    description: 'The proof.',
    content: { 'application/json': { schema: reference('InclusionProof') } },
  }),
  problems(...EVERYWHERE, ...TREE, 'position_unknown', 'log_altered', 'log_unavailable'),
);

/** All that is said of GET /log/proof/consistency. */
const proveConsistency = applyDecorators(
  ApiOperation({
    operationId: 'proveConsistency',
    summary: 'Prove that an earlier tree is the beginning of a later one',
    description: 'Public: whoever has kept an earlier checkpoint compares it with the last one.',
  }),
  ApiQuery({ name: 'from', required: true, schema: schemaOf(ConsistencyQuery.shape.from) }),
  ApiQuery({ name: 'to', required: false, schema: schemaOf(ConsistencyQuery.shape.to) }),
  ApiResponse({
    status: 200,
    description: 'The proof.',
    headers: caching,
    content: { 'application/json': { schema: reference('ConsistencyProof') } },
  }),
  problems(
    ...PUBLIC,
    'not_acceptable',
    'invalid_request',
    'not_signed_yet',
    'tree_unavailable',
    'log_altered',
  ),
);

/** All that is said of GET /log/receipt. */
const readReceipt = applyDecorators(
  ApiBearerAuth('token'),
  ApiOperation({
    operationId: 'readReceipt',
    summary: 'Get a proof that a write of yours is in the log',
    description:
      'Waits a moment for a checkpoint that covers it. Events of other owners are not found, except by auditors.',
  }),
  ApiQuery({ name: 'position', required: true, schema: schemaOf(ReceiptQuery.shape.position) }),
  ApiResponse({
    status: 200,
    description: 'The receipt.',
    content: { 'application/json': { schema: reference('LogReceipt') } },
  }),
  problems(...EVERYWHERE, ...TREE, 'position_unknown', 'log_altered', 'log_unavailable'),
);

/** What is said of every operation on the tree. */
const log = ApiTags('log');

/** What is said of every operation on plants. */
const plants = applyDecorators(ApiTags('plants'), ApiBearerAuth('token'));

/** An answer that something was taken on. */
const accepted = (description: string): MethodDecorator =>
  ApiResponse({
    status: 202,
    description,
    headers: { Location: textHeader('Where it can be followed.') },
    content: { 'application/json': { schema: reference('RebuildAccepted') } },
  });

/** All that is said of POST /operations/rebuilds. */
const requestRebuild = applyDecorators(
  ApiOperation({
    operationId: 'requestRebuild',
    summary: 'Build the lists anew',
    description:
      'Beside those that are answered: they are verified, and then switched to. One at a time. A projector does it.',
  }),
  ApiBody({ required: false, schema: reference('NewRebuild') }),
  keyHeader,
  accepted('It is requested. The same Idempotency-Key gives the same rebuild again.'),
  problems(...EVERYWHERE, ...WRITING, 'malformed_json', 'unsupported_media_type', 'operation_refused'),
);

/** All that is said of DELETE /operations/rebuilds/{id}. */
const cancelRebuild = applyDecorators(
  ApiOperation({
    operationId: 'cancelRebuild',
    summary: 'Give up the rebuild that is under way',
    description: 'That one, and no other. What it has built is dropped.',
  }),
  ApiParam({
    name: 'id',
    schema: { type: 'string', format: 'uuid', examples: ['0c3a2f6e-5b5e-4f0e-9d2c-0f6c1b7c9a11'] },
  }),
  keyHeader,
  ApiResponse({ status: 204, description: 'It is cancelled.' }),
  problems(...EVERYWHERE, ...WRITING, 'rebuild_not_found', 'operation_refused'),
);

/** All that is said of POST /operations/rollback. */
const requestRollback = applyDecorators(
  ApiOperation({
    operationId: 'requestRollback',
    summary: 'Answer lists from what the last rebuild replaced',
    description: 'For 15 minutes after a rebuild, or until the next one: `wayBack` of the status.',
  }),
  ApiBody({ required: false, schema: reference('NewRollback') }),
  keyHeader,
  accepted('It is requested.'),
  problems(...EVERYWHERE, ...WRITING, 'malformed_json', 'unsupported_media_type', 'operation_refused'),
);

/** All that is said of GET /operations/status. */
const readStatus = applyDecorators(
  ApiOperation({
    operationId: 'readStatus',
    summary: 'See processes, lists, rebuilds and what is wrong',
    description: 'As `plants status --json` shows it.',
  }),
  ApiResponse({
    status: 200,
    description: 'The system at one moment.',
    content: { 'application/json': { schema: reference('SystemStatus') } },
  }),
  problems(...EVERYWHERE, 'invalid_request', 'log_unavailable', 'read_model_unavailable'),
);

/** What is said of every operation of operators. */
const operations = applyDecorators(ApiTags('operations'), ApiBearerAuth('token'));

/** What a health check may answer as well: it is never counted by a rate limit. */
const HEALTH = PUBLIC.filter((code) => code !== 'rate_limited');

/** What is said of every health check. */
const health = ApiTags('health');

/** All that is said of a health check. */
const healthCheck = (operationId: 'live' | 'ready', summary: string) =>
  applyDecorators(
    ApiOperation({ operationId, summary }),
    ApiResponse({
      status: 200,
      description: 'Yes.',
      content: { 'application/json': { schema: { type: 'object' } } },
    }),
    problems(...HEALTH, 'invalid_request', operationId === 'ready' ? 'not_ready' : 'restart_needed'),
  );

const DESCRIPTIONS: Readonly<Record<Description, ClassDecorator & MethodDecorator>> = {
  plants,
  createPlant,
  listPlants,
  readPlant,
  readPlantHistory,
  deletePlant,
  audit,
  readEvents,
  log,
  readCheckpoint,
  readTile,
  readEntries,
  proveInclusion,
  proveConsistency,
  readReceipt,
  operations,
  readStatus,
  requestRebuild,
  cancelRebuild,
  requestRollback,
  health,
  live: healthCheck('live', 'Does the process run, without needing a restart?'),
  ready: healthCheck('ready', 'Does every part work?'),
};

const descriptionOf = (described: object) =>
  Reflect.getMetadata(DESCRIPTION, described) as Description | undefined;

/** Controllers that know already what is said of them: a second time would say it twice. */
const described = new WeakSet<Type>();

/** Tells a controller and its handlers what @Described names. */
const describe = (controller: Type): void => {
  if (described.has(controller)) return;
  described.add(controller);
  const group = descriptionOf(controller);
  if (!group) {
    ApiExcludeController()(controller);
    return;
  }
  DESCRIPTIONS[group](controller);
  const { prototype } = controller as { prototype: object };
  for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
    if (name === 'constructor' || typeof property.value !== 'function') continue; // no handler
    const operation = descriptionOf(property.value as object);
    if (operation) DESCRIPTIONS[operation](prototype, name, property);
  }
};

interface ParameterObject {
  required?: boolean;
  schema?: { examples?: unknown[] };
  example?: unknown;
}

/**
 * Gives a required parameter its example as `example`: /docs fills in that one only, and sends nothing while a required
 * field is empty. An optional one stays empty, so that a request is sent without it.
 */
const giveExample = (parameter: ParameterObject): void => {
  const [example] = parameter.schema?.examples ?? [];
  if (parameter.required && example !== undefined) parameter.example = example;
};

const makeDocument = (app: INestApplication, version: string): OpenAPIObject => {
  for (const { controllers } of app.get(ModulesContainer).values())
    for (const { metatype } of controllers.values()) describe(metatype as Type);
  const config = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Plant store')
    .setDescription(
      'Add, list and delete your plants. Every error is a problem document (RFC 9457) with a `code`.',
    )
    .setVersion(version)
    .addServer('/', 'Where this document comes from.')
    .setLicense('MIT', 'https://opensource.org/license/mit')
    .addBearerAuth(
      {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'JWT',
        description: 'From `plants token`, or from the issuer.',
      },
      'token',
    )
    .build();
  const document = SwaggerModule.createDocument(app, config, { autoTagControllers: false });
  for (const path of Object.values(document.paths))
    for (const operation of [path.get, path.post, path.delete])
      for (const parameter of operation?.parameters ?? []) giveExample(parameter as ParameterObject);
  document.components = {
    ...document.components,
    schemas: {
      NewPlant: schemaOf(NewPlant),
      Plant: schemaOf(Plant),
      PlantList: { ...schemaOf(PlantList), items: reference('Plant') },
      PlantWithId: schemaOf(PlantWithId),
      Problem: schemaOf(ProblemDocument),
      CloudEvent: schemaOf(CloudEvent),
      NewRebuild: schemaOf(NewRebuild),
      NewRollback: schemaOf(NewRollback),
      RebuildAccepted: schemaOf(RebuildAccepted),
      SystemStatus: schemaOf(SystemStatus),
      InclusionProof: schemaOf(InclusionProof),
      ConsistencyProof: schemaOf(ConsistencyProof),
      LogReceipt: schemaOf(LogReceipt),
    },
  };
  return document;
};

/** Header fields that belong to the connection, or are those of the service's own answer. */
const NOT_PASSED_ON = new Set(['connection', 'date', 'keep-alive', 'transfer-encoding']);

/** Header fields that a file may be refused for. They are ignored, as a server may (RFC 9110, 14.2): pages need them not. */
const NOT_ASKED_FOR = new Set(['range', 'if-range', 'if-match', 'if-unmodified-since']);

/**
 * Makes the document at /openapi.json, and a page to read and try it at /docs, which needs nothing from elsewhere. Both
 * are served by a Fastify of their own that never listens, since one that does takes no more routes.
 */
export const openDocs = async (app: INestApplication, version: string): Promise<Docs> => {
  const pages = new FastifyAdapter();
  const withPages = Object.create(app, { getHttpAdapter: { value: () => pages } }) as INestApplication;
  SwaggerModule.setup('docs', withPages, makeDocument(app, version), {
    jsonDocumentUrl: 'openapi.json',
    raw: ['json'],
    customSiteTitle: 'Plant store API',
    // A token that is typed in is gone with the page: a browser's storage would keep it on the disk.
    swaggerOptions: { persistAuthorization: false, tryItOutEnabled: true },
  });
  const failures = new WeakMap<object, Error>();
  const fastify = pages.getInstance<FastifyInstance>();
  fastify.setErrorHandler((error: Error, _request, reply) => {
    failures.set(reply.raw, error);
    void reply.send();
  });
  await fastify.ready();
  return async ({ url, headers }) => {
    const asked = Object.entries(headers).filter(([name]) => !NOT_ASKED_FOR.has(name));
    const answer = await fastify.inject({ url, headers: Object.fromEntries(asked) });
    const failure = failures.get(answer.raw.res);
    if (failure) throw failure;
    if (answer.statusCode === 404) return undefined;
    const passedOn = Object.entries(answer.headers).filter(([name]) => !NOT_PASSED_ON.has(name));
    return {
      status: answer.statusCode,
      headers: Object.fromEntries(passedOn.map(([name, value]) => [name, String(value)])),
      body: answer.rawPayload.length === 0 ? undefined : answer.rawPayload,
    };
  };
};
