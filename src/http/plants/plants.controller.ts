import { Controller } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { type FastifyReply } from 'fastify';
import { EventPage } from '../../history/cloud-event.js';
import { readStreamHistory } from '../../history/read.js';
import { type PlantCommand } from '../../domain/plant.js';
import { plantStream } from '../../domain/stream.js';
import { EventLog, type Position } from '../../log/event-log.js';
import { Freshness } from '../../lists/freshness.js';
import { ListPlantsQuery } from '../../lists/list-plants.js';
import { ChangePlant } from '../../commands/plants.js';
import { DEFAULT_EVENTS, isBatch, MAX_EVENTS } from '../audit/audit-schemas.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { plantRequestOf } from './plant-request.js';
import { EventStreams, goneSignal } from '../audit/event-streams.js';
import { InFlightLimit } from '../in-flight-limit.js';
import { JSON_TYPE, ListAnswers, POSITION } from '../lists/list-answer.js';
import { Problem, rootFrom } from '../problem.js';
import { Representations } from '../representation.js';
import { preferences } from '../requests.js';
import { type Asked, Handles, HandlesAndSends } from '../route.js';
import { cursorOf } from '../schemas.js';
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

type Writing = Pick<Asked<typeof plantRoutes.createPlant>, 'request' | 'headers'>;

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
    private readonly lists: ListAnswers,
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
  async list(asked: Asked<typeof plantRoutes.listPlants>, reply: FastifyReply) {
    const { owner } = principalOf(asked.request);
    const { status, fields, body } = await this.lists.answer(owner, asked, reply.raw);
    reply.status(status);
    for (const [at, name] of fields.entries()) if (at % 2 === 0) reply.header(name, fields[at + 1]);
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
    const gone = goneSignal(reply.raw);
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
