import { AccessDeniedError, StreamDeletedError, WrongExpectedVersionError } from '@eventstore/db-client';
import { monotonicMs } from '../../runtime/runtime.js';
import { backoffMs } from '../../runtime/backoff.js';
import { LogUnavailable, ScrubTakesTime } from '../event-log.js';
import { deleteSubject, type ErasingLog, isAnyLeft } from './erased-streams.js';
import { type Server } from './server.js';
import { OptionsHidden } from './server-option.js';

/** The server's option without which the names of deleted streams stay in its files. */
const OPTION = 'UnsafeIgnoreHardDelete';

/** Holds nothing, ever: a deletion at a revision that it does not have shows whether this account may delete. */
export const PROBE_STREAM = 'plants-probe';

/** Interval at which it is looked whether erased events are gone. */
const LOOK_EVERY_MS = 2_000;

/** Pauses before another scavenge is started, in milliseconds: one that has ended may have left the last chunk. */
const PAUSES = { firstMs: 10_000, longestMs: 3_600_000 };

/**
 * Why a log in EventStoreDB cannot erase, in one line; undefined where it can. `probe`: the name of PROBE_STREAM on the
 * server. Owners may see it, so it does not say where the server is. Throws LogUnavailable.
 */
export const whyNotErase = async (server: Server, probe: string): Promise<string | undefined> => {
  try {
    const members = await server.members();
    if (members > 1)
      return `EventStoreDB has ${members} members, and this version erases only where there is one: nothing was written`;
    await server.tombstone(probe, BigInt(Number.MAX_SAFE_INTEGER));
  } catch (error) {
    if (error instanceof AccessDeniedError)
      return 'EventStoreDB does not let the account of this service delete streams: allow it ($d of the default ACL, docs/stores.md); nothing was written';
    if (!(error instanceof WrongExpectedVersionError || error instanceof StreamDeletedError))
      throw server.unavailable(error);
  }
  if ((await ignoresHardDeletes(server)) === false)
    return `EventStoreDB would always keep the names of the owner's streams: set its option ${OPTION} to true and restart it; nothing was written`;
  return undefined;
};

/** Undefined where this account may not read the options. Throws LogUnavailable. */
const ignoresHardDeletes = async (server: Server): Promise<boolean | undefined> => {
  try {
    return (await server.option(OPTION))?.toLowerCase() === 'true';
  } catch (error) {
    if (error instanceof OptionsHidden) return undefined;
    throw server.unavailable(error);
  }
};

/** Has the server remove from its files what was erased. */
export class Scavenging {
  /** Streams of erased events of which nothing is left. */
  readonly #done = new Set<string>();
  #lookedAt = -Infinity;
  /** Why the last look did not find them gone. */
  #reason = new LogUnavailable('');
  #starts = 0;
  #nextStartAt = -Infinity;

  constructor(private readonly log: Pick<ErasingLog, 'server' | 'namespace' | 'redacted'>) {}

  /** As `EventLog.scrub`. */
  async scrub(into: string): Promise<void> {
    if (this.#done.has(into)) return;
    if (monotonicMs() - this.#lookedAt < LOOK_EVERY_MS) throw this.#reason;
    await deleteSubject(this.log, await this.#erased(into));
    if (!(await this.#isLeft(into))) {
      this.#done.add(into);
      this.#starts = 0;
      this.#nextStartAt = -Infinity;
      return;
    }
    const remains = await this.pendingManualScrub(into);
    this.#reason = remains === undefined ? await this.#scavenge() : new LogUnavailable(remains);
    this.#lookedAt = monotonicMs();
    throw this.#reason;
  }

  /** As `EventLog.pendingManualScrub`. */
  async pendingManualScrub(into: string): Promise<string | undefined> {
    const { server } = this.log;
    const ignores = await ignoresHardDeletes(server);
    if (ignores === true || !(await this.#isLeft(into))) return undefined;
    const what = `the events are deleted, and still in the files of ${server.title}`;
    return ignores === undefined
      ? `${what}: start a scavenge on it, with its option ${OPTION} set to true, since this account may not (docs/erasure.md)`
      : `${what}: set its option ${OPTION} to true and restart it`;
  }

  async #erased(into: string) {
    await this.log.redacted.refresh();
    return this.log.redacted.of(into);
  }

  async #isLeft(into: string): Promise<boolean> {
    const erased = await this.#erased(into);
    if (!erased) return false;
    const { events, tombstones } = erased;
    return isAnyLeft(this.log.server, [...events.map(({ position }) => position), ...tombstones]);
  }

  /** Starts a scavenge, unless one was started lately. Returns what it is waited for. */
  async #scavenge(): Promise<LogUnavailable> {
    const { server } = this.log;
    const waiting = `the events are deleted; waiting for a scavenge of ${server.title}, which removes them from its files`;
    if (monotonicMs() < this.#nextStartAt) return new ScrubTakesTime(waiting);
    this.#nextStartAt = monotonicMs() + backoffMs(this.#starts++, PAUSES);
    try {
      await server.startScavenge();
      return new ScrubTakesTime(waiting);
    } catch (error) {
      if (error instanceof AccessDeniedError)
        return new LogUnavailable(
          `the events are deleted, and still in the files of ${server.title}: start a scavenge on it, since this account may not (docs/erasure.md)`,
        );
      // One may be running.
      return new LogUnavailable(`${waiting}; starting one failed (${server.unavailable(error).message})`);
    }
  }
}
