import { setImmediate as nextTurn } from 'node:timers/promises';
import { pause } from '../../runtime/pause.js';
import { decodeOwner, encodeOwner } from '../../domain/stream.js';
import { type Report } from '../coordination.js';
import { type Anchor, NO_ANCHOR, type Position, START } from '../../log/event-log.js';
import { type GenerationInfo } from '../generations.js';
import {
  type CatchUp,
  type Generation,
  type LongPage,
  type Page,
  type BlockedOwner,
  type PartitionChanges,
  OwnerBlocked,
  ReadModel,
  ReadModelIncomplete,
  ReadModelTampered,
  type ReadModelUnavailable,
  partitionOf,
} from '../read-model.js';
import { type ReadModelStore } from '../read-model-store.js';
import { PageCache } from '../page-cache.js';
import { temporaryLists } from '../temporary-lists.js';
import { PolledWaiters } from '../waiters.js';
import { ActiveGeneration, ASK_AGAIN_MS } from './active-generation.js';
import { closed, PARTITION_NUMBERS, READ_MS, RedisCalls, WRITE_MS } from './calls.js';
import { RedisConnection } from './connection.js';
import { type RedisConnectionString } from './connection-string.js';
import { type Deadline, withDeadline } from './deadline.js';
import { isReply, RedisRefused } from './error-messages.js';
import { RedisGenerations, SCAN_KEYS } from './generations.js';
import { Keys } from './keys.js';
import { RedisLists } from './lists.js';
import { probe } from './probe.js';
import { CATCH_UP, REPORT, REPORTS, RETURN_LEASE, TAKE_LEASE } from './scripts.js';
import { serverCheck } from './server-check.js';
import { accessTo, serversAt } from './servers.js';
import { lastOfEachPlant, memberOf, BLOCKED_COUNT, blockedOwnerOf, blockedText } from './stored-texts.js';

/** Milliseconds that a start waits for a server that starts at the same time. */
const PATIENCE_MS = 10_000;

export interface RedisOptions {
  /** Receives, in one line, what does not prevent the start. */
  readonly onWarning?: (message: string) => void;
  /** Milliseconds that opening waits where that may help; 10 seconds without it. */
  readonly patienceMs?: number;
  /** Multiplies the deadlines of calls, as for servers on a machine that may stall; 1 without it. */
  readonly slowness?: number;
}

/** The state of a scan of one server. A cursor is valid on one server, until it restarts. */
interface Scan {
  readonly cursor: string;
  readonly connection: number;
}

class RedisReadModel extends ReadModel implements ReadModelStore {
  readonly isSole = false;
  readonly temporaryLists = temporaryLists;
  readonly #calls: RedisCalls;
  readonly #lists: RedisLists;
  readonly #active: ActiveGeneration<Deadline>;
  readonly #generations: RedisGenerations;
  readonly #subscriber: RedisConnection;
  readonly #waiters = new PolledWaiters((partitions) => this.#active.positions(partitions));
  readonly #kept = new PageCache<Generation>();
  /** Requests for anchors of this turn of the event loop, by key. */
  readonly #wanted = new Map<string, Promise<Anchor | undefined>>();
  #closing: Promise<void> | undefined;

