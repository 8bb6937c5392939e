import { Controller } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { type z } from 'zod';
import { EventPage } from '../../history/cloud-event.js';
import { type EventFilter, followHistory, knownPosition, readHistory } from '../../history/read.js';
import { EventLog, type Position, START } from '../../log/event-log.js';
import { auditRoutes } from './audit-routes.js';
import { type AuditQuery, DEFAULT_EVENTS, isBatch, MAX_EVENTS } from './audit-schemas.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { EventStreams, goneSignal, liveEvents } from './event-streams.js';
import { Representations } from '../representation.js';
import { invalid } from '../requests.js';
import { type Asked, HandlesAndSends } from '../route.js';
import { LIVE, resumedFrom, serverSentEvents } from '../server-sent-events.js';

/**
 * Milliseconds, after which a page ends short of `limit` with a link to the rest: a filter that lets nothing through
 * must not read a long log in one go.
 */
const PAGE_MS = 5_000;

/** For auditors: every event of every owner, in the order of the log. */
@Controller()
export class AuditController {
  constructor(
    private readonly log: EventLog,
    private readonly streams: EventStreams,
    private readonly representations: Representations,
  ) {}

  @HandlesAndSends(auditRoutes.readEvents)
  async events({ request, type, query }: Asked<typeof auditRoutes.readEvents>, reply: FastifyReply) {
    const head = await this.log.head();
    if (type === LIVE) return this.#live(request, reply, query, head);
    const after = await this.#startOf(query.after, head);
    const upTo = query.upTo === undefined ? head : await knownPosition(this.log, query.upTo, '?upTo');
    if (isBatch(type)) return this.#page(request, reply, query, { after, upTo }, type);
    await this.streams.sendLines(request, reply, type, query.limit ?? Infinity, (gone) =>
      readHistory(this.log, query, after, upTo, gone),
    );
  }

  /** Server-sent events: what the log holds, and then what comes. */
  async #live(
    request: GuardedRequest,
    reply: FastifyReply,
    query: z.output<typeof AuditQuery>,
    head: Position,
  ): Promise<void> {
    for (const name of ['limit', 'upTo'] as const)
      if (query[name] !== undefined)
        throw invalid([{ pointer: `?${name}`, detail: 'is not for a live stream, which has no end' }]);
    const resumed = await resumedFrom(request, query.lastEventId, this.log);
    const after = resumed ?? (await this.#startOf(query.after, head));
    const { expiresAt } = principalOf(request);
    await this.streams.send(request, reply, LIVE, ({ over }) =>
      serverSentEvents(liveEvents(followHistory(this.log, query, after, over)), expiresAt * 1_000),
    );
  }

  async #page(
    request: GuardedRequest,
    reply: FastifyReply,
    query: z.output<typeof AuditQuery>,
    range: Range,
    type: string,
  ): Promise<void> {
    const limit = Math.min(query.limit ?? DEFAULT_EVENTS, MAX_EVENTS);
    const page = await this.#collect(query, range, limit, goneSignal(reply.raw));
    if (page.more) reply.header('link', `<${nextPage(request.url, page.position)}>; rel="next"`);
    if (page.position !== START) reply.header('plants-position', page.position);
    reply.type(`${type}; charset=utf-8`);
    await reply.send(await this.representations.choose(request, reply, page.text));
  }

  async #collect(filter: EventFilter, { after, upTo }: Range, limit: number, gone: AbortSignal) {
    const giveUp = performance.now() + PAGE_MS;
    const page = new EventPage(limit);
    for await (const { events, position, done } of readHistory(this.log, filter, after, upTo, gone)) {
      if (!(await page.add(events)))
        return { text: page.text(), position: page.last?.position ?? START, more: true };
      if (done) return { text: page.text(), position, more: false };
      if (performance.now() > giveUp) return { text: page.text(), position, more: true };
    }
    throw gone.reason;
  }

  async #startOf(after: string | undefined, head: Position): Promise<Position> {
    if (after === undefined) return START;
    return after === 'head' ? head : knownPosition(this.log, after, '?after');
  }
}

/** Positions: the first one excluded, the last one included. */
interface Range {
  readonly after: Position;
  readonly upTo: Position;
}

/** The same page of what comes after a position. */
const nextPage = (url: string, position: Position): string => {
  const next = new URL(url, 'http://here');
  next.searchParams.set('after', position);
  return next.search;
};
