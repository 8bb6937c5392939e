import { Controller, Delete, Get, HttpCode, Inject, Post, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { type z } from 'zod';
import { knownPosition } from '../../history/read.js';
import { type PastOperation, readPastOperations } from '../../operations/past-operations.js';
import { readStatus, type System } from '../../operations/status.js';
import { type SystemStatus } from '../../operations/system-status.js';
import { cancelRebuild, requestRebuild, requestRollback } from '../../write/rebuilds.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { EventStreams } from '../audit/event-streams.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { operatorOf } from './operator.js';
import {
  DEFAULT_OPERATIONS,
  MAX_OPERATIONS,
  NewRebuild,
  NewRollback,
  OperationsQuery,
  type RebuildAccepted,
} from './operation-schemas.js';
import { acceptedOf, readBodyIfAny, readQuery, refuseBody, refuseUnlessJsonIsAccepted } from '../requests.js';
import { NoQuery } from '../schemas.js';
import { LIVE, serverSentEvents } from '../server-sent-events.js';
import { StatusFeed } from './status-feed.js';

/** What the controller works with, for Nest: a System is no class. */
export const SYSTEM = Symbol('System');

/** The streams of operators, for Nest: their number is their own, so that auditors leave room for them. */
export const STATUS_STREAMS = Symbol('STATUS_STREAMS');

/** Where the progress of a request is shown, relative to each /operations/… that takes one. */
export const STATUS = 'status';

/** Status, what was asked for before, rebuilds and rollbacks. A request is recorded in the log; a projector executes it. */
@Controller('operations')
@UseGuards(BearerGuard)
@Scopes('plants:operate')
export class OperationsController {
  readonly #feed: StatusFeed;

  constructor(
    @Inject(SYSTEM) private readonly system: System,
    @Inject(STATUS_STREAMS) private readonly streams: EventStreams,
  ) {
    this.#feed = new StatusFeed(system);
  }

  @Get()
  async operations(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<readonly PastOperation[]> {
    refuseUnlessJsonIsAccepted(request);
    const { limit = DEFAULT_OPERATIONS, before } = readQuery(request, OperationsQuery);
    const { log } = this.system;
    const from = before === undefined ? undefined : knownPosition(before, await log.head(), '?before');
    const page = await readPastOperations(log, from, Math.min(limit, MAX_OPERATIONS));
    const last = page.operations.at(-1);
    if (page.more && last) reply.header('link', `<?limit=${limit}&before=${last.position}>; rel="next"`);
    return page.operations;
  }

  @Get('status')
  async status(@Req() request: GuardedRequest): Promise<SystemStatus> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    return readStatus(this.system);
  }

  @Get('events')
  async events(@Req() request: GuardedRequest, @Res() reply: FastifyReply): Promise<void> {
    acceptedOf(request, [LIVE]);
    readQuery(request, NoQuery);
    const { expiresAt } = principalOf(request);
    await this.streams.send(request, reply, LIVE, ({ over }) =>
      serverSentEvents(this.#feed.follow(request.id, over), expiresAt * 1_000),
    );
  }

  @Post('rebuilds')
  @HttpCode(202)
  async rebuild(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof RebuildAccepted>> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    const operator = operatorOf(request);
    const { rate = null, unskip = false } = readBodyIfAny(request, NewRebuild);
    const { log, now } = this.system;
    const rebuild = operator.commandId;
    await requestRebuild(log, { rebuild, rate, unskip }, operator, now);
    reply.header('location', STATUS);
    return { rebuild };
  }

  @Delete('rebuilds/:id')
  @HttpCode(204)
  async cancel(@Req() request: GuardedRequest): Promise<void> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    refuseBody(request);
    const operator = operatorOf(request);
    const { id } = request.params as { id: string };
    const { log, now } = this.system;
    await cancelRebuild(log, `by ${operator.actor.sub}`, operator, now, id);
  }

  @Post('rollback')
  @HttpCode(202)
  async rollback(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof RebuildAccepted>> {
    refuseUnlessJsonIsAccepted(request);
    readQuery(request, NoQuery);
    const operator = operatorOf(request);
    const { reason = 'none given' } = readBodyIfAny(request, NewRollback);
    const { log, now } = this.system;
    const rebuild = await requestRollback(log, reason, operator, now);
    reply.header('location', STATUS);
    return { rebuild };
  }
}
