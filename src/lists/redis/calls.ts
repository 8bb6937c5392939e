import { type Anchor } from '../../log/event-log.js';
import { type Generation, missingGeneration, PARTITIONS, ReadModelUnavailable } from '../read-model.js';
import { type Deadline, withDeadline } from './deadline.js';
import { isReply } from './error-messages.js';
import { generationOf, type Keys } from './keys.js';
import { type Script } from './scripts.js';
import { type Servers } from './servers.js';
import { anchorOf } from './stored-texts.js';

/** Deadline of a read, in milliseconds: a list takes one. */
export const READ_MS = 2_000;

/**
 * Deadline of a write, in milliseconds: an apply may queue behind others on a server that is catching up, and only the
 * projector waits for it.
 */
export const WRITE_MS = 5_000;

export const PARTITION_NUMBERS: readonly number[] = Array.from(
  { length: PARTITIONS },
  (_, partition) => partition,
);

/** The generation that lists are read from. */
export interface ActiveNow {
  readonly active: Generation | undefined;
  /** The one that was active before; undefined where there was none. */
  readonly replaced: Generation | undefined;
}

/** Calls of the port to the servers of one read model: each has a deadline, and closing waits for them. */
export class RedisCalls {
  readonly #calls = new Set<Promise<unknown>>();
  readonly #stop = new AbortController();

  constructor(
    readonly servers: Servers,
    readonly keys: Keys,
    /** Multiplies each deadline. */
    private readonly slowness: number,
  ) {}

  /** Makes later calls throw. */
  stop(): void {
    this.#stop.abort();
  }

  /** Resolves when no call is in flight. */
  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
  }

  /** Makes one call of the port, with a deadline of `ms` milliseconds, times the slowness. */
  async call<T>(ms: number, work: (deadline: Deadline) => Promise<T>): Promise<T> {
    if (this.#stop.signal.aborted) throw closed();
    const call = withDeadline(ms * this.slowness, work);
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
    }
  }

  /** Runs a script on the server of a slot; its text is sent only where the server does not have it yet. */
  async run(
    { sha, body }: Script,
    slot: number,
    keys: readonly string[],
    args: readonly string[],
    deadline: Deadline,
  ): Promise<unknown> {
    const rest = [`${keys.length}`, ...keys, ...args];
    try {
      return await this.servers.send(slot, ['EVALSHA', sha, ...rest], deadline);
    } catch (error) {
      if (!isReply(error, 'NOSCRIPT')) throw error;
      return this.servers.send(slot, ['EVAL', body, ...rest], deadline);
    }
  }

  /** Runs a script on a key that belongs to no partition, as a call of its own or within one. */
  runOn(key: string, script: Script, args: readonly string[], within?: Deadline): Promise<unknown> {
    const run = (deadline: Deadline) => this.run(script, this.keys.slot, [key], args, deadline);
    return within ? run(within) : this.call(READ_MS, run);
  }

  async registry(deadline: Deadline): Promise<ReadonlyMap<string, string>> {
    const fields = await this.servers.send(this.keys.slot, ['HGETALL', this.keys.generations], deadline);
    return new Map(Object.entries(fields as Record<string, string>));
  }

  /** Throws GenerationMissing. */
  async assertThere(generation: Generation, deadline: Deadline): Promise<void> {
    const command = ['HGET', this.keys.generations, `${generation}`];
    if ((await this.servers.send(this.keys.slot, command, deadline)) === null)
      throw missingGeneration(generation);
  }

  /** The active generation, and the one that was active before it. */
  async activeNow(deadline: Deadline): Promise<ActiveNow> {
    const registry = await this.registry(deadline);
    return {
      active: generationOf(registry.get('active') ?? ''),
      replaced: generationOf(registry.get('replaced') ?? ''),
    };
  }

  /** The anchors; undefined for a partition that is missing. */
  storedAnchors(
    generation: Generation,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Anchor | undefined)[]> {
    return Promise.all(partitions.map((partition) => this.storedAnchor(generation, partition, deadline)));
  }

  async storedAnchor(
    generation: Generation,
    partition: number,
    deadline: Deadline,
  ): Promise<Anchor | undefined> {
    const command = ['GET', this.keys.anchor(generation, partition)];
    const text = await this.servers.send(this.keys.slotOf(partition), command, deadline);
    return text === null ? undefined : anchorOf(text as string);
  }
}

export const closed = (): ReadModelUnavailable => new ReadModelUnavailable('the read model has been closed');
