import { Controller } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { type FastifyReply } from 'fastify';
import { PastLists, type PointInTime } from '../../history/as-of.js';
import { EventPage } from '../../history/cloud-event.js';
import { knownPosition, readStreamHistory } from '../../history/read.js';
import { instantOf } from '../../history/instant.js';
import { type PlantCommand } from '../../domain/plant.js';
import { plantStream } from '../../domain/stream.js';
import { EventLog, type Position, START } from '../../log/event-log.js';
import { Freshness } from '../../lists/freshness.js';
import { ListPlantsQuery } from '../../lists/list-plants.js';
import { ChangePlant } from '../../commands/plants.js';
import { DEFAULT_EVENTS, isBatch, MAX_EVENTS } from '../audit/audit-schemas.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { plantRequestOf } from './plant-request.js';
import { EventStreams, goneSignal } from '../audit/event-streams.js';
import { LongLists } from '../lists/long-lists.js';
import { InFlightLimit } from '../in-flight-limit.js';
import {
  fullListAnswer,
  JSON_TYPE,
  longListAnswer,
  POSITION,
  shortListAnswer,
} from '../lists/list-answer.js';
import { Problem, rootFrom } from '../problem.js';
import { Representations } from '../representation.js';
import { preferences, splitUrl } from '../requests.js';
import { type Asked, Handles, HandlesAndSends } from '../route.js';
import { cursorOf, DEFAULT_LIMIT, MAX_FULL_LIMIT, MAX_LIMIT } from '../schemas.js';
import { plantRoutes } from './plant-routes.js';

/** The header of a successful write that lists may not contain yet. */
const LISTS = 'plants-lists';

/** Writes of one owner in progress at a time: a tenth of what the log takes before it refuses, and others need it too. */
const WRITES_OF_AN_OWNER = 1_000;

/** Histories of one owner in progress at a time: each holds a page of events, or is a stream, of which there are 50. */
const HISTORIES_OF_AN_OWNER = 4;

interface HistoryPage {
  readonly stream: string;
  /** The events after this revision. */
  readonly from: bigint | undefined;
  /** The client's; at most MAX_EVENTS are sent. */
  readonly limit: number;
  readonly type: string;
}

/** Which page of a list of the past. */
interface PastPageAsked {
  /** The client's limit. */
  readonly limit: number;
  /** At most so many are given. */
  readonly most: number;
  /** Only ids greater than this one. */
  readonly after: number | undefined;
  readonly view: 'full' | undefined;
}

type Writing = Pick<Asked<typeof plantRoutes.createPlant>, 'request' | 'headers'>;

type AsOf = NonNullable<Asked<typeof plantRoutes.listPlants>['query']['asOf']>;

