import { Controller, Get, Inject, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { ErasureGate } from '../../erasure/gate.js';
import { type ListChange, type ListChanges, ChangesOfLists } from '../../history/list-changes.js';
import { knownPosition } from '../../history/read.js';
import { EventLog } from '../../ports/event-log.js';
import { EventStreams, isHead } from '../audit/event-streams.js';
import { BearerGuard, Scopes } from '../auth/bearer.guard.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { InFlightLimit } from '../in-flight-limit.js';
import { acceptedOf, readQuery } from '../requests.js';
import { NoQuery } from '../schemas.js';
import { LIVE, type LiveStep, sentEvent, serverSentEvents } from '../server-sent-events.js';

/** The live streams of owners, for Nest: their number is their own. */
export const LIST_STREAMS = Symbol('LIST_STREAMS');

/** Live streams of one owner in this process: a browser's tabs, and a device or two. */
const STREAMS_OF_AN_OWNER = 8;

/** An owner's list as it changes. */
@Controller('plants')
@UseGuards(BearerGuard)
@Scopes('plants:read')
export class ListEventsController {
  readonly #streams = new InFlightLimit(STREAMS_OF_AN_OWNER);

  constructor(
    private readonly log: EventLog,
    private readonly changes: ChangesOfLists,
    private readonly gate: ErasureGate,
    @Inject(LIST_STREAMS) private readonly streams: EventStreams,
  ) {}

  @Get('events')
  async events(@Req() request: GuardedRequest, @Res() reply: FastifyReply): Promise<void> {
    acceptedOf(request, [LIVE]);
    readQuery(request, NoQuery);
    const { owner, expiresAt } = principalOf(request);
    const { 'last-event-id': last = '' } = request.headers;
    const after =
      last === '' ? undefined : knownPosition(String(last), await this.log.head(), 'Last-Event-ID');
    await this.gate.admit(owner);
    if (isHead(request, reply, LIVE)) return;
    await this.#streams.run(owner, () =>
      this.streams.send(request, reply, LIVE, ({ over }) =>
        serverSentEvents(steps(this.changes.follow(owner, after, over)), expiresAt * 1_000),
      ),
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
