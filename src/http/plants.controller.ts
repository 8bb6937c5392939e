import { randomUUID } from 'node:crypto';
import { Controller, Delete, Get, HttpCode, Post, Req, Res, UseGuards } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { type FastifyReply } from 'fastify';
import { type Appended, type Position } from '../ports/event-log.js';
import { Freshness } from '../read/freshness.js';
import { ListPlantsQuery } from '../read/list-plants.js';
import { CreatePlantCommand, DeletePlantCommand, type PlantRequest } from '../write/handlers.js';
import { BearerGuard, Scopes } from './auth/bearer.guard.js';
import { type GuardedRequest, principalOf } from './auth/principal.js';
import { correlationIdOf, traceparentOf } from './correlation.js';
import { CreatePlantDocs, DeletePlantDocs, ListPlantsDocs, PlantsDocs } from './openapi.js';
import {
  preferences,
  readBody,
  readQuery,
  readValue,
  refuseBody,
  refuseUnlessJsonIsAccepted,
} from './requests.js';
import {
  cursorOf,
  DEFAULT_LIMIT,
  IdempotencyKey,
  ListQuery,
  MAX_LIMIT,
  NewPlant,
  NoQuery,
  PlantId,
  PositionHeader,
} from './schemas.js';

/** The header that carries a position, in both directions. */
const POSITION = 'plants-position';

/** An owner's plants: add, list, delete. */
@Controller('plants')
@PlantsDocs()
@UseGuards(BearerGuard)
export class PlantsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly freshness: Freshness,
  ) {}

  @Post()
  @CreatePlantDocs()
  @Scopes('plants:write')
  async create(@Req() request: GuardedRequest, @Res({ passthrough: true }) reply: FastifyReply) {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    const named = nameOf(request);
    const plant = readBody(request, NewPlant);
    const appended = await this.commands.execute(new CreatePlantCommand(named, plant));
    await this.#settle(request, reply, appended);
    reply.header('location', `/plants/${plant.id}`);
    return { name: plant.name, tag: plant.tag };
  }

  @Get()
  @ListPlantsDocs()
  @Scopes('plants:read')
  async list(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<string> {
    refuseUnlessJsonIsAccepted(request);
    const { limit = DEFAULT_LIMIT, after } = readQuery(request, ListQuery);
    const atLeast = request.headers[POSITION];
    const position =
      atLeast === undefined ? undefined : readValue(PositionHeader, atLeast, 'Plants-Position');
    const { owner } = principalOf(request);
    const page = await this.queries.execute(
      new ListPlantsQuery(owner, after, Math.min(limit, MAX_LIMIT), position as Position | undefined),
    );
    const last = page.rows.at(-1);
    if (page.more && last)
      reply.header('link', `</plants?limit=${limit}&after=${cursorOf(last.id)}>; rel="next"`);
    reply.header(POSITION, page.position).type('application/json; charset=utf-8');
    return `[${page.rows.map(({ row }) => row).join(',')}]`;
  }

  @Delete(':id')
  @DeletePlantDocs()
  @HttpCode(204)
  @Scopes('plants:write')
  async delete(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<void> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    refuseBody(request);
    const named = nameOf(request);
    const id = readValue(PlantId, (request.params as { id: string }).id, 'id');
    const appended = await this.commands.execute(new DeletePlantCommand(named, id));
    await this.#settle(request, reply, appended);
  }

  /** Waits until the owner's lists contain a write, unless the client does not want to, and says where it stands. */
  async #settle(request: GuardedRequest, reply: FastifyReply, { position }: Appended): Promise<void> {
    reply.header(POSITION, position);
    if (preferences(request).has('respond-async')) {
      reply.header('preference-applied', 'respond-async');
      return;
    }
    const { owner } = principalOf(request);
    await this.freshness.reached(owner, position);
    // Not before: a list that is asked for meanwhile owes nothing to a write that has no answer yet.
    this.freshness.raise(owner, position);
  }
}

/** Who asks, in which context, and how the client named the request. */
const nameOf = (request: GuardedRequest): PlantRequest => {
  const { owner, subject, clientId } = principalOf(request);
  const header = request.headers['idempotency-key'];
  const traceparent = traceparentOf(request);
  return {
    owner,
    key: header === undefined ? undefined : readValue(IdempotencyKey, header, 'Idempotency-Key'),
    context: {
      commandId: randomUUID(),
      actor: { sub: subject, ...(clientId === undefined ? {} : { clientId }) },
      correlationId: correlationIdOf(request),
      ...(traceparent === undefined ? {} : { traceparent }),
    },
  };
};