/** An owner's plants: add, list, read, delete. */
@Controller()
export class PlantsController {
  readonly #writes = new InFlightLimit(WRITES_OF_AN_OWNER);
  readonly #histories = new InFlightLimit(HISTORIES_OF_AN_OWNER);

  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly freshness: Freshness,
    private readonly log: EventLog,
    private readonly past: PastLists,
    private readonly longLists: LongLists,
    private readonly streams: EventStreams,
    private readonly representations: Representations,
  ) {}

  @Handles(plantRoutes.createPlant)
  async create(asked: Asked<typeof plantRoutes.createPlant>, reply: FastifyReply) {
    const { id, plant } = await this.#change(asked, reply, { type: 'CreatePlant', ...asked.body });
    reply.header('location', `plants/${id}`);
    return plant && { name: plant.name, tag: plant.tag };
  }

  @Handles(plantRoutes.listPlants)
  async list({ request, query, headers }: Asked<typeof plantRoutes.listPlants>, reply: FastifyReply) {
    const { limit = DEFAULT_LIMIT, after, asOf, view } = query;
    const position = headers['Plants-Position'] as Position | undefined;
    const { owner } = principalOf(request);
    const most = Math.min(limit, view === 'full' ? MAX_FULL_LIMIT : MAX_LIMIT);
    if (asOf) return this.#listOfThePast(request, reply, asOf, { limit, most, after, view });
    const page = await this.longLists.read(owner, most, reply, () =>
      this.queries.execute(new ListPlantsQuery(owner, after, most, position)),
    );
    if ('body' in page || view === 'full') {
      const { headers, body } = 'body' in page ? longListAnswer(page, limit) : fullListAnswer(page, limit);
      reply.headers(headers).type(JSON_TYPE);
      offerProof(request, reply, { limit: most, after, position: page.position });
      return this.representations.choose(request, reply, body);
    }
    const { status, fields, body } = shortListAnswer(page, limit, request.headers['if-none-match']);
    reply.status(status);
    for (const [at, name] of fields.entries()) if (at % 2 === 0) reply.header(name, fields[at + 1]);
    offerProof(request, reply, { limit: most, after, position: page.position });
    return status === 304 ? undefined : body;
  }

  @Handles(plantRoutes.readPlant)
  async read({ request, headers, params }: Asked<typeof plantRoutes.readPlant>, reply: FastifyReply) {
    const { id } = params;
    const position = headers['Plants-Position'] as Position | undefined;
    // The plant is the list of one that begins behind the id before it: as fresh as lists are, or 503.
    const before = id === Number.MIN_SAFE_INTEGER ? undefined : id - 1;
    const page = await this.queries.execute(
      new ListPlantsQuery(principalOf(request).owner, before, 1, position),
    );
    const [found] = 'body' in page ? [] : page.rows;
    if (found?.id !== id) throw new Problem('plant_not_found', `You have no plant with the id ${id}.`);
    reply.header(POSITION, page.position).type(JSON_TYPE);
    return this.representations.choose(request, reply, found.row);
  }

  @HandlesAndSends(plantRoutes.readPlantHistory)
  async history(
    { request, type, params: { id }, query: { limit, after } }: Asked<typeof plantRoutes.readPlantHistory>,
    reply: FastifyReply,
  ): Promise<void> {
    const { owner } = principalOf(request);
    await this.#histories.run(owner, async () => {
      const stream = plantStream(owner, id);
      if (!(await this.log.readLast(stream)))
        throw new Problem('plant_not_found', `You have never had a plant with the id ${id}.`);
      const from = after === undefined ? undefined : BigInt(after);
      if (isBatch(type))
        return this.#historyPage(request, reply, { stream, from, limit: limit ?? DEFAULT_EVENTS, type });
      await this.streams.sendLines(request, reply, type, limit ?? Infinity, (gone) =>
        readStreamHistory(this.log, stream, from, gone),
      );
    });
  }

  async #historyPage(
    request: GuardedRequest,
    reply: FastifyReply,
    { stream, from, limit, type }: HistoryPage,
  ): Promise<void> {
    const most = Math.min(limit, MAX_EVENTS);
    const gone = goneSignal(request, reply);
    const page = new EventPage(most);
    let whole = true;
    for await (const { events } of readStreamHistory(this.log, stream, from, gone)) {
      whole = await page.add(events);
      if (!whole) break;
    }
    gone.throwIfAborted();
    const { last } = page;
    if (last && !whole) {
      const query = new URLSearchParams({ limit: String(limit), after: cursorOf(Number(last.revision)) });
      reply.header('link', `<?${query.toString()}>; rel="next"`);
    }
    if (last) reply.header(POSITION, last.position);
    reply.type(`${type}; charset=utf-8`);
    await reply.send(await this.representations.choose(request, reply, page.text()));
  }

  @Handles(plantRoutes.deletePlant)
  async delete(asked: Asked<typeof plantRoutes.deletePlant>, reply: FastifyReply) {
    await this.#change(asked, reply, { type: 'DeletePlant', id: asked.params.id });
  }

  /** The list as it was, from the log itself: read-only, and complete whatever the projection does. */
  async #listOfThePast(
    request: GuardedRequest,
    reply: FastifyReply,
    asOf: AsOf,
    { limit, most, after, view }: PastPageAsked,
  ): Promise<string | Uint8Array | undefined> {
    const { owner } = principalOf(request);
    const head = await this.log.head();
    const page = await this.past.page(
      owner,
      await pointOf(asOf, this.log),
      { after, limit: most },
      head,
      goneSignal(request, reply),
    );
    if (page.more !== undefined) {
      const text = new URLSearchParams(splitUrl(request.url)[1]).get('asOf') ?? '';
      const query = new URLSearchParams({
        limit: String(limit),
        ...(view && { view }),
        asOf: text,
        after: cursorOf(page.more),
      });
      reply.header('link', `<?${query.toString()}>; rel="next"`);
    }
    if (page.position !== START) reply.header(POSITION, page.position);
    reply.type(JSON_TYPE);
    const shown = page.plants.map(({ id, name, tag }) =>
      view === 'full' ? { id, name, tag } : { name, tag },
    );
    return this.representations.choose(request, reply, JSON.stringify(shown));
  }

  /**
   * Runs the command of a request. Waits until the owner's lists contain what it has written, unless the client prefers not
   * to, and sends its position and whether they do.
   */
  async #change({ request, headers }: Writing, reply: FastifyReply, command: PlantCommand) {
    const named = plantRequestOf(request, headers['Idempotency-Key']);
    return this.#writes.run(named.owner, async () => {
      const changed = await this.commands.execute(new ChangePlant(named, command));
      await this.#settle(request, reply, named.owner, changed.position);
      return changed;
    });
  }

  async #settle(request: GuardedRequest, reply: FastifyReply, owner: string, position: Position) {
    reply.header(POSITION, position);
    const preferred = preferences(request);
    const applied = ['respond-async', 'receipt'].filter((one) => preferred.has(one));
    if (applied.length > 0) reply.header('preference-applied', applied.join(', '));
    if (preferred.has('receipt'))
      reply.header('link', `<${rootFrom(request.url)}log/receipt?position=${position}>; rel="receipt"`);
    if (preferred.has('respond-async') || !(await this.freshness.listed(owner, position)))
      reply.header(LISTS, 'behind');
    // Not before: a list that is requested meanwhile need not contain a write that has no answer yet.
    if (!preferred.has('respond-async')) this.freshness.raise(owner, position);
  }
}

/** Adds the link to the proof of a page, and of at least the events that the page shows, where the client prefers one. */
const offerProof = (
  request: GuardedRequest,
  reply: FastifyReply,
  { limit, after, position }: { limit: number; after: number | undefined; position: Position },
): void => {
  if (!preferences(request).has('proof')) return;
  const query = new URLSearchParams({
    limit: String(limit),
    ...(after !== undefined && { after: cursorOf(after) }),
    ...(position !== START && { position }),
  });
  const proof = `<log/list?${query.toString()}>; rel="proof"`;
  const next = reply.getHeader('link');
  reply.header('link', next === undefined ? proof : `${String(next)}, ${proof}`);
  reply.header('preference-applied', 'proof');
};

/** Resolves asOf on this log. Throws UnknownPosition, and Problem for a moment that is still to come. */
const pointOf = async (asOf: AsOf, log: EventLog): Promise<PointInTime> => {
  if ('position' in asOf) return { position: await knownPosition(log, asOf.position, '?asOf') };
  if (asOf.instant <= instantOf(new Date())) return asOf;
  const detail = 'must not be in the future';
  throw new Problem('invalid_request', `?asOf: ${detail}.`, { errors: [{ pointer: '?asOf', detail }] });
};
