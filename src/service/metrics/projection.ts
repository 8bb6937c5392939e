import { type Registry } from 'prom-client';
import { type EventLog, oldestOf, type Position, START } from '../../log/event-log.js';
import { activeOf, type Generations } from '../../lists/generations.js';
import { type ReadModel } from '../../lists/read-model.js';
import { type Projector, type ProjectorStatus } from '../../projection/projector.js';
import { BoundedLook } from './bounded-look.js';
import { onlyOne, showGauge, showLabelledGauge } from './gauge.js';

/** Every state of a projector. */
const STATES = Object.keys({
  starting: 0,
  standby: 0,
  catching_up: 0,
  live: 0,
  disconnected: 0,
} satisfies Record<ProjectorStatus['state'], 0>);

/** Distance between the lists and the end of the log. */
export interface Lag {
  /** The age of the oldest event that is not applied: 0 where all are. */
  readonly seconds: number | undefined;
  /** Events that are not applied, where the log can tell. */
  readonly events: number | undefined;
}

const UNKNOWN: Lag = { seconds: undefined, events: undefined };

export interface LagSources {
  readonly log: EventLog;
  readonly model: ReadModel & Generations;
  readonly projector: Pick<Projector, 'status' | 'rebuild'>;
  readonly now: () => Date;
}

/** Adds what a projector does, and how far it is behind. */
export const showProjector = (registry: Registry, sources: LagSources): void => {
  const lag = new ProjectionLag(sources);
  const { model, projector } = sources;
  const blocked = new BoundedLook(async () => {
    const active = activeOf(await model.generations());
    return active ? model.countBlocked(active.generation) : 0;
  });
  showLabelledGauge(
    registry,
    'plants_projector_state',
    '1 for what the projector of this process does, 0 for everything else.',
    'state',
    () => onlyOne(STATES, projector.status.state),
  );
  showGauge(
    registry,
    'plants_projection_lag_seconds',
    'The age of the oldest event that is not in the lists, 0 where all are; absent on standby.',
    async () => (await lag.measure()).seconds,
  );
  showGauge(
    registry,
    'plants_projection_lag_events',
    'Events that are not in the lists; absent on standby, and where the log cannot tell (EventStoreDB).',
    async () => (await lag.measure()).events,
  );
  showGauge(
    registry,
    'plants_parked_owners',
    'Owners whose lists are not answered, since one of their events cannot be read; absent on standby.',
    () => (projector.status.state === 'standby' ? undefined : blocked.result()),
  );
  showGauge(
    registry,
    'plants_rebuild_progress_ratio',
    'How much of the rebuild that this process works on is done, 0 to 1; absent where there is none.',
    () => projector.rebuild?.share,
  );
  showGauge(
    registry,
    'plants_rebuild_remaining_seconds',
    'How long the rebuild that this process works on will still take, as far as it can be foreseen.',
    () => projector.rebuild?.secondsLeft,
  );
  showGauge(
    registry,
    'plants_rebuild_stalled',
    '1 while the rebuild that this process works on fails again and again, else 0; absent where there is none.',
    () => projector.rebuild && (projector.rebuild.problem === undefined ? 0 : 1),
  );
};

/** Measures, when asked, how far a projector is behind. It asks the stores, once for all who ask meanwhile. */
export class ProjectionLag {
  readonly #bounded = new BoundedLook(() => this.#look());
  /** Everything that was decided before is applied; milliseconds since 1970. */
  #appliedUntil: number | undefined;

  constructor(private readonly sources: LagSources) {}

  /**
   * Never rejects, and takes LOOK_MS at most. Where the stores do not tell, what they told last has grown older
   * since: nothing that was applied is lost by that, so the lag is never more than the answer says.
   */
  async measure(): Promise<Lag> {
    const { projector, now } = this.sources;
    if (projector.status.state === 'standby') return UNKNOWN;
    const found = await this.#bounded.result();
    if (found) return found;
    if (this.#appliedUntil === undefined) return UNKNOWN;
    return { seconds: Math.max(0, (now().getTime() - this.#appliedUntil) / 1_000), events: undefined };
  }

  async #look(): Promise<Lag> {
    const { log, now } = this.sources;
    const applied = await this.#applied();
    const at = now().getTime();
    const head = await log.head();
    if (head <= applied) {
      this.#appliedUntil = at;
      return { seconds: 0, events: log.count(head, head) };
    }
    this.#appliedUntil = await this.#decidedAfter(applied);
    return {
      seconds: Math.max(0, (at - this.#appliedUntil) / 1_000),
      events: log.count(applied, head),
    };
  }

  /** Everything up to here is in the read model. */
  async #applied(): Promise<Position> {
    const { model, projector } = this.sources;
    const { status } = projector;
    if ('generation' in status) return status.position;
    const active = activeOf(await model.generations());
    return active
      ? oldestOf((await model.anchors(active.generation)).map(({ position }) => position))
      : START;
  }

  /** When the first event after a position was decided, in milliseconds since 1970. */
  async #decidedAfter(position: Position): Promise<number> {
    let decidedAt = NaN;
    for await (const { metadata } of this.sources.log.readAll(position)) {
      // It was not decoded yet: this may be the very event that the codec refuses.
      decidedAt = Date.parse(String((metadata as { decidedAt?: unknown } | null)?.decidedAt));
      break;
    }
    if (Number.isNaN(decidedAt))
      throw new Error(`the event after ${position} does not say when it was decided`);
    return decidedAt;
  }
}
