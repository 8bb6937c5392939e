import { type Position, START } from '../../ports/event-log.js';
import {
  type Generation,
  GenerationMissing,
  PARTITIONS,
  ReadModelUnavailable,
} from '../../ports/read-model.js';
import { type Deadline, withDeadline } from './deadline.js';
import { isReply } from './error-messages.js';
import { type GenerationKey, type Keys } from './keys.js';
import { type Script } from './scripts.js';
import { type Servers } from './servers.js';

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

/** Which generation lists are answered from. */
export interface ActiveKeys {
  readonly active: GenerationKey | undefined;
  /** The one that was active before; undefined where there was none, and where an older version has switched. */
  readonly replaced: GenerationKey | undefined;
}

/** Calls of the port to the servers of one read model: each has a deadline, and closing waits for them. */
export class RedisCalls {
  readonly #generationKeys = new Map<Generation, GenerationKey>();
  readonly #calls = new Set<Promise<unknown>>();
  readonly #stop = new AbortController();

  constructor(
    readonly servers: Servers,
    readonly keys: Keys,
  ) {}

  /** Makes later calls throw. */
  stop(): void {
    this.#stop.abort();
  }

  /** Resolves when no call is in flight. */
  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
  }

  /** The key of a generation as it was last read. */
  knownKey(generation: Generation): GenerationKey | undefined {
    return this.#generationKeys.get(generation);
  }

  forgetKey(generation: Generation): void {
    this.#generationKeys.delete(generation);
  }

  /** Makes one call of the port, with a deadline of `ms` milliseconds. */
  async call<T>(ms: number, work: (deadline: Deadline) => Promise<T>): Promise<T> {
    if (this.#stop.signal.aborted) throw closed();
    const call = withDeadline(ms, work);
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

  /** Runs a script on a key that belongs to no partition. */
  runOn(key: string, script: Script, args: readonly string[], deadline: Deadline): Promise<unknown> {
    return this.run(script, this.keys.slot, [key], args, deadline);
  }

  async registry(deadline: Deadline): Promise<ReadonlyMap<string, string>> {
    const fields = await this.servers.send(this.keys.slot, ['HGETALL', this.keys.generations], deadline);
    return new Map(Object.entries(fields as Record<string, string>));
  }

  /** Throws GenerationMissing. */
  async keyOf(generation: Generation, deadline: Deadline): Promise<GenerationKey> {
    const generationKey = await this.servers.send(
      this.keys.slot,
      ['HGET', this.keys.generations, `${generation}`],
      deadline,
    );
    if (generationKey === null) {
      this.#generationKeys.delete(generation);
      throw missing(generation);
    }
    this.#generationKeys.set(generation, generationKey as GenerationKey);
    return generationKey as GenerationKey;
  }

  /** The active generation, and the one that was active before it. */
  async activeKeys(deadline: Deadline): Promise<ActiveKeys> {
    const registry = await this.registry(deadline);
    return {
      active: registry.get('active') as GenerationKey | undefined,
      replaced: registry.get('replaced') as GenerationKey | undefined,
    };
  }

  async positionsOf(generationKey: GenerationKey, deadline: Deadline): Promise<Position[]> {
    const positions = await this.storedPositions(generationKey, PARTITION_NUMBERS, deadline);
    return positions.map((position) => position ?? START);
  }

  /** The positions; null for a partition that is missing. */
  storedPositions(
    generationKey: GenerationKey,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | null)[]> {
    return Promise.all(
      partitions.map(
        (partition) =>
          this.servers.send(
            this.keys.slotOf(partition),
            ['GET', this.keys.position(generationKey, partition)],
            deadline,
          ) as Promise<Position | null>,
      ),
    );
  }
}

export const closed = (): ReadModelUnavailable => new ReadModelUnavailable('the read model has been closed');

export const missing = (generation: Generation): GenerationMissing =>
  new GenerationMissing(`there is no generation ${generation}`);
