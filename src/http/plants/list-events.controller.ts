import { Controller, Inject } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { ErasureGate } from '../../erasure/gate.js';
import { type ListChange, type ListChanges, ChangesOfLists } from '../../history/list-changes.js';
import { EventLog } from '../../log/event-log.js';
import { EventStreams } from '../audit/event-streams.js';
import { principalOf } from '../auth/principal.js';
import { type Asked, HandlesAndSends } from '../route.js';
import { LIVE, type LiveStep, resumedFrom, sentEvent, serverSentEvents } from '../server-sent-events.js';
import { plantRoutes } from './plant-routes.js';

/** The live streams of owners, for Nest: their number is their own. */
export const LIST_STREAMS = Symbol('LIST_STREAMS');

/** An owner's list as it changes. */
@Controller()
export class ListEventsController {
  constructor(
    private readonly log: EventLog,
    private readonly changes: ChangesOfLists,
    private readonly gate: ErasureGate,
    @Inject(LIST_STREAMS) private readonly streams: EventStreams,
  ) {}

  @HandlesAndSends(plantRoutes.followPlants)
  async events({ request, query }: Asked<typeof plantRoutes.followPlants>, reply: FastifyReply) {
    const { owner, expiresAt } = principalOf(request);
    const after = await resumedFrom(request, query.lastEventId, this.log);
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
