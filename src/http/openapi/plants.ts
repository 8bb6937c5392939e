import { ListEventsQuery, PlantHistoryQuery } from '../audit/audit-schemas.js';
import { LINES } from '../long-bodies.js';
import { MAX_IMPORT_BYTES, MAX_IMPORT_LINES } from '../plants/import-schemas.js';
import { ConfirmErasure, ListQuery, PlantId } from '../schemas.js';
import {
  codingOut,
  etagIn,
  etagOut,
  eventsIn,
  EVERYWHERE,
  json,
  keyIn,
  lastEventIn,
  LISTING,
  nextOut,
  parameter,
  type PathItem,
  positionIn,
  positionOut,
  problems,
  queryOf,
  reference,
  textHeader,
  TOKEN,
  unchanged,
  WRITING,
} from './parts.js';

const ALL = { tags: ['plants'], security: TOKEN };

const PLANT = { name: 'Zamioculcas zamiifolia', tag: 'low light' };

const id = parameter('path', 'id', PlantId);

const preferIn = parameter('header', 'Prefer', {
  type: 'string',
  description:
    '`respond-async` answers as soon as the write is durable; a list may not contain it yet. `receipt` asks for a link to the proof that the write is in the log.',
  examples: ['respond-async', 'receipt'],
});

const preferProofIn = parameter('header', 'Prefer', {
  type: 'string',
  description: '`proof` asks for a link to the proof that the page is complete.',
  examples: ['proof'],
});

const provenOut = {
  'Preference-Applied': textHeader('What of `Prefer` was done (RFC 7240).'),
  Link: textHeader(
    'Where the next page is, `<…>; rel="next"`, if there is one; and where the proof is, `<…>; rel="proof"`, where `Prefer: proof` asked for it.',
  ),
};

/** What answers to writes say of lists and receipts. */
const writtenOut = {
  ...positionOut,
  'Plants-Lists': {
    description:
      'There only where lists may not contain the write yet: it is durable, and the next list contains it or is 503. After `respond-async` that holds from two seconds on.',
    schema: { type: 'string', enum: ['behind'] },
  },
  'Preference-Applied': textHeader('What of `Prefer` was done (RFC 7240).'),
  Link: textHeader('Where the receipt is, `<…>; rel="receipt"`, where `Prefer: receipt` asked for it.'),
};

