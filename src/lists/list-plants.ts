import { Query, QueryHandler, type IQueryHandler } from '@nestjs/cqrs';
import { monotonicMs } from '../runtime/runtime.js';
import { EventLog, LogUnavailable, type Position, START, UnknownPosition } from '../log/event-log.js';
import { type LongPage, type Page, ReadModel } from './read-model.js';
import { Freshness, NotFreshYet } from './freshness.js';

/** Lists of more plants than this are long: up to 160 KB are read for others, and up to 1.6 MB for these. */
export const LONG_LIST = 100;

/** The most readings of a page that lacks what was acknowledged while it was read. */
const ROUNDS = 10;

/** A page of an owner's plants, in ascending order of id. */
export class ListPlantsQuery extends Query<Page | LongPage> {
  constructor(
    readonly owner: string,
    /** Only ids greater than this one. */
    readonly after: number | undefined,
    /** At most so many. */
    readonly limit: number,
    /** The page contains everything up to here. */
    readonly atLeast: Position | undefined,
  ) {
    super();
  }
}

/**
 * Answers with a page of the read model that contains what Freshness says it has to: it waits for such a page, or
 * throws NotFreshYet. Throws UnknownPosition, ReadModelIncomplete and ReadModelUnavailable.
 */
@QueryHandler(ListPlantsQuery)
export class ListPlantsHandler implements IQueryHandler<ListPlantsQuery> {
  constructor(
    private readonly model: ReadModel,
    private readonly freshness: Freshness,
    private readonly log: EventLog,
  ) {}

  async execute({ owner, after, limit, atLeast = START }: ListPlantsQuery): Promise<Page | LongPage> {
    const arrived = monotonicMs();
    const read = (): Promise<Page | LongPage> =>
      limit > LONG_LIST ? this.model.longList(owner, after, limit) : this.model.list(owner, after, limit);
    let page = await read();
    if (areOfTwoLogs(atLeast, page.position)) throw unknownPosition();
    const horizon =
      this.freshness.knownHorizon(arrived, page) ?? (await this.freshness.horizon(arrived, page));
    const asked = atLeast > horizon ? atLeast : horizon;
    // Computed each time: meanwhile another list may have shown more, or a write been acknowledged.
    const needed = (): Position => {
      const floor = this.freshness.floor(owner);
      return asked > floor ? asked : floor;
    };
    if (page.position < needed()) {
      if (page.position < atLeast) await this.#assertReached(atLeast);
      const patience = this.freshness.patience();
      for (let round = 0; page.position < needed(); round++) {
        const { generation } = page;
        if (round === ROUNDS || !(await this.freshness.reached(owner, needed(), patience)))
          throw new NotFreshYet('the list is not up to date yet');
        page = await read();
        if (page.generation !== generation) await this.freshness.horizon(arrived, page);
      }
    }
    this.freshness.answered(owner, page);
    return page;
  }

  /** Throws UnknownPosition where the log has not reached a position; where the log is unavailable, the list waits. */
  async #assertReached(position: Position): Promise<void> {
    let head: Position;
    try {
      head = await this.log.head();
    } catch (error) {
      if (error instanceof LogUnavailable) return;
      throw error;
    }
    if (areOfTwoLogs(position, head)) throw unknownPosition();
    if (position > head) throw unknownPosition();
  }
}

/** All positions of one log have the same length; a client may have one of the log before a move. */
const areOfTwoLogs = (one: Position, other: Position): boolean =>
  one !== START && other !== START && one.length !== other.length;

/** The error for a position of another service, or an invented one. */
const unknownPosition = (): UnknownPosition =>
  new UnknownPosition('Plants-Position', 'is after the end of the log');
