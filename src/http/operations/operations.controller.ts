import { Controller, Inject } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { type OperatedSystem } from '../../operations/local.js';
import { type LongOperation } from '../../operations/long-operation.js';
import { OperationRefused } from '../../commands/rebuilds.js';
import { EventStreams } from '../audit/event-streams.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { InFlightLimit } from '../in-flight-limit.js';
import { type Asked, Handles, HandlesAndSends } from '../route.js';
import { LIVE, serverSentEvents } from '../server-sent-events.js';
import { stepsOf } from './long-operations.js';
import { DEFAULT_OPERATIONS, MAX_OPERATIONS, operationRoutes } from './operation-routes.js';
import { operationsOf } from './operator.js';
import { StatusFeed } from './status-feed.js';

/** For Nest: an OperatedSystem is no class. */
export const SYSTEM = Symbol('SYSTEM');

/** The streams of operators, for Nest: their number is their own, so that auditors leave room for them. */
export const STATUS_STREAMS = Symbol('STATUS_STREAMS');

/** Path that shows the progress of a request, relative to each /operations/… that takes one. */
const STATUS = 'status';

/** Long operations of a kind at a time: each reads all that there is, and a comparison takes a thread and 64 MB. */
const AT_ONCE = 3;

/** All operations but erasures and backups. A request is recorded in the log; a projector executes it. */
@Controller()
export class OperationsController {
  readonly #feed: StatusFeed;
  readonly #long = new InFlightLimit(
    AT_ONCE,
    (what) => new OperationRefused(`the limit of ${AT_ONCE} ${what}s in progress is reached: wait for one`),
  );

  constructor(
    @Inject(SYSTEM) private readonly system: OperatedSystem,
    @Inject(STATUS_STREAMS) private readonly streams: EventStreams,
  ) {
    this.#feed = new StatusFeed(system);
  }

  @Handles(operationRoutes.listOperations)
  async operations(asked: Asked<typeof operationRoutes.listOperations>, reply: FastifyReply) {
    const { limit = DEFAULT_OPERATIONS, before } = asked.query;
    const page = await operationsOf(this.system, asked).past(Math.min(limit, MAX_OPERATIONS), before);
    const last = page.operations.at(-1);
    if (page.more && last) reply.header('link', `<?limit=${limit}&before=${last.position}>; rel="next"`);
    return page.operations;
  }

  @Handles(operationRoutes.readStatus)
  async status(asked: Asked<typeof operationRoutes.readStatus>) {
    return operationsOf(this.system, asked).status();
  }

  @HandlesAndSends(operationRoutes.followStatus)
  async events({ request }: Asked<typeof operationRoutes.followStatus>, reply: FastifyReply) {
    const { expiresAt } = principalOf(request);
    await this.streams.send(request, reply, LIVE, ({ over }) =>
      serverSentEvents(this.#feed.follow(over), expiresAt * 1_000),
    );
  }

  @HandlesAndSends(operationRoutes.estimateRebuild)
  async estimate(asked: Asked<typeof operationRoutes.estimateRebuild>, reply: FastifyReply) {
    const { rate = null } = asked.body;
    const operations = operationsOf(this.system, asked);
    await this.#follow('estimate', asked.request, reply, (signal) => operations.estimate(rate, signal));
  }

  @HandlesAndSends(operationRoutes.verifyLists)
  async verify(asked: Asked<typeof operationRoutes.verifyLists>, reply: FastifyReply) {
    const operations = operationsOf(this.system, asked);
    await this.#follow('comparison', asked.request, reply, (signal) => operations.verify(signal));
  }

  @Handles(operationRoutes.requestRebuild)
  async rebuild(asked: Asked<typeof operationRoutes.requestRebuild>, reply: FastifyReply) {
    const { rate = null, unskip = false } = asked.body;
    const rebuild = await operationsOf(this.system, asked).rebuild({ rate, unskip });
    reply.header('location', STATUS);
    return { rebuild };
  }

  @Handles(operationRoutes.cancelRebuild)
  async cancel(asked: Asked<typeof operationRoutes.cancelRebuild>) {
    await operationsOf(this.system, asked).cancel(asked.params.id);
  }

  @Handles(operationRoutes.requestRollback)
  async rollback(asked: Asked<typeof operationRoutes.requestRollback>, reply: FastifyReply) {
    const rebuild = await operationsOf(this.system, asked).rollback(asked.body.reason ?? 'none given');
    reply.header('location', STATUS);
    return { rebuild };
  }

  @Handles(operationRoutes.readUnread)
  async unread(asked: Asked<typeof operationRoutes.readUnread>) {
    return operationsOf(this.system, asked).unread(asked.params.position);
  }

  @Handles(operationRoutes.skipEvent)
  async skip(asked: Asked<typeof operationRoutes.skipEvent>, reply: FastifyReply) {
    const { position, reason, force = false } = asked.body;
    const skipped = await operationsOf(this.system, asked).skip({ position, reason, force });
    reply.header('location', STATUS);
    return skipped;
  }

  @Handles(operationRoutes.liftAlarm)
  async lift(asked: Asked<typeof operationRoutes.liftAlarm>) {
    return { lifted: (await operationsOf(this.system, asked).lift(asked.body.reason)) ?? null };
  }

  /** Sends a long operation as server-sent events. It ends with the connection, not with the token. */
  async #follow(
    what: string,
    request: GuardedRequest,
    reply: FastifyReply,
    begin: (signal: AbortSignal) => LongOperation<unknown>,
  ): Promise<void> {
    await this.#long.run(what, () =>
      this.streams.send(request, reply, LIVE, ({ over }) =>
        serverSentEvents(stepsOf(begin(over), request), Infinity),
      ),
    );
  }
}
