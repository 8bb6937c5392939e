import { setImmediate as nextTurn } from 'node:timers/promises';
import { pause } from '../../async/pause.js';
import { decodeOwner, encodeOwner } from '../../plants/stream.js';
import { type Report } from '../../ports/coordination.js';
import { type Position, START } from '../../ports/event-log.js';
import { type GenerationInfo } from '../../ports/generations.js';
import {
  type Generation,
  type Healing,
  type LongPage,
  type Page,
  type ParkedOwner,
  type PartitionChanges,
  OwnerParked,
  ReadModel,
  ReadModelIncomplete,
  ReadModelTampered,
  type ReadModelUnavailable,
  partitionOf,
} from '../../ports/read-model.js';
import { type ReadModelStore } from '../../ports/read-model-store.js';
import { PageCache } from '../page-cache.js';
import { PolledWaiters } from '../waiters.js';
import { ActiveGeneration, ASK_AGAIN_MS } from './active-generation.js';
import { closed, missing, PARTITION_NUMBERS, READ_MS, RedisCalls, WRITE_MS } from './calls.js';
import { RedisConnection } from './connection.js';
import { type RedisConnectionString } from './connection-string.js';
import { RedisCoordination } from './coordination.js';
import { type Deadline, withDeadline } from './deadline.js';
import { isReply, RedisRefused } from './error-messages.js';
import { RedisGenerations, SCAN_KEYS } from './generations.js';
import { type GenerationKey, Keys } from './keys.js';
import { RedisLists } from './lists.js';
import { probe } from './probe.js';
import { HEAL } from './scripts.js';
import { serverCheck } from './server-check.js';
import { accessTo, serversAt } from './servers.js';
import { lastOfEachPlant, memberOf, PARKED_COUNT, parkedOwnerOf, parkedText } from './stored-texts.js';

/** How long a start waits for a server that starts at the same time, in milliseconds. */
const PATIENCE_MS = 10_000;

export interface RedisOptions {
  /** Receives, in one line, what does not prevent the start. */
  readonly onWarning?: (message: string) => void;
  /** How long opening waits where that may help, in milliseconds; 10 seconds without it. */
  readonly patienceMs?: number;
}

/** The state of a scan of one server. A cursor is valid on one server, until it restarts. */
interface Scan {
  readonly cursor: string;
  readonly connection: number;
}

class RedisReadModel extends ReadModel implements ReadModelStore {
  readonly #calls: RedisCalls;
  readonly #lists: RedisLists;
  readonly #active: ActiveGeneration<Deadline>;
  readonly #generations: RedisGenerations;
  readonly #coordination: RedisCoordination;
  readonly #subscriber: RedisConnection;
  readonly #waiters = new PolledWaiters((partitions) => this.#active.positions(partitions));
  readonly #kept = new PageCache<GenerationKey>();
  /** Requests for positions of this turn of the event loop, by key. */
  readonly #wanted = new Map<string, Promise<Position | null>>();
  #closing: Promise<void> | undefined;

