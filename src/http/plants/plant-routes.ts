import { BATCH_TYPES, ListEventsQuery, PlantHistoryQuery } from '../audit/audit-schemas.js';
import { IMPORT_PATH, LINES, LINES_TYPES } from '../long-bodies.js';
import { ErasureAccepted } from '../operations/erasure-routes.js';
import { type ProblemCode } from '../problem.js';
import { type Routes } from '../route.js';
import {
  AT_LEAST,
  CODING,
  EVENT_BATCHES,
  json,
  KEY,
  LAST_EVENT,
  NEXT,
  positionOut,
  TEXT,
  textHeader,
  WRITING,
} from '../route-parts.js';
import { ConfirmErasure, ListQuery, NewPlant, Plant, PlantId, PlantList, PlantWithId } from '../schemas.js';
import { LIVE } from '../server-sent-events.js';
import { ImportedLine, ImportEnd, MAX_IMPORT_BYTES, MAX_IMPORT_LINES } from './import-schemas.js';

const PLANT = { name: 'Zamioculcas zamiifolia', tag: 'low light' };

const POSITION = positionOut(
  'How far this answer reaches: send it with a list, which is then at least as fresh.',
);

const PREFER = {
  Prefer: {
    type: 'string',
    description:
      '`respond-async` answers as soon as the write is durable; a list may not contain it yet. `receipt` asks for a link to the proof that the write is in the log.',
    examples: ['respond-async', 'receipt'],
  },
};

const PREFER_PROOF = {
  Prefer: {
    type: 'string',
    description: '`proof` asks for a link to the proof that the page is complete.',
    examples: ['proof'],
  },
};

const APPLIED = { 'Preference-Applied': textHeader('What of `Prefer` was done (RFC 7240).') };

/** Header fields of answers to writes. */
const WRITTEN = {
  ...POSITION,
  'Plants-Lists': {
    description:
      'There only where lists may not contain the write yet: it is durable, and the next list contains it or is 503. After `respond-async` that holds from two seconds on.',
    schema: { type: 'string', enum: ['behind'] },
  },
  ...APPLIED,
  Link: textHeader('Where the receipt is, `<…>; rel="receipt"`, where `Prefer: receipt` asked for it.'),
};

/** Problems of every route that reads plants. */
const LISTING = [
  'position_unknown',
  'read_model_unavailable',
  'read_model_incomplete',
  'read_model_ahead',
  'not_fresh_yet',
  'owner_blocked',
  'log_unavailable',
] as const satisfies readonly ProblemCode[];

