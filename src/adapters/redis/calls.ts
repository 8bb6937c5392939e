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

/** A list takes a millisecond; a client that waits two seconds has better things to do than to wait for more. */
export const READ_MS = 2_000;

/** An apply may stand behind others on a server that is catching up, and nobody waits for it but the projector. */
export const WRITE_MS = 5_000;

export const PARTITION_NUMBERS: readonly number[] = Array.from(
  { length: PARTITIONS },
  (_, partition) => partition,
);

/** Calls of the port to the servers of one log's read model: each ends by itself, and closing waits for them. */
export class RedisCalls {
  readonly #copies = new Map<Generation, GenerationKey>();
  /** Calls in flight. */
  readonly #calls = new Set<Promise<unknown>>();
  readonly #stop = new AbortController();

  constructor(
    readonly servers: Servers,
    readonly keys: Keys,
  ) {}

  /** Throws from now on. */
  stop(): void {
    this.#stop.abort();
  }

  /** Resolves once no call is in flight any more. */
  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
  }

  /** The copy that a generation had when it was last asked for. */
  knownCopy(generation: Generation): GenerationKey | undefined {
    return this.#copies.get(generation);
  }

  forgetCopy(generation: Generation): void {
    this.#copies.delete(generation);
  }

  /** One call of the port: it ends by itself, and closing waits for it. */
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

  /** Runs a script where those keys are; its text is sent only where the server does not have it yet. */
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

  async registry(deadline: Deadline): Promise<ReadonlyMap<string, string>> {
    const fields = await this.servers.send(this.keys.slot, ['HGETALL', this.keys.generations], deadline);
    return new Map(Object.entries(fields as Record<string, string>));
  }

  /** Throws GenerationMissing. */
  async copyOf(generation: Generation, deadline: Deadline): Promise<GenerationKey> {
    const copy = await this.servers.send(
      this.keys.slot,
      ['HGET', this.keys.generations, `${generation}`],
      deadline,
    );
    if (copy === null) {
      this.#copies.delete(generation);
      throw missing(generation);
    }
    this.#copies.set(generation, copy as GenerationKey);
    return copy as GenerationKey;
  }

  async positionsOf(copy: GenerationKey, deadline: Deadline): Promise<Position[]> {
    const positions = await this.storedPositions(copy, PARTITION_NUMBERS, deadline);
    return positions.map((position) => position ?? START);
  }

  /** Null for a partition that is not there. */
  storedPositions(
    copy: GenerationKey,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | null)[]> {
    return Promise.all(
      partitions.map(
        (partition) =>
          this.servers.send(
            this.keys.slotOf(partition),
            ['GET', this.keys.position(copy, partition)],
            deadline,
          ) as Promise<Position | null>,
      ),
    );
  }
}

export const closed = (): ReadModelUnavailable => new ReadModelUnavailable('the read model has been closed');

export const missing = (generation: Generation): GenerationMissing =>
  new GenerationMissing(`there is no generation ${generation}`);
