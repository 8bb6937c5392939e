import { AsyncResource } from 'node:async_hooks';
import { monotonicMs } from '../runtime/runtime.js';
import { ownerErasing } from '../domain/errors.js';
import { type EventLog } from '../log/event-log.js';
import { ERASURES_STREAM } from '../domain/stream.js';
import { ownerOf, readErasures } from './erasures.js';

/** The age of what is known when a write is accepted, in milliseconds, at most: one read of the log a second. */
const FRESH_MS = 1_000;

/**
 * Refuses writes of owners who are being erased. Whether one slips through in the first second does not matter to the
 * erasure, which notices it and begins again.
 */
export class ErasureGate {
  #owners: ReadonlySet<string> = new Set();
  #revision: bigint | undefined;
  #lookedAt = -Infinity;
  #looking: Promise<void> | undefined;

  /** All requests share one read: it is in the trace of none. */
  readonly #lookApart = AsyncResource.bind(() => this.#look());

  constructor(private readonly log: EventLog) {}

  /** Throws DomainError `owner_erasing`, and what the log throws; gives a promise only where the log has to be read. */
  admit(owner: string): Promise<void> | undefined {
    if (monotonicMs() - this.#lookedAt >= FRESH_MS || this.#looking)
      return this.look().then(() => {
        this.#assert(owner);
      });
    this.#assert(owner);
    return undefined;
  }

  /** Reads who is being erased now. Throws what the log throws. */
  look(): Promise<void> {
    this.#looking ??= this.#lookApart().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    const at = monotonicMs();
    const last = await this.log.readLast(ERASURES_STREAM);
    if (last && (last.revision !== this.#revision || this.#owners.size > 0)) {
      const owners = new Set<string>();
      for (const { erasure, state } of (await readErasures(this.log)).all) {
        const owner = state === 'ordered' ? await ownerOf(this.log, erasure) : undefined;
        if (owner !== undefined) owners.add(owner);
        // The owner's name is written right after the order: it is looked for again.
        else if (state === 'ordered') this.#revision = undefined;
      }
      this.#owners = owners;
    }
    this.#revision = last?.revision;
    this.#lookedAt = at;
  }

  #assert(owner: string): void {
    if (this.#owners.has(owner)) throw ownerErasing();
  }
}