/** An owner's plants. */
export const plantRoutes = {
  createPlant: {
    method: 'POST',
    path: '/plants',
    scope: 'plants:write',
    summary: 'Add a plant',
    description:
      'The plant is durable when the answer comes, and in your lists unless the answer says `Plants-Lists: behind`.',
    headers: { ...KEY, ...PREFER },
    body: NewPlant,
    example: { ...PLANT, id: 7 },
    answers: {
      201: {
        description: 'The plant was added.',
        headers: { Location: textHeader('Where the plant is: GET or DELETE it there.'), ...WRITTEN },
        content: json(Plant, { plant: { value: PLANT } }),
      },
    },
    problems: [...WRITING, 'plant_exists', 'owner_erasing', 'too_many_in_flight'],
  },
  listPlants: {
    method: 'GET',
    path: '/plants',
    scope: 'plants:read',
    summary: 'List your plants',
    description:
      'In ascending order of id. It contains every write that was answered before you asked, by whatever process, or is 503.',
    query: ListQuery,
    headers: { ...AT_LEAST, ...PREFER_PROOF },
    hasTag: true,
    answers: {
      200: {
        description: 'A page of your plants.',
        headers: {
          ...APPLIED,
          Link: textHeader(
            'Where the next page is, `<…>; rel="next"`, if there is one; and where the proof is, `<…>; rel="proof"`, where `Prefer: proof` asked for it.',
          ),
          ...POSITION,
          ...CODING,
        },
        content: json(
          { anyOf: [PlantList, { type: 'array', items: PlantWithId }] },
          { list: { value: [PLANT] }, full: { summary: 'With view=full', value: [{ id: 7, ...PLANT }] } },
        ),
      },
    },
    problems: [...LISTING, 'past_unavailable'],
  },
  eraseEverything: {
    method: 'DELETE',
    path: '/plants',
    scope: 'plants:write',
    summary: 'Erase everything of yours, for good',
    description:
      'All your plants and events are removed from all stores; a hash of each event is left, so that earlier proofs still verify. It cannot be undone. Only where the service is set to allow it, else 409 `operation_refused`. Until it is over, some seconds, your writes are 410 `owner_erasing`; then you may begin again with nothing of before.',
    headers: { 'Confirm-Erasure': ConfirmErasure },
    answers: {
      202: {
        description: 'It has begun. Sent again meanwhile, the same.',
        content: json(ErasureAccepted),
      },
      204: { description: 'Nothing of yours is stored.' },
    },
    problems: [...WRITING, 'operation_refused'],
  },
  followPlants: {
    method: 'GET',
    path: '/plants/events',
    scope: 'plants:read',
    summary: 'Follow your list as it changes',
    description:
      'Server-sent events. `ready` comes first: `{position}` from where on changes come. `added` holds `{id, name, tag}`, `deleted` `{id}`; `reload` says that the list may have changed in a way that is not told here: ask for the list again. The id of each is a position: sent as `Last-Event-ID` it resumes the stream, and sent as `Plants-Position` with a list, that list contains the change. It ends with the token, when the process stops, and when you are erased; and the oldest of 8 streams of yours, when you open another one.',
    query: ListEventsQuery,
    headers: LAST_EVENT,
    types: [LIVE],
    answers: { 200: { description: 'Changes, for as long as you read.', content: { [LIVE]: TEXT } } },
    problems: ['position_unknown', 'owner_erasing', 'log_unavailable', 'too_many_streams'],
  },
  importPlants: {
    method: 'POST',
    path: IMPORT_PATH,
    scope: 'plants:write',
    summary: 'Add many plants',
    description: `A plant in each line, as JSON, as \`POST /plants\` takes it: at most ${MAX_IMPORT_LINES} lines and ${MAX_IMPORT_BYTES} bytes. The answer has a line with the outcome of each, an ImportedLine, in their order and as they are written, and then an ImportEnd. Each outcome is durable when it comes; without the ImportEnd the import was broken off. It may be sent again: what is there already with the same name and tag is \`exists\`. Each line counts as a request.`,
    rawBody: { [LINES]: { schema: { type: 'string', maxLength: MAX_IMPORT_BYTES } } },
    types: LINES_TYPES,
    answers: {
      200: {
        description: 'The outcomes.',
        content: {
          [LINES]: {
            schema: {
              type: 'string',
              description: 'Each line is one of these.',
              contentMediaType: 'application/json',
              contentSchema: { anyOf: [ImportedLine, ImportEnd] },
            },
          },
        },
      },
    },
    problems: ['too_many_in_flight', 'too_many_streams'],
  },
  readPlant: {
    method: 'GET',
    path: '/plants/{id}',
    scope: 'plants:read',
    summary: 'Get a plant of yours',
    description: 'As fresh as a list: it contains every write that was answered before you asked, or is 503.',
    params: { id: PlantId },
    headers: AT_LEAST,
    hasTag: true,
    answers: {
      200: {
        description: 'The plant.',
        headers: POSITION,
        content: json(Plant, { plant: { value: PLANT } }),
      },
    },
    problems: [...LISTING, 'plant_not_found'],
  },
  deletePlant: {
    method: 'DELETE',
    path: '/plants/{id}',
    scope: 'plants:write',
    summary: 'Delete a plant',
    description: 'The plant is gone from your lists when the answer comes. Its id may be used again.',
    params: { id: PlantId },
    headers: { ...KEY, ...PREFER },
    answers: { 204: { description: 'The plant is gone.', headers: WRITTEN } },
    problems: [...WRITING, 'plant_not_found', 'owner_erasing', 'too_many_in_flight'],
  },
  readPlantHistory: {
    method: 'GET',
    path: '/plants/{id}/history',
    scope: 'plants:read',
    summary: 'See all that happened to a plant of yours',
    description:
      'From the log itself, in pages, the newest last; also of a plant that was deleted. `Accept: application/x-ndjson` gives all of it, one event in each line, as fast as you read; if the connection breaks off, it was not all; over HTTP/1.0, which cannot tell, it is refused.',
    params: { id: PlantId },
    query: PlantHistoryQuery,
    types: [...BATCH_TYPES, ...LINES_TYPES],
    hasTag: true,
    answers: {
      200: {
        description: 'Its events, as CloudEvents.',
        headers: { ...NEXT, ...POSITION, ...CODING },
        content: { ...EVENT_BATCHES, [LINES]: TEXT },
      },
    },
    problems: [
      'plant_not_found',
      'upgrade_required',
      'log_unavailable',
      'too_many_in_flight',
      'too_many_streams',
    ],
  },
} satisfies Routes;