/** An owner's plants. */
export const plantPaths: Readonly<Record<string, PathItem>> = {
  '/plants': {
    post: {
      ...ALL,
      operationId: 'createPlant',
      summary: 'Add a plant',
      description:
        'The plant is durable when the answer comes, and in your lists unless the answer says `Plants-Lists: behind`.',
      parameters: [keyIn, preferIn],
      requestBody: {
        required: true,
        content: json(reference('NewPlant'), {
          plant: { summary: 'A plant', value: { ...PLANT, id: 7 } },
        }),
      },
      responses: {
        201: {
          description: 'The plant was added.',
          headers: { Location: textHeader('Where the plant is: GET or DELETE it there.'), ...writtenOut },
          content: json(reference('Plant'), { plant: { value: PLANT } }),
        },
        ...problems(
          ...EVERYWHERE,
          ...WRITING,
          'malformed_json',
          'unsupported_media_type',
          'plant_exists',
          'owner_erasing',
          'too_many_in_flight',
        ),
      },
    },
    get: {
      ...ALL,
      operationId: 'listPlants',
      summary: 'List your plants',
      description:
        'In ascending order of id. It contains every write that was answered before you asked, by whatever process, or is 503.',
      parameters: [...queryOf(ListQuery), positionIn, etagIn, preferProofIn],
      responses: {
        200: {
          description: 'A page of your plants.',
          headers: { ...provenOut, ...positionOut, ...etagOut, ...codingOut },
          content: json(
            { anyOf: [reference('PlantList'), { type: 'array', items: reference('PlantWithId') }] },
            {
              list: { value: [PLANT] },
              full: { summary: 'With view=full', value: [{ id: 7, ...PLANT }] },
            },
          ),
        },
        ...unchanged({ ...provenOut, ...positionOut, ...etagOut }),
        ...problems(...EVERYWHERE, ...LISTING, 'past_unavailable'),
      },
    },
    delete: {
      ...ALL,
      operationId: 'eraseEverything',
      summary: 'Erase everything of yours, for good',
      description:
        'All your plants and events are removed from all stores; a hash of each event is left, so that proofs of before still verify. It cannot be undone. Only where the service is set to allow it, else 409 `operation_refused`. Until it is over, some seconds, your writes are 410 `owner_erasing`; then you may begin again with nothing of before.',
      parameters: [parameter('header', 'Confirm-Erasure', ConfirmErasure, true)],
      responses: {
        202: {
          description: 'It has begun. Sent again meanwhile, the same.',
          content: json(reference('ErasureAccepted')),
        },
        204: { description: 'Nothing of yours is stored.' },
        ...problems(...EVERYWHERE, ...WRITING, 'operation_refused'),
      },
    },
  },
  '/plants/events': {
    get: {
      ...ALL,
      operationId: 'followPlants',
      summary: 'Follow your list as it changes',
      description:
        'Server-sent events. `ready` comes first: `{position}` from where on changes come. `added` holds `{id, name, tag}`, `deleted` `{id}`; `reload` says that the list may have changed in a way that is not told here: ask for the list again. The id of each is a position: sent as `Last-Event-ID` it resumes the stream, and sent as `Plants-Position` with a list, that list contains the change. It ends with the token, when the process stops, and when you are erased; and the oldest of 8 streams of yours, when you open another one.',
      parameters: [...queryOf(ListEventsQuery), lastEventIn],
      responses: {
        200: {
          description: 'Changes, for as long as you read.',
          content: { 'text/event-stream': { schema: { type: 'string' } } },
        },
        ...problems(
          ...EVERYWHERE,
          'invalid_request',
          'position_unknown',
          'owner_erasing',
          'log_unavailable',
          'too_many_streams',
        ),
      },
    },
  },
  '/plants/import': {
    post: {
      ...ALL,
      operationId: 'importPlants',
      summary: 'Add many plants',
      description: `A plant in each line, as JSON, as \`POST /plants\` takes it: at most ${MAX_IMPORT_LINES} lines and ${MAX_IMPORT_BYTES} bytes. The answer has a line with the outcome of each, an ImportedLine, in their order and as they are written, and then an ImportEnd. Each outcome is durable when it comes; without the ImportEnd the import was broken off. It may be sent again: what is there already with the same name and tag is \`exists\`. Each line counts as a request.`,
      requestBody: {
        required: true,
        content: { [LINES]: { schema: { type: 'string', maxLength: MAX_IMPORT_BYTES } } },
      },
      responses: {
        200: {
          description: 'The outcomes.',
          content: {
            [LINES]: {
              schema: {
                type: 'string',
                description: 'Each line is one of these.',
                contentMediaType: 'application/json',
                contentSchema: { anyOf: [reference('ImportedLine'), reference('ImportEnd')] },
              },
            },
          },
        },
        ...problems(
          ...EVERYWHERE,
          'invalid_request',
          'malformed_json',
          'body_too_large',
          'unsupported_media_type',
          'too_many_in_flight',
          'too_many_streams',
        ),
      },
    },
  },
  '/plants/{id}': {
    get: {
      ...ALL,
      operationId: 'readPlant',
      summary: 'Get a plant of yours',
      description:
        'As fresh as a list: it contains every write that was answered before you asked, or is 503.',
      parameters: [id, positionIn, etagIn],
      responses: {
        200: {
          description: 'The plant.',
          headers: { ...positionOut, ...etagOut },
          content: json(reference('Plant'), { plant: { value: PLANT } }),
        },
        ...unchanged({ ...positionOut, ...etagOut }),
        ...problems(...EVERYWHERE, ...LISTING, 'plant_not_found'),
      },
    },
    delete: {
      ...ALL,
      operationId: 'deletePlant',
      summary: 'Delete a plant',
      description: 'The plant is gone from your lists when the answer comes. Its id may be used again.',
      parameters: [id, keyIn, preferIn],
      responses: {
        204: { description: 'The plant is gone.', headers: writtenOut },
        ...problems(...EVERYWHERE, ...WRITING, 'plant_not_found', 'owner_erasing', 'too_many_in_flight'),
      },
    },
  },
  '/plants/{id}/history': {
    get: {
      ...ALL,
      operationId: 'readPlantHistory',
      summary: 'See all that happened to a plant of yours',
      description:
        'From the log itself, in pages, the newest last; also of a plant that was deleted. `Accept: application/x-ndjson` gives all of it, one event in each line, as fast as you read; if the connection breaks off, it was not all; over HTTP/1.0, which cannot tell, it is refused.',
      parameters: [id, ...queryOf(PlantHistoryQuery), etagIn],
      responses: {
        200: {
          description: 'Its events, as CloudEvents.',
          headers: { ...nextOut, ...positionOut, ...etagOut, ...codingOut },
          content: eventsIn('application/cloudevents-batch+json', 'application/json', 'application/x-ndjson'),
        },
        ...unchanged({ ...nextOut, ...positionOut, ...etagOut }),
        ...problems(
          ...EVERYWHERE,
          'invalid_request',
          'plant_not_found',
          'upgrade_required',
          'log_unavailable',
          'too_many_in_flight',
          'too_many_streams',
        ),
      },
    },
  },
};
