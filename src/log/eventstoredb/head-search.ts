import { LogUnavailable, type Position, START } from '../event-log.js';
import { type Namespace, positionOf } from './namespace.js';
import { type Server } from './server.js';

/** Finds the last event of a log by reading the server's log backwards, as far as it was not read before. */
export class HeadSearch {
  /** No event up to `searched` is a later one of the log than `head`. */
  #last: { readonly searched: Position; readonly head: Position };

  /**
   * `created`: the position of the log's identity, before all of its events. `mayBeGone`: whether the event of a position
   * is being erased, or was.
   */
  constructor(
    private readonly server: Server,
    private readonly namespace: Namespace,
    created: Position,
    private readonly mayBeGone: (position: Position) => boolean,
  ) {
    this.#last = { searched: created, head: START };
  }

  /** The last event that the server has: erased ones that are gone may have been after it. */
  async find(): Promise<Position> {
    const { searched, head } = this.#last;
    let newest: Position | undefined;
    for await (const page of this.server.readBackwards())
      for (const event of page) {
        const position = positionOf(event);
        newest ??= position;
        // If the newest event is older than the last search, the server was restored, and that search is void.
        const seen = newest >= searched && position <= searched && !this.mayBeGone(head);
        if (!seen && !this.namespace.includes(event)) continue;
        const found = seen ? head : position;
        this.#last = { searched: newest, head: found };
        return found;
      }
    throw new LogUnavailable(`${this.server.title} has lost its events since it was opened`);
  }
}