  constructor(
    place: RedisConnectionString,
    log: string,
    { onWarning, slowness }: Required<Omit<RedisOptions, 'patienceMs'>>,
  ) {
    super();
    const servers = serversAt(place, serverCheck(place.mode.kind, onWarning));
    const calls = new RedisCalls(servers, new Keys(log), slowness);
    this.#calls = calls;
    this.#lists = new RedisLists(calls);
    this.#active = new ActiveGeneration(calls);
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

  promote(generation: Generation, replaces?: Generation | 'none'): Promise<void> {
    return this.#generations.promote(generation, replaces);
  }

  deactivate(generation: Generation): Promise<void> {
    return this.#generations.deactivate(generation);
  }

  scrub = (): Promise<void> => Promise.resolve(); // but for snapshots and append-only files, its operator's

  drop(generation: Generation): Promise<void> {
    return this.#generations.drop(generation);
  }

  async takeLease(holder: string, forMs: number): Promise<boolean> {
    const ms = Math.max(1, Math.round(forMs));
    return (await this.#calls.runOn(this.#calls.keys.lease, TAKE_LEASE, [holder, `${ms}`])) === 1;
  }

  async returnLease(holder: string): Promise<void> {
    await this.#calls.runOn(this.#calls.keys.lease, RETURN_LEASE, [holder]);
  }

  async report(process: string, text: string, forMs: number): Promise<void> {
    await this.#calls.runOn(this.#calls.keys.reports, REPORT, [process, text, `${forMs}`]);
  }

  async reports(): Promise<Report[]> {
    const found = await this.#calls.runOn(this.#calls.keys.reports, REPORTS, []);
    return (found as [string, string][])
      .map(([process, text]) => ({ process, text }))
      .sort((a, b) => (a.process < b.process ? -1 : 1));
  }

  anchors(generation: Generation): Promise<Anchor[]> {
    return this.#calls.call(READ_MS, async (deadline) => {
      const anchors = await this.#calls.storedAnchors(generation, PARTITION_NUMBERS, deadline);
      // A drop removes the generation from the registry before its anchors.
      await this.#calls.assertThere(generation, deadline);
      if (anchors.includes(undefined)) await this.#generations.ensureAnchors(generation, deadline);
      return anchors.map((anchor) => anchor ?? NO_ANCHOR);
    });
  }

  apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]> {
    return this.#calls.call(WRITE_MS, async (deadline) => {
      const positions = await Promise.all(
        partitions.map((changes) => this.#lists.apply(generation, changes, deadline)),
      );
      if (positions.includes(undefined)) await this.#calls.assertThere(generation, deadline);
      if (partitions.some(({ from }, index) => (positions[index] ?? START) > from)) {
        this.#waiters.wake();
        this.#publish();
      }
      return positions.map((position) => position ?? START);
    });
  }

  catchUp(generation: Generation, { owner, blockedAt, upTo, changes, next }: CatchUp): Promise<boolean> {
    return this.#calls.call(WRITE_MS, async (deadline) => {
      await this.#calls.assertThere(generation, deadline);
      const partition = partitionOf(owner);
      const keys = [
        this.#calls.keys.anchor(generation, partition),
        this.#calls.keys.blocked(generation, partition),
        this.#calls.keys.plants(generation, partition, owner),
      ];
      const args = [encodeOwner(owner), blockedAt, upTo, next ? blockedText(next) : ''];
      for (const { id, row } of lastOfEachPlant(changes, []))
        args.push(`${id}`, row === undefined ? '' : memberOf(id, row));
      return (
        (await this.#calls.run(CATCH_UP, this.#calls.keys.slotOf(partition), keys, args, deadline)) === 1
      );
    });
  }

  countBlocked(generation: Generation): Promise<number> {
    return this.#calls.call(READ_MS, async (deadline) => {
      const counts = await this.#blockedCounts(generation, deadline);
      await this.#calls.assertThere(generation, deadline);
      return counts.reduce((sum, count) => sum + count, 0);
    });
  }

  async *blocked(generation: Generation): AsyncGenerator<BlockedOwner, void, undefined> {
    const counts = await this.#calls.call(READ_MS, async (deadline) => {
      await this.#calls.assertThere(generation, deadline);
      return this.#blockedCounts(generation, deadline);
    });
    for (const partition of PARTITION_NUMBERS) {
      if (!counts[partition]) continue;
      const fields = (await this.#calls.call(READ_MS, (deadline) =>
        this.#calls.servers.send(
          this.#calls.keys.slotOf(partition),
          ['HGETALL', this.#calls.keys.blocked(generation, partition)],
          deadline,
        ),
      )) as Record<string, string>;
      for (const [encoded, text] of Object.entries(fields)) {
        const owner = encoded === BLOCKED_COUNT ? undefined : decodeOwner(encoded);
        if (owner !== undefined) yield blockedOwnerOf(owner, text);
      }
    }
  }

  async list(owner: string, after: number | undefined, limit: number): Promise<Page> {
    const kept = this.#kept.get(owner, after, limit);
    if (kept && kept.generation === this.#active.fresh()) {
      const anchor = await this.#anchorOfMany(kept.generation, partitionOf(owner));
      if (anchor?.position === kept.page.position) return kept.page;
    }
    return this.#calls.call(READ_MS, async (deadline) => {
      const read = async (generation: Generation): Promise<Page | undefined> => {
        const page = await this.#lists.page(generation, owner, after, limit, deadline);
        if (page?.blocked) throw new OwnerBlocked(page.blocked);
        if (page) this.#kept.keep(generation, owner, after, limit, page);
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
    const { rows, ...page } = await this.list(owner, after, limit);
    const body = Buffer.from(`[${rows.map(({ row }) => row).join(',')}]`);
    return { ...page, body, lastId: rows.at(-1)?.id };
  }

  page(generation: Generation, owner: string, after: number | undefined, limit: number): Promise<Page> {
    return this.#calls.call(READ_MS, async (deadline) => {
      const page = await this.#lists.pageWithScores(generation, owner, after, limit, deadline);
      if (page) return page;
      await this.#calls.assertThere(generation, deadline);
      throw new ReadModelIncomplete(
        `generation ${generation} has lost partition ${partitionOf(owner)}: it has to be built again`,
      );
    });
  }

  async *owners(generation: Generation): AsyncGenerator<string, void, undefined> {
    for (const server of this.#calls.servers.all()) {
      let scan: Scan | undefined = { cursor: '0', connection: server.connection };
      while (scan) {
        const from: Scan = scan;
        const step = await this.#calls.call(READ_MS, (deadline) =>
          this.#ownersStep(server, from, generation, deadline),
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
    deadline: Deadline,
  ): Promise<{ owners: string[]; next: Scan | undefined }> {
    const match = this.#calls.keys.owners(generation);
    const command = ['SCAN', cursor, 'MATCH', match, 'COUNT', `${SCAN_KEYS}`];
    const [following, found] = (await server.send(command, deadline)) as [string, string[]];
    const now = server.connection;
    await this.#calls.assertThere(generation, deadline); // after the keys: a drop removes it from the registry first
    const owners = found.map((key) => {
      const owner = this.#calls.keys.ownerOf(generation, key);
      if (owner === undefined)
        throw new ReadModelTampered(
          `the key ${JSON.stringify(key)} in Redis belongs to no owner, so another program has written it: rebuild the lists (plants rebuild)`,
        );
      return owner;
    });
    if (cursor !== '0' && now !== connection) return { owners, next: { cursor: '0', connection: now } };
    return { owners, next: following === '0' ? undefined : { cursor: following, connection: now } };
  }

  /** The number of blocked owners of each partition. */
  async #blockedCounts(generation: Generation, deadline: Deadline): Promise<number[]> {
    const counts = await Promise.all(
      PARTITION_NUMBERS.map((partition) =>
        this.#calls.servers.send(
          this.#calls.keys.slotOf(partition),
          ['HGET', this.#calls.keys.blocked(generation, partition), BLOCKED_COUNT],
          deadline,
        ),
      ),
    );
    return counts.map(Number);
  }

  /**
   * The anchor of a partition; undefined where it is missing. One request for all lists of a turn of the event loop, sent
   * at its end, so that none is answered with a position from before its request.
   */
  #anchorOfMany(generation: Generation, partition: number): Promise<Anchor | undefined> {
    const key = this.#calls.keys.anchor(generation, partition);
    const asked = this.#wanted.get(key);
    if (asked) return asked;
    const asking = nextTurn().then(() => {
      this.#wanted.delete(key);
      return this.#calls.call(READ_MS, (deadline) =>
        this.#calls.storedAnchor(generation, partition, deadline),
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
  { onWarning = () => undefined, patienceMs = PATIENCE_MS, slowness = 1 }: RedisOptions = {},
): Promise<ReadModelStore> => {
  const model = new RedisReadModel(place, logIdentity, { onWarning, slowness });
  try {
    await model.open(patienceMs, onWarning);
    return model;
  } catch (error) {
    await model.close();
    throw error;
  }
};
