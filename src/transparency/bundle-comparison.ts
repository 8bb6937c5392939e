import { BundleCheck, type BundleEvent, streamsOf } from './bundle.js';
import { BundleRefused } from './bundle-format.js';
import { isSame } from './bytes.js';
import { type VerifierKey } from './note.js';
import { goesOnFurther } from './signed.js';

/** Opens the bytes of a bundle, from their beginning at each call. */
export type ReadBytes = () => AsyncIterable<Uint8Array>;

/** Compares the events of an older bundle with those of a newer one. */
export class Comparison {
  readonly #batches: AsyncGenerator<BundleEvent[], void, undefined>;
  #batch: BundleEvent[] = [];
  #at = 0;
  #streams: readonly string[] | undefined;

  constructor(
    previous: ReadBytes,
    keys: readonly VerifierKey[],
    /** Events of the older bundle's checkpoint. */
    private readonly size: number,
  ) {
    this.#batches = new BundleCheck({ keys, witnesses: [] }, {}).events(previous());
  }

  /** Throws BundleRefused where these events of the newer one are not what the older one has. */
  async take(events: readonly BundleEvent[], newer: BundleCheck): Promise<void> {
    for (const event of events) {
      for (let old = await this.#old(newer); old && old.index <= event.index; old = await this.#old(newer)) {
        if (old.index < event.index)
          throw new BundleRefused(
            `here should be event ${old.index} of the older bundle (line ${old.line} there)`,
            event.line,
            old.index,
          );
        if (!isSame(old.hash, event.hash))
          throw new BundleRefused(
            `the event is not the one of the older bundle (line ${old.line} there)`,
            event.line,
            event.index,
            { found: event.leaf },
          );
        this.#at += 1;
      }
    }
  }

  /** Throws BundleRefused where the newer one, which has come to its end, lacks what the older one has. */
  async end(newer: BundleCheck): Promise<void> {
    const old = await this.#old(newer);
    const { size } = newer.checkpoint;
    if (this.size > size) throw newer.refusal(goesOnFurther(this.size, size), old?.index);
    if (old) throw newer.refusal(`event ${old.index} of the older bundle is missing`, old.index);
  }

  /** The event of the older bundle with this index, which is not before those that were compared; undefined for none. */
  async keptAt(index: number): Promise<string | undefined> {
    const event = await this.#next((one) => one.index >= index);
    return event?.index === index ? event.leaf : undefined;
  }

  /** The next event of the older one that the newer one has to have. */
  #old(newer: BundleCheck): Promise<BundleEvent | undefined> {
    const { from, owner } = newer.header;
    const streams = owner === undefined ? [''] : (this.#streams ??= streamsOf(owner));
    return this.#next(
      ({ index, event }) => index >= from && streams.some((stream) => event.stream.startsWith(stream)),
    );
  }

  /** Goes to the first event of the older one, from where this is on, that is asked for. Undefined after the last. */
  async #next(isAskedFor: (event: BundleEvent) => boolean): Promise<BundleEvent | undefined> {
    for (; ; this.#at++) {
      while (this.#at >= this.#batch.length) {
        const next = await this.#batches.next();
        if (next.done) return undefined;
        [this.#batch, this.#at] = [next.value, 0];
      }
      const event = this.#batch[this.#at];
      if (event && isAskedFor(event)) return event;
    }
  }
}
