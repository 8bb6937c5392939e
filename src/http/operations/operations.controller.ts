import { Controller, Delete, Get, HttpCode, Inject, Post, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { type z } from 'zod';
import { type OperatedSystem, LocalOperations } from '../../operations/local.js';
import { type LongOperation } from '../../operations/long-operation.js';
import { type PastOperation } from '../../operations/past-operations.js';
import { type UnreadEvent } from '../../operations/skip-unread.js';
import { type SystemStatus } from '../../operations/system-status.js';
import { OperationRefused } from '../../rebuilds/rebuilds.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { EventStreams } from '../audit/event-streams.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import {
  acceptedOf,
  readBody,
  readBodyIfAny,
  readQuery,
  refuseBody,
  readValue,
  refuseUnlessJsonIsAccepted,
} from '../requests.js';
import { NoQuery } from '../schemas.js';
import { LIVE, serverSentEvents } from '../server-sent-events.js';
import {
  DEFAULT_OPERATIONS,
  type Lifted,
  MAX_OPERATIONS,
  NewEstimate,
  NewLift,
  NewRebuild,
  NewRollback,
  NewSkip,
  OperationsQuery,
  type RebuildAccepted,
  type SkipAccepted,
} from './operation-schemas.js';
import { askedOf, operatorOf } from './operator.js';
import { stepsOf } from './long-operations.js';
import { StatusFeed } from './status-feed.js';

/** What the controller works with, for Nest: an OperatedSystem is no class. */
export const SYSTEM = Symbol('SYSTEM');

/** The streams of operators, for Nest: their number is their own, so that auditors leave room for them. */
export const STATUS_STREAMS = Symbol('STATUS_STREAMS');

/** Where the progress of a request is shown, relative to each /operations/… that takes one. */
const STATUS = 'status';

/** Long operations of a kind at a time: each reads all that there is, and a comparison takes a thread and 64 MB. */
const AT_ONCE = 3;

/** What operators do, but for erasures and backups. A request is recorded in the log; a projector executes it. */
@Controller('operations')
@UseGuards(BearerGuard)
@Scopes('plants:operate')
export class OperationsController {
  readonly #feed: StatusFeed;
  /** How many long operations of a kind are in progress. */
  readonly #inProgress = new Map<string, number>();

  constructor(
    @Inject(SYSTEM) private readonly system: OperatedSystem,
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
    const page = await this.#operations(request).past(Math.min(limit, MAX_OPERATIONS), before);
    const last = page.operations.at(-1);
    if (page.more && last) reply.header('link', `<?limit=${limit}&before=${last.position}>; rel="next"`);
    return page.operations;
  }

  @Get('status')
  async status(@Req() request: GuardedRequest): Promise<SystemStatus> {
    return askedOf(this.system, request).status();
  }

  @Get('events')
  async events(@Req() request: GuardedRequest, @Res() reply: FastifyReply): Promise<void> {
    acceptedOf(request, [LIVE]);
    readQuery(request, NoQuery);
    const { expiresAt } = principalOf(request);
    await this.streams.send(request, reply, LIVE, ({ over }) =>
      serverSentEvents(this.#feed.follow(over), expiresAt * 1_000),
    );
  }

  @Post('estimates')
  async estimate(@Req() request: GuardedRequest, @Res() reply: FastifyReply): Promise<void> {
    const { rate = null } = readBodyIfAny(request, NewEstimate);
    const begin = (signal: AbortSignal) => this.#operations(request).estimate(rate, signal);
    await this.#follow('estimate', request, reply, begin);
  }

  @Post('verifications')
  async verify(@Req() request: GuardedRequest, @Res() reply: FastifyReply): Promise<void> {
    refuseBody(request);
    await this.#follow('comparison', request, reply, (signal) => this.#operations(request).verify(signal));
  }

  @Post('rebuilds')
  @HttpCode(202)
  async rebuild(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof RebuildAccepted>> {
    const operations = askedOf(this.system, request);
    const { rate = null, unskip = false } = readBodyIfAny(request, NewRebuild);
    const rebuild = await operations.rebuild({ rate, unskip });
    reply.header('location', STATUS);
    return { rebuild };
  }

  @Delete('rebuilds/:id')
  @HttpCode(204)
  async cancel(@Req() request: GuardedRequest): Promise<void> {
    const operations = askedOf(this.system, request);
    refuseBody(request);
    await operations.cancel((request.params as { id: string }).id);
  }

  @Post('rollback')
  @HttpCode(202)
  async rollback(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof RebuildAccepted>> {
    const operations = askedOf(this.system, request);
    const { reason = 'none given' } = readBodyIfAny(request, NewRollback);
    const rebuild = await operations.rollback(reason);
    reply.header('location', STATUS);
    return { rebuild };
  }

  @Get('skips/:position')
  async unread(@Req() request: GuardedRequest): Promise<UnreadEvent> {
    const { position } = request.params as { position: string };
    return askedOf(this.system, request).unread(
      readValue(NewSkip.shape.position, position, '/operations/skips/'),
    );
  }

  @Post('skips')
  @HttpCode(202)
  async skip(
    @Req() request: GuardedRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<z.input<typeof SkipAccepted>> {
    const operations = askedOf(this.system, request);
    const { position, reason, force = false } = readBody(request, NewSkip);
    const skipped = await operations.skip({ position, reason, force });
    reply.header('location', STATUS);
    return skipped;
  }

  @Post('lifts')
  @HttpCode(200)
  async lift(@Req() request: GuardedRequest): Promise<z.input<typeof Lifted>> {
    const operations = askedOf(this.system, request);
    const { reason } = readBody(request, NewLift);
    const lifted = await operations.lift(reason);
    return { lifted: lifted ? { ...lifted } : null };
  }

  #operations(request: GuardedRequest): LocalOperations {
    return new LocalOperations(this.system, operatorOf(request));
  }

  /** Sends a long operation as server-sent events. It ends with the connection, not with the token. */
  async #follow(
    what: string,
    request: GuardedRequest,
    reply: FastifyReply,
    begin: (signal: AbortSignal) => LongOperation<unknown>,
  ): Promise<void> {
    acceptedOf(request, [LIVE]);
    readQuery(request, NoQuery);
    const before = this.#inProgress.get(what) ?? 0;
    if (before === AT_ONCE)
      throw new OperationRefused(`${AT_ONCE} ${what}s are in progress here: wait for the end of one`);
    this.#inProgress.set(what, before + 1);
    try {
      await this.streams.send(request, reply, LIVE, ({ over }) =>
        serverSentEvents(stepsOf(begin(over), request), Infinity),
      );
    } finally {
      this.#inProgress.set(what, (this.#inProgress.get(what) ?? 1) - 1);
    }
  }
}