  constructor(place: RedisConnectionString, log: string, onWarning: (message: string) => void) {
    super();
    const servers = serversAt(place, serverCheck(place.mode.kind, onWarning));
    const calls = new RedisCalls(servers, new Keys(log));
    this.#calls = calls;
    this.#lists = new RedisLists(calls);
    this.#active = new ActiveGeneration(calls);
    this.#coordination = new RedisCoordination(calls);
    this.#generations = new RedisGenerations(calls, this.#active, log, () => {
      this.#waiters.wake();
      this.#publish();
    });
    this.#subscriber = new RedisConnection(
      accessTo(place),
      () => servers.find(),
      async (client) => {
        await client.subscribe(calls.keys.channel, () => {
          this.#active.forget();
          this.#waiters.wake();
        });
        // Notifications are lost while there is no connection.
        this.#active.forget();
        this.#waiters.wake();
      },
    );
  }

  /** Throws ReadModelUnavailable with what must be changed. */
  open(patienceMs: number, onWarning: (message: string) => void): Promise<void> {
    return withDeadline(patienceMs, async (deadline) => {
      await this.#calls.servers.ready(deadline);
      await this.#subscriber.ready(deadline);
      for (;;) {
        const failure = await probe(this.#calls).catch((error: unknown) => error);
        if (failure === undefined) return;
        if (failure instanceof RedisRefused) throw failure;
        if (isReply(failure, 'OOM') || isReply(failure, 'MISCONF')) {
          onWarning(`${failure.message}. Lists are answered, but do not get newer`);
          return;
        }
        deadline.check(failure as ReadModelUnavailable);
        await pause(ASK_AGAIN_MS);
      }
    });
  }

  get steadySince(): number {
    return Math.max(this.#calls.servers.since, this.#active.since ?? 0);
  }

  generations(): Promise<GenerationInfo[]> {
    return this.#generations.list();
  }

  createGeneration(): Promise<Generation> {
    return this.#generations.create();
  }

  promote(generation: Generation, replaces?: Generation | 'none', logEnd?: Position): Promise<void> {
    return this.#generations.promote(generation, replaces, logEnd);
  }

  sync = (): Promise<void> => Promise.resolve(); // when the server writes to its disk is its setting
  scrub = (): Promise<void> => Promise.resolve(); // but for snapshots and append-only files, its operator's

  drop(generation: Generation): Promise<void> {
    return this.#generations.drop(generation);
  }

  takeLease(holder: string, forMs: number): Promise<boolean> {
    return this.#coordination.takeLease(holder, forMs);
  }

  returnLease(holder: string): Promise<void> {
    return this.#coordination.returnLease(holder);
  }

  report(process: string, text: string, forMs: number): Promise<void> {
    return this.#coordination.report(process, text, forMs);
  }

  reports(): Promise<Report[]> {
    return this.#coordination.reports();
  }

  positions(generation: Generation): Promise<Position[]> {
    return this.#calls.call(READ_MS, async (deadline) => {
      const generationKey = await this.#calls.keyOf(generation, deadline);
      const positions = await this.#calls.positionsOf(generationKey, deadline);
      // A drop removes the generation from the registry first: its positions were whole if it is still there.
      if ((await this.#calls.keyOf(generation, deadline)) !== generationKey) throw missing(generation);
      return positions;
    });
  }

  apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]> {
    return this.#calls.call(WRITE_MS, async (deadline) => {
      for (;;) {
        const generationKey =
          this.#calls.knownKey(generation) ?? (await this.#calls.keyOf(generation, deadline));
        const [now, ...positions] = await Promise.all([
          this.#calls.keyOf(generation, deadline),
          ...partitions.map((changes) => this.#lists.apply(generationKey, changes, deadline)),
        ]);
        // The server has lost its data and given the number again.
        if (now !== generationKey) continue;
        if (partitions.some(({ from }, index) => (positions[index] ?? START) > from)) {
          this.#waiters.wake();
          this.#publish();
        }
        return positions;
      }
    });
  }

  heal(generation: Generation, { owner, from, upTo, changes, then }: Healing): Promise<boolean> {
    return this.#calls.call(WRITE_MS, async (deadline) => {
      const generationKey = await this.#calls.keyOf(generation, deadline);
      const partition = partitionOf(owner);
      const keys = [
        this.#calls.keys.position(generationKey, partition),
        this.#calls.keys.parked(generationKey, partition),
        this.#calls.keys.plants(generationKey, partition, owner),
      ];
      const [least, becomes] = typeof then === 'string' ? [upTo, then] : [then.position, parkedText(then)];
      const args = [encodeOwner(owner), from, upTo, least, becomes];
      for (const { id, row } of lastOfEachPlant(changes, []))
        args.push(`${id}`, row === undefined ? '' : memberOf(id, row));
      return (await this.#calls.run(HEAL, this.#calls.keys.slotOf(partition), keys, args, deadline)) === 1;
    });
  }

  countParked(generation: Generation): Promise<number> {
    return this.#calls.call(READ_MS, async (deadline) => {
      const generationKey = await this.#calls.keyOf(generation, deadline);
      const counts = await this.#parkedCounts(generationKey, deadline);
      return counts.reduce((sum, count) => sum + count, 0);
    });
  }

  async *parked(generation: Generation): AsyncGenerator<ParkedOwner, void, undefined> {
    const [generationKey, counts] = await this.#calls.call(READ_MS, async (deadline) => {
      const current = await this.#calls.keyOf(generation, deadline);
      return [current, await this.#parkedCounts(current, deadline)] as const;
    });
    for (const partition of PARTITION_NUMBERS) {
      if (!counts[partition]) continue;
      const fields = (await this.#calls.call(READ_MS, (deadline) =>
        this.#calls.servers.send(
          this.#calls.keys.slotOf(partition),
          ['HGETALL', this.#calls.keys.parked(generationKey, partition)],
          deadline,
        ),
      )) as Record<string, string>;
      for (const [encoded, text] of Object.entries(fields)) {
        const owner = encoded === PARKED_COUNT ? undefined : decodeOwner(encoded);
        if (owner !== undefined) yield parkedOwnerOf(owner, text);
      }
    }
  }

  async list(owner: string, after: number | undefined, limit: number): Promise<Page> {
    const kept = this.#kept.get(owner, after, limit);
    if (kept && kept.generation === this.#active.fresh()) {
      const position = await this.#positionOfMany(kept.generation, partitionOf(owner));
      if (position === kept.page.position) return kept.page;
    }
    return this.#calls.call(READ_MS, async (deadline) => {
      const read = async (generationKey: GenerationKey): Promise<Page | undefined> => {
        const page = await this.#lists.page(generationKey, owner, after, limit, deadline);
        if (page?.parked) throw new OwnerParked(page.parked);
        if (page) this.#kept.keep(generationKey, owner, after, limit, page);
        return page;
      };
      const page =
        (await read(await this.#active.trusted(deadline))) ??
        // It was dropped, or the server has lost its data.
        (await read(await this.#active.trustedNow(deadline)));
      if (!page)
        throw new ReadModelIncomplete('the read model has lost this partition: it is being built again');
      return page;
    });
  }

  async longList(owner: string, after: number | undefined, limit: number): Promise<LongPage> {
    const { rows, more, position } = await this.list(owner, after, limit);
    const body = Buffer.from(`[${rows.map(({ row }) => row).join(',')}]`);
    return { body, lastId: rows.at(-1)?.id, more, position };
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Promise<Page> {
    return this.#calls.call(READ_MS, async (deadline) => {
      for (;;) {
        const generationKey =
          this.#calls.knownKey(generation) ?? (await this.#calls.keyOf(generation, deadline));
        const page = await this.#lists.pageWithScores(generationKey, owner, after, limit, deadline);
        // A drop first takes the generation from the list, and then its rows: they were whole if it is still there.
        // If it is there with another key, the number was given again, after all data were lost.
        if ((await this.#calls.keyOf(generation, deadline)) !== generationKey) continue;
        if (!page)
          throw new ReadModelIncomplete(
            `generation ${generation} has lost partition ${partitionOf(owner)}: it has to be built again`,
          );
        return page;
      }
    });
  }

  async *owners(generation: Generation): AsyncGenerator<string, void, undefined> {
    const generationKey = await this.#calls.call(READ_MS, (deadline) =>
      this.#calls.keyOf(generation, deadline),
    );
    for (const server of this.#calls.servers.all()) {
      let scan: Scan | undefined = { cursor: '0', connection: server.connection };
      while (scan) {
        const from: Scan = scan;
        const step = await this.#calls.call(READ_MS, (deadline) =>
          this.#ownersStep(server, from, generation, generationKey, deadline),
        );
        yield* step.owners;
        scan = step.next;
      }
    }
  }

  reached(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    return this.#waiters.wait(partition, position, signal);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#calls.stop();
    await this.#waiters.close(closed());
    await this.#generations.swept();
    await this.#calls.idle();
    await Promise.all([this.#subscriber.close(), this.#calls.servers.close()]);
  }

  async #ownersStep(
    server: RedisConnection,
    { cursor, connection }: Scan,
    generation: Generation,
    generationKey: GenerationKey,
    deadline: Deadline,
  ): Promise<{ owners: string[]; next: Scan | undefined }> {
    const match = this.#calls.keys.owners(generationKey);
    const command = ['SCAN', cursor, 'MATCH', match, 'COUNT', `${SCAN_KEYS}`];
    const [following, found] = (await server.send(command, deadline)) as [string, string[]];
    const now = server.connection;
    // Read after the keys, as for a page.
    if ((await this.#calls.keyOf(generation, deadline)) !== generationKey) throw missing(generation);
    const owners = found.map((key) => {
      const owner = this.#calls.keys.ownerOf(generationKey, key);
      if (owner === undefined)
        throw new ReadModelTampered(
          `the key ${JSON.stringify(key)} in Redis is of no owner: somebody else has written it; a rebuild makes it good`,
        );
      return owner;
    });
    if (cursor !== '0' && now !== connection) return { owners, next: { cursor: '0', connection: now } };
    return { owners, next: following === '0' ? undefined : { cursor: following, connection: now } };
  }

  /** The number of parked owners of each partition. */
  async #parkedCounts(generationKey: GenerationKey, deadline: Deadline): Promise<number[]> {
    const counts = await Promise.all(
      PARTITION_NUMBERS.map((partition) =>
        this.#calls.servers.send(
          this.#calls.keys.slotOf(partition),
          ['HGET', this.#calls.keys.parked(generationKey, partition), PARKED_COUNT],
          deadline,
        ),
      ),
    );
    return counts.map(Number);
  }

  /**
   * The position of a partition; null where it is missing. One request for all lists of a turn of the event loop, sent
   * at its end, so that none is answered with a position from before its request.
   */
  #positionOfMany(generationKey: GenerationKey, partition: number): Promise<Position | null> {
    const key = this.#calls.keys.position(generationKey, partition);
    const asked = this.#wanted.get(key);
    if (asked) return asked;
    const asking = nextTurn().then(() => {
      this.#wanted.delete(key);
      return this.#calls.call(
        READ_MS,
        (deadline) =>
          this.#calls.servers.send(
            this.#calls.keys.slotOf(partition),
            ['GET', key],
            deadline,
          ) as Promise<Position | null>,
      );
    });
    this.#wanted.set(key, asking);
    return asking;
  }

  /** Notifies other processes, which also poll. */
  #publish(): void {
    const hint = this.#calls.call(READ_MS, (deadline) =>
      this.#calls.servers.send(this.#calls.keys.slot, ['PUBLISH', this.#calls.keys.channel, ''], deadline),
    );
    hint.catch(() => undefined);
  }
}

/**
 * Opens the read model of a log on Redis; the keys of each log are its own. Throws ReadModelUnavailable, in one line
 * that says what to change.
 */
export const openRedisReadModel = async (
  place: RedisConnectionString,
  logIdentity: string,
  { onWarning = () => undefined, patienceMs = PATIENCE_MS }: RedisOptions = {},
): Promise<ReadModelStore> => {
  const model = new RedisReadModel(place, logIdentity, onWarning);
  try {
    await model.open(patienceMs, onWarning);
    return model;
  } catch (error) {
    await model.close();
    throw error;
  }
};
