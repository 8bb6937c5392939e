import { Controller, Get, Inject, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { ErasureGate } from '../../erasure/gate.js';
import { type ListChange, type ListChanges, ChangesOfLists } from '../../history/list-changes.js';
import { EventLog } from '../../ports/event-log.js';
import { ListEventsQuery } from '../audit/audit-schemas.js';
import { EventStreams } from '../audit/event-streams.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { acceptedOf, readQuery } from '../requests.js';
import { LIVE, type LiveStep, resumedFrom, sentEvent, serverSentEvents } from '../server-sent-events.js';

/** The live streams of owners, for Nest: their number is their own. */
export const LIST_STREAMS = Symbol('LIST_STREAMS');

/** An owner's list as it changes. */
@Controller('plants')
@UseGuards(BearerGuard)
@Scopes('plants:read')
export class ListEventsController {
  constructor(
    private readonly log: EventLog,
    private readonly changes: ChangesOfLists,
    private readonly gate: ErasureGate,
    @Inject(LIST_STREAMS) private readonly streams: EventStreams,
  ) {}

  @Get('events')
  async events(@Req() request: GuardedRequest, @Res() reply: FastifyReply): Promise<void> {
    acceptedOf(request, [LIVE]);
    const { lastEventId } = readQuery(request, ListEventsQuery);
    const { owner, expiresAt } = principalOf(request);
    const after = await resumedFrom(request, lastEventId, this.log);
    await this.gate.admit(owner);
    await this.streams.send(request, reply, LIVE, ({ over }) =>
      serverSentEvents(steps(this.changes.follow(owner, after, over)), expiresAt * 1_000),
    );
  }
}

/** The first one says from where on changes come. */
async function* steps(batches: AsyncIterable<ListChanges>): AsyncGenerator<LiveStep, void, undefined> {
  let begun = false;
  for await (const { changes, position, waiting } of batches) {
    const events = begun ? changes.map(textOf) : [sentEvent('ready', JSON.stringify({ position }), position)];
    begun = true;
    yield { events: events.length > 0 ? [events.join('')] : undefined, position, waiting };
  }
}

const textOf = (change: ListChange): string => {
  switch (change.type) {
    case 'added': {
      const { id, name, tag } = change.plant;
      return sentEvent('added', JSON.stringify({ id, name, tag }), change.position);
    }
    case 'deleted':
      return sentEvent('deleted', JSON.stringify({ id: change.id }), change.position);
    case 'reload':
      return sentEvent('reload', '{}', change.position);
  }
};
