import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { type Position, START } from '../../ports/event-log.js';
import { type Report } from '../../ports/coordination.js';
import { type GenerationInfo, ActiveChanged, GenerationActive, NotAsFar } from '../../ports/generations.js';
import {
  type Generation,
  type Healing,
  type LongPage,
  type Page,
  type ParkedOwner,
  type PartitionChanges,
  type RowChange,
  GenerationMissing,
  OwnerParked,
  PARTITIONS,
  ReadModel,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
  partitionOf,
} from '../../ports/read-model.js';
import { type ReadModelStore } from '../../ports/read-model-store.js';
import { decodeOwner, encodeOwner } from '../../plants/stream.js';
import { PageCache } from '../page-cache.js';
import { Waiters } from '../waiters.js';
import { Deadline } from './deadline.js';
import { serverCheck } from './server-check.js';
import { isReply, RedisRefused } from './error-messages.js';
import { type Copy, Keys, generationOf, newCopySuffix } from './keys.js';
import { RedisConnection } from './connection.js';
import { type RedisConnectionString } from './connection-string.js';
import {
  type Script,
  APPLY,
  CREATE,
  DROP,
  HEAL,
  LIST,
  PAGE,
  PROBE,
  PROMOTE,
  REPORT,
  REPORTS,
  RETURN_LEASE,
  TAKE_LEASE,
} from './scripts.js';
import { type Servers, accessTo, serversAt } from './servers.js';

/** A list takes a millisecond; a client that waits two seconds has better things to do than to wait for more. */
const READ_MS = 2_000;

/** An apply may stand behind others on a server that is catching up, and nobody waits for it but the projector. */
const WRITE_MS = 5_000;

/** How long a start waits for what may pass by itself, in milliseconds: a server that starts at the same time. */
const PATIENCE_MS = 10_000;

/**
 * After this time the active copy is asked for again, in milliseconds, by one list for all. What was replaced is
 * maintained for a grace period, so a list from it is late, but true.
 */
const ASK_AGAIN_MS = 500;

/** No list is answered from a copy that was last known to be the active one longer ago, in milliseconds. */
const TRUSTED_MS = 1_000;

/** Keys that one step of a scan looks at: the server is busy for less than a millisecond. */
const SCAN_KEYS = 500;

const PARTITION_NUMBERS: readonly number[] = Array.from({ length: PARTITIONS }, (_, partition) => partition);

export interface RedisOptions {
  /** Hears, in one line, what does not prevent the start but should be known. */
  readonly onWarning?: (message: string) => void;
  /** How long opening waits for what may pass by itself, in milliseconds; 10 seconds without it. */
  readonly patienceMs?: number;
}

interface Active {
  readonly copy: Copy | undefined;
  /** By this process' monotonic clock: it was the active one after this moment. */
  readonly askedAt: number;
}

/** Where a scan of one server stands. A cursor means nothing to another server, nor to the same after a restart. */
interface Scan {
  readonly cursor: string;
  readonly connection: number;
}

class RedisReadModel extends ReadModel implements ReadModelStore {
  readonly #keys: Keys;
  readonly #log: string;
  readonly #servers: Servers;
  readonly #subscriber: RedisConnection;
  readonly #waiters = new Waiters((partitions) => this.#activePositions(partitions));
  readonly #copies = new Map<Generation, Copy>();
  readonly #kept = new PageCache<Copy>();
  /** Positions that are about to be asked for, by key. */
  readonly #wanted = new Map<string, Promise<Position | null>>();
  /** What is under way: closing lets it end. */
  readonly #calls = new Set<Promise<unknown>>();
  readonly #stop = new AbortController();
  #active: Active = { copy: undefined, askedAt: -Infinity };
  /** The copy that lists were last answered from, and since when, in milliseconds of `performance.now()`. */
  #shown: { readonly copy: Copy; readonly since: number } | undefined;
  /** What it replaced: until that moment other processes may still answer lists from it. */
  #replaced: { readonly copy: Copy; readonly until: number } | undefined;
  #asking: Promise<Active> | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  constructor(place: RedisConnectionString, log: string, onWarning: (message: string) => void) {
    super();
    this.#log = log;
    this.#keys = new Keys(log);
    this.#servers = serversAt(place, serverCheck(place.mode.kind, onWarning));
    this.#subscriber = new RedisConnection(
      accessTo(place),
      () => this.#servers.find(),
      async (client) => {
        await client.subscribe(this.#keys.channel, () => {
          this.#forgetActive();
          this.#waiters.wake();
        });
        // What was published while there was no connection has not been heard.
        this.#forgetActive();
        this.#waiters.wake();
      },
    );
  }

  /** Throws ReadModelUnavailable with what must be changed. */
  async open(patienceMs: number, onWarning: (message: string) => void): Promise<void> {
    const deadline = new Deadline(patienceMs, 'Redis');
    try {
      await this.#servers.ready(deadline);
      await this.#subscriber.ready(deadline);
      for (;;) {
        const failure = await this.#probe().catch((error: unknown) => error);
        if (failure === undefined) return;
        if (failure instanceof RedisRefused) throw failure;
        if (isReply(failure, 'OOM') || isReply(failure, 'MISCONF')) {
          onWarning(`${failure.message}. Lists are answered, but do not get newer`);
          return;
        }
        deadline.check(failure as ReadModelUnavailable);
        await delay(ASK_AGAIN_MS);
      }
    } finally {
      deadline.end();
    }
  }

  get steadySince(): number {
    return Math.max(this.#servers.since, this.#shown?.since ?? 0);
  }

  generations(): Promise<GenerationInfo[]> {
    return this.#call(READ_MS, async (deadline) => {
      const registry = await this.#registry(deadline);
      const active = registry.get('active');
      return [...registry]
        .flatMap(([field, copy]) => {
          const generation = generationOf(field);
          return generation === undefined ? [] : [{ generation, active: copy === active }];
        })
        .sort((a, b) => a.generation - b.generation);
    });
  }

  createGeneration(): Promise<Generation> {
    return this.#call(WRITE_MS, async (deadline) => {
      const number = await this.#run(
        CREATE,
        this.#keys.slot,
        [this.#keys.generations],
        [this.#log, newCopySuffix()],
        deadline,
      );
      const generation = Number(number) as Generation;
      await this.#ensurePositions(await this.#copyOf(generation, deadline), deadline);
      // The first one: what a server that has lost its list of copies still holds of them is of no use.
      if (generation === 1) this.#sweeping = this.#sweep().catch(() => undefined); // a later drop goes on with it
      return generation;
    });
  }

  promote(generation: Generation, replaces?: Generation | 'none', logEnd?: Position): Promise<void> {
    return this.#call(WRITE_MS, async (deadline) => {
      // Promotions that cross each other: who was overtaken compares again, until the deadline.
      for (;;) {
        const registry = await this.#registry(deadline);
        const copy = registry.get(`${generation}`) as Copy | undefined;
        const active = registry.get('active') as Copy | undefined;
        if (copy === undefined) throw missing(generation);
        if (active === copy) {
          this.#forgetActive(); // another process may have promoted it
          return;
        }
        const activeNumber = [...registry].find(
          ([field, other]) => other === active && generationOf(field),
        )?.[0];
        if (replaces !== undefined && `${replaces}` !== (activeNumber ?? 'none'))
          throw new ActiveChanged(`the active generation is ${activeNumber ?? 'none'}, not ${replaces}`);
        if (active !== undefined) {
          // First those that lists are answered from: where they move on meanwhile, the others do so, too.
          const theirs = await this.#positionsOf(active, deadline);
          const ours = await this.#positionsOf(copy, deadline);
          const partition = ours.findIndex(
            (position, index) =>
              position < (theirs[index] ?? START) && (logEnd === undefined || position < logEnd),
          );
          if (partition !== -1)
            throw new NotAsFar(
              `partition ${partition} of generation ${generation} stands before the active one`,
            );
        }
        await this.#ensurePositions(copy, deadline);
        const outcome = await this.#run(
          PROMOTE,
          this.#keys.slot,
          [this.#keys.generations],
          [`${generation}`, copy, active ?? ''],
          deadline,
        );
        if (outcome === 'missing') throw missing(generation);
        if (outcome === 'promoted') {
          this.#forgetActive();
          this.#waiters.wake();
          this.#publish();
          return;
        }
      }
    });
  }

  async drop(generation: Generation): Promise<void> {
    await this.#call(WRITE_MS, async (deadline) => {
      const outcome = await this.#run(
        DROP,
        this.#keys.slot,
        [this.#keys.generations],
        [`${generation}`],
        deadline,
      );
      this.#copies.delete(generation);
      if (outcome === 'active') {
        this.#forgetActive(); // another process may have promoted it
        throw new GenerationActive(`generation ${generation} is the active one`);
      }
    });
    await this.#sweep();
  }

  positions(generation: Generation): Promise<Position[]> {
    return this.#call(READ_MS, async (deadline) => {
      const copy = await this.#copyOf(generation, deadline);
      const positions = await this.#positionsOf(copy, deadline);
      // A drop first takes the generation from the list, and then its positions: they were whole if it is still there.
      if ((await this.#copyOf(generation, deadline)) !== copy) throw missing(generation);
      return positions;
    });
  }

  apply(generation: Generation, partitions: readonly PartitionChanges[]): Promise<Position[]> {
    return this.#call(WRITE_MS, async (deadline) => {
      for (;;) {
        const copy = this.#copies.get(generation) ?? (await this.#copyOf(generation, deadline));
        const [now, ...positions] = await Promise.all([
          this.#copyOf(generation, deadline),
          ...partitions.map((changes) => this.#applyOne(copy, changes, deadline)),
        ]);
        // The number was given again, after all data were lost.
        if (now !== copy) continue;
        if (partitions.some(({ from }, index) => (positions[index] ?? START) > from)) {
          this.#waiters.wake();
          this.#publish();
        }
        return positions;
      }
    });
  }

  heal(generation: Generation, { owner, from, upTo, changes, then }: Healing): Promise<boolean> {
    return this.#call(WRITE_MS, async (deadline) => {
      const copy = await this.#copyOf(generation, deadline);
      const partition = partitionOf(owner);
      const keys = [
        this.#keys.position(copy, partition),
        this.#keys.parked(copy, partition),
        this.#keys.plants(copy, partition, owner),
      ];
      const [least, becomes] = typeof then === 'string' ? [upTo, then] : [then.position, parkedText(then)];
      const args = [encodeOwner(owner), from, upTo, least, becomes];
      for (const { id, row } of lastOfEachPlant(changes, []))
        args.push(`${id}`, row === undefined ? '' : memberOf(id, row));
      return (await this.#run(HEAL, this.#keys.slotOf(partition), keys, args, deadline)) === 1;
    });
  }

  countParked(generation: Generation): Promise<number> {
    return this.#call(READ_MS, async (deadline) => {
      const copy = await this.#copyOf(generation, deadline);
      const counts = await this.#parkedCounts(copy, deadline);
      return counts.reduce((sum, count) => sum + count, 0);
    });
  }

  async *parked(generation: Generation): AsyncGenerator<ParkedOwner, void, undefined> {
    const [copy, counts] = await this.#call(READ_MS, async (deadline) => {
      const current = await this.#copyOf(generation, deadline);
      return [current, await this.#parkedCounts(current, deadline)] as const;
    });
    for (const partition of PARTITION_NUMBERS) {
      if (!counts[partition]) continue;
      const fields = (await this.#call(READ_MS, (deadline) =>
        this.#servers.send(
          this.#keys.slotOf(partition),
          ['HGETALL', this.#keys.parked(copy, partition)],
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
    if (kept && kept.copy === this.#fresh()) {
      const position = await this.#positionOfMany(kept.copy, partitionOf(owner));
      if (position === kept.page.position) return kept.page;
    }
    return this.#call(READ_MS, async (deadline) => {
      const read = async (copy: Copy): Promise<Page | undefined> => {
        const page = await this.#readPage(copy, owner, after, limit, deadline);
        if (page?.parked) throw new OwnerParked(page.parked);
        if (page) this.#kept.keep(copy, owner, after, limit, page);
        return page;
      };
      const page =
        (await read(await this.#trusted(deadline))) ??
        // It has been replaced and dropped, or the server has lost its data.
        (await read(await this.#trustedAfter(performance.now(), deadline)));
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
    return this.#call(READ_MS, async (deadline) => {
      for (;;) {
        const copy = this.#copies.get(generation) ?? (await this.#copyOf(generation, deadline));
        const page = await this.#pageWithScores(copy, owner, after, limit, deadline);
        // A drop first takes the generation from the list, and then its rows: they were whole if it is still there.
        // If it is there as another copy, the number was given again, after all data were lost.
        if ((await this.#copyOf(generation, deadline)) !== copy) continue;
        if (!page)
          throw new ReadModelIncomplete(
            `generation ${generation} has lost partition ${partitionOf(owner)}: it has to be built again`,
          );
        return page;
      }
    });
  }

  async *owners(generation: Generation): AsyncGenerator<string, void, undefined> {
    const copy = await this.#call(READ_MS, (deadline) => this.#copyOf(generation, deadline));
    for (const link of this.#servers.all()) {
      let scan: Scan | undefined = { cursor: '0', connection: link.connection };
      while (scan) {
        const from: Scan = scan;
        const step = await this.#call(READ_MS, (deadline) =>
          this.#ownersStep(link, from, generation, copy, deadline),
        );
        yield* step.owners;
        scan = step.next;
      }
    }
  }

  reached(partition: number, position: Position, signal: AbortSignal): Promise<void> {
    return this.#waiters.wait(partition, position, signal);
  }

  takeLease(holder: string, forMs: number): Promise<boolean> {
    return this.#call(READ_MS, async (deadline) => {
      const taken = await this.#run(
        TAKE_LEASE,
        this.#keys.slot,
        [this.#keys.lease],
        [holder, `${Math.max(1, Math.round(forMs))}`],
        deadline,
      );
      return taken === 1;
    });
  }

  returnLease(holder: string): Promise<void> {
    return this.#call(READ_MS, async (deadline) => {
      await this.#run(RETURN_LEASE, this.#keys.slot, [this.#keys.lease], [holder], deadline);
    });
  }

  report(process: string, text: string, forMs: number): Promise<void> {
    return this.#call(READ_MS, async (deadline) => {
      const { slot, reports } = this.#keys;
      await this.#run(REPORT, slot, [reports], [process, text, `${forMs}`], deadline);
    });
  }

  reports(): Promise<Report[]> {
    return this.#call(READ_MS, async (deadline) => {
      const { slot, reports } = this.#keys;
      const found = (await this.#run(REPORTS, slot, [reports], [], deadline)) as [string, string][];
      return found
        .map(([process, text]) => ({ process, text }))
        .sort((a, b) => (a.process < b.process ? -1 : 1));
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stop.abort();
    await this.#waiters.close(closed());
    await this.#sweeping;
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
    await Promise.all([this.#subscriber.close(), this.#servers.close()]);
  }

  /** One call of the port: it ends by itself, and closing waits for it. */
  async #call<T>(ms: number, work: (deadline: Deadline) => Promise<T>): Promise<T> {
    if (this.#stop.signal.aborted) throw closed();
    const deadline = new Deadline(ms, 'Redis');
    const call = work(deadline);
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
      deadline.end();
    }
  }

  /** Runs a script where those keys are; its text is sent only where the server does not have it yet. */
  async #run(
    { sha, body }: Script,
    slot: number,
    keys: readonly string[],
    args: readonly string[],
    deadline: Deadline,
  ): Promise<unknown> {
    const rest = [`${keys.length}`, ...keys, ...args];
    try {
      return await this.#servers.send(slot, ['EVALSHA', sha, ...rest], deadline);
    } catch (error) {
      if (!isReply(error, 'NOSCRIPT')) throw error;
      return this.#servers.send(slot, ['EVAL', body, ...rest], deadline);
    }
  }

  /** Undefined where the copy does not have that partition (any more). */
  async #readPage(
    copy: Copy,
    owner: string,
    after: number | undefined,
    limit: number,
    deadline: Deadline,
  ): Promise<Page | undefined> {
    const text = await this.#runOnPage(LIST, copy, owner, after, limit, deadline);
    return text === null ? undefined : pageOf(text as string, owner, limit);
  }

  async #pageWithScores(
    copy: Copy,
    owner: string,
    after: number | undefined,
    limit: number,
    deadline: Deadline,
  ): Promise<Page | undefined> {
    const answer = await this.#runOnPage(PAGE, copy, owner, after, limit, deadline);
    return answer === null
      ? undefined
      : scoredPageOf(answer as [head: string, members: string[]], owner, limit);
  }

  /** Runs LIST or PAGE, which take the same keys and arguments. */
  #runOnPage(
    script: Script,
    copy: Copy,
    owner: string,
    after: number | undefined,
    limit: number,
    deadline: Deadline,
  ) {
    const partition = partitionOf(owner);
    return this.#run(
      script,
      this.#keys.slotOf(partition),
      [
        this.#keys.position(copy, partition),
        this.#keys.plants(copy, partition, owner),
        this.#keys.parked(copy, partition),
      ],
      [after === undefined ? '-inf' : `(${after}`, `${limit + 1}`, encodeOwner(owner)],
      deadline,
    );
  }

  async #ownersStep(
    link: RedisConnection,
    { cursor, connection }: Scan,
    generation: Generation,
    copy: Copy,
    deadline: Deadline,
  ): Promise<{ owners: string[]; next: Scan | undefined }> {
    const match = this.#keys.owners(copy);
    const command = ['SCAN', cursor, 'MATCH', match, 'COUNT', `${SCAN_KEYS}`];
    const [following, found] = (await link.send(command, deadline)) as [string, string[]];
    const now = link.connection;
    // Asked after the keys were seen, as for a page.
    if ((await this.#copyOf(generation, deadline)) !== copy) throw missing(generation);
    const owners = found.map((key) => {
      const owner = this.#keys.ownerOf(copy, key);
      if (owner === undefined)
        throw new ReadModelTampered(
          `the key ${JSON.stringify(key)} in Redis is of no owner: somebody else has written it; a rebuild makes it good`,
        );
      return owner;
    });
    if (cursor !== '0' && now !== connection) return { owners, next: { cursor: '0', connection: now } };
    return { owners, next: following === '0' ? undefined : { cursor: following, connection: now } };
  }

  async #registry(deadline: Deadline): Promise<ReadonlyMap<string, string>> {
    const fields = await this.#servers.send(this.#keys.slot, ['HGETALL', this.#keys.generations], deadline);
    return new Map(Object.entries(fields as Record<string, string>));
  }

  /** Throws GenerationMissing. */
  async #copyOf(generation: Generation, deadline: Deadline): Promise<Copy> {
    const copy = await this.#servers.send(
      this.#keys.slot,
      ['HGET', this.#keys.generations, `${generation}`],
      deadline,
    );
    if (copy === null) {
      this.#copies.delete(generation);
      throw missing(generation);
    }
    this.#copies.set(generation, copy as Copy);
    return copy as Copy;
  }

  async #positionsOf(copy: Copy, deadline: Deadline): Promise<Position[]> {
    const positions = await this.#storedPositions(copy, PARTITION_NUMBERS, deadline);
    return positions.map((position) => position ?? START);
  }

  /** Null for a partition that is not there. */
  #storedPositions(
    copy: Copy,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | null)[]> {
    return Promise.all(
      partitions.map(
        (partition) =>
          this.#servers.send(
            this.#keys.slotOf(partition),
            ['GET', this.#keys.position(copy, partition)],
            deadline,
          ) as Promise<Position | null>,
      ),
    );
  }

  /** How many owners are parked in each partition. */
  async #parkedCounts(copy: Copy, deadline: Deadline): Promise<number[]> {
    const counts = await Promise.all(
      PARTITION_NUMBERS.map((partition) =>
        this.#servers.send(
          this.#keys.slotOf(partition),
          ['HGET', this.#keys.parked(copy, partition), PARKED_COUNT],
          deadline,
        ),
      ),
    );
    return counts.map(Number);
  }

  /** A partition without one is not there: only data that were lost look so, once the copy is the active one. */
  async #ensurePositions(copy: Copy, deadline: Deadline): Promise<void> {
    await Promise.all(
      PARTITION_NUMBERS.flatMap((partition) => {
        const send = (...command: string[]): Promise<unknown> =>
          this.#servers.send(this.#keys.slotOf(partition), command, deadline);
        return [
          send('SET', this.#keys.position(copy, partition), START, 'NX'),
          send('HSET', this.#keys.parked(copy, partition), PARKED_KEPT, ''),
        ];
      }),
    );
  }

  async #applyOne(
    copy: Copy,
    { partition, from, upTo, changes, refused = [] }: PartitionChanges,
    deadline: Deadline,
  ): Promise<Position> {
    const keys = [this.#keys.position(copy, partition), this.#keys.parked(copy, partition)];
    const args: string[] = [from, upTo, `${refused.length}`];
    for (const event of refused)
      args.push(encodeOwner(event.owner), event.position, event.applied, parkedText(event));
    const keyNumbers = new Map<string, number>();
    for (const { owner, id, row, position } of lastOfEachPlant(changes, refused)) {
      let number = keyNumbers.get(owner);
      if (number === undefined) {
        number = keys.push(this.#keys.plants(copy, partition, owner));
        keyNumbers.set(owner, number);
      }
      args.push(`${number}`, `${id}`, position, row === undefined ? '' : memberOf(id, row));
    }
    return (await this.#run(APPLY, this.#keys.slotOf(partition), keys, args, deadline)) as Position;
  }

  /**
   * Where a partition stands; null where it is not there. One question for all lists that came in the same turn of
   * the event loop: it is sent when they are all there, and so none is answered with what was so before it came.
   */
  #positionOfMany(copy: Copy, partition: number): Promise<Position | null> {
    const key = this.#keys.position(copy, partition);
    const asked = this.#wanted.get(key);
    if (asked) return asked;
    const asking = nextTurn().then(() => {
      this.#wanted.delete(key);
      return this.#call(
        READ_MS,
        (deadline) =>
          this.#servers.send(
            this.#keys.slotOf(partition),
            ['GET', key],
            deadline,
          ) as Promise<Position | null>,
      );
    });
    this.#wanted.set(key, asking);
    return asking;
  }

  /** The copy to answer lists from, as long as nobody has to be asked. */
  #fresh(): Copy | undefined {
    const { copy, askedAt } = this.#active;
    const age = performance.now() - askedAt;
    return age < ASK_AGAIN_MS || (age < TRUSTED_MS && this.#asking) ? copy : undefined;
  }

  /** The copy to answer lists from. Throws ReadModelIncomplete. */
  async #trusted(deadline: Deadline): Promise<Copy> {
    return this.#fresh() ?? this.#activeOr(deadline.race(this.#askForActive()));
  }

  /** The same as it was at that moment or later. */
  async #trustedAfter(moment: number, deadline: Deadline): Promise<Copy> {
    if (this.#active.askedAt < moment) this.#forgetActive();
    return this.#trusted(deadline);
  }

  async #activeOr(asked: Promise<Active>): Promise<Copy> {
    const { copy } = await asked;
    if (copy === undefined) throw new ReadModelIncomplete('no generation is active yet');
    return copy;
  }

  #askForActive(): Promise<Active> {
    if (this.#asking) return this.#asking;
    const asking = this.#call(READ_MS, async (deadline) => {
      const askedAt = performance.now();
      const active = { copy: await this.#readActive(deadline), askedAt };
      this.#show(active.copy);
      if (this.#asking === asking) this.#active = active;
      return active;
    }).finally(() => {
      if (this.#asking === asking) this.#asking = undefined;
    });
    this.#asking = asking;
    return asking;
  }

  async #readActive(deadline: Deadline): Promise<Copy | undefined> {
    const active = await this.#servers.send(
      this.#keys.slot,
      ['HGET', this.#keys.generations, 'active'],
      deadline,
    );
    return (active as Copy | null) ?? undefined;
  }

  /** Notes that a copy is the active one, where that is news. */
  #show(copy: Copy | undefined): void {
    const before = this.#shown?.copy;
    if (copy === undefined || copy === before) return;
    const now = performance.now();
    this.#shown = { copy, since: now };
    if (before !== undefined) this.#replaced = { copy: before, until: now + TRUSTED_MS };
  }

  /**
   * The positions as every process has them: for a moment after a switch others answer from what was replaced, which
   * may not be as far. A copy that is gone is nobody's.
   */
  async #positionsForAll(
    copy: Copy,
    partitions: readonly number[],
    deadline: Deadline,
  ): Promise<(Position | null)[]> {
    const positions = await this.#storedPositions(copy, partitions, deadline);
    const replaced = this.#replaced;
    if (!replaced || replaced.copy === copy || performance.now() > replaced.until) return positions;
    const others = await this.#storedPositions(replaced.copy, partitions, deadline);
    return positions.map((position, index) => {
      const other = others[index] ?? null;
      return position !== null && other !== null && other < position ? other : position;
    });
  }

  /** The next list asks for it; what is being asked now may be too old. */
  #forgetActive(): void {
    this.#active = { copy: undefined, askedAt: -Infinity };
    this.#asking = undefined;
  }

  #activePositions(partitions: readonly number[]): Promise<ReadonlyMap<number, Position>> {
    return this.#call(READ_MS, async (deadline) => {
      let copy = this.#active.copy;
      for (;;) {
        const askedAt = performance.now();
        const [active, positions] = await Promise.all([
          this.#readActive(deadline),
          copy === undefined ? [] : this.#positionsForAll(copy, partitions, deadline),
        ]);
        this.#show(active);
        if (active === copy) {
          // Whoever is let go by this finds a list that is as far.
          if (askedAt > this.#active.askedAt) this.#active = { copy, askedAt };
          return new Map(
            partitions.flatMap((partition, index) => {
              const position = positions[index] ?? undefined;
              return position === undefined ? [] : [[partition, position] as const];
            }),
          );
        }
        copy = active;
      }
    });
  }

  /** Only a hint: whoever does not hear it looks by himself. */
  #publish(): void {
    const hint = this.#call(READ_MS, (deadline) =>
      this.#servers.send(this.#keys.slot, ['PUBLISH', this.#keys.channel, ''], deadline),
    );
    hint.catch(() => undefined);
  }

  /**
   * Removes, in small steps, the keys of every copy that is not in the list: of this one's drop, of those that
   * were interrupted, and of those that the server has forgotten.
   */
  async #sweep(): Promise<void> {
    const alive = new Set<string>();
    for (const link of this.#servers.all()) {
      let cursor = '0';
      do {
        cursor = await this.#call(WRITE_MS, (deadline) => this.#sweepStep(link, cursor, alive, deadline));
      } while (cursor !== '0');
    }
  }

  async #sweepStep(
    link: RedisConnection,
    cursor: string,
    alive: Set<string>,
    deadline: Deadline,
  ): Promise<string> {
    const command = ['SCAN', cursor, 'MATCH', this.#keys.copies, 'COUNT', `${SCAN_KEYS}`];
    const [next, found] = (await link.send(command, deadline)) as [string, string[]];
    const candidates = found.flatMap((key) => {
      const parsed = this.#keys.parse(key);
      return parsed === undefined || alive.has(parsed.copy) ? [] : [{ key, ...parsed }];
    });
    if (candidates.length > 0) {
      // Asked after the keys were seen: a copy is in the list before its first key is made.
      for (const copy of (await this.#registry(deadline)).values()) alive.add(copy);
      const bySlot = new Map<number, string[]>();
      for (const { copy, slot, key } of candidates)
        if (!alive.has(copy)) bySlot.set(slot, [...(bySlot.get(slot) ?? []), key]);
      await Promise.all(
        Array.from(bySlot, ([slot, keys]) => this.#servers.send(slot, ['UNLINK', ...keys], deadline)),
      );
    }
    return next;
  }

  /**
   * Every command of ours once, so that a missing permission has a name before anybody needs it: from within a
   * script, the server does not say which.
   */
  #probe(): Promise<void> {
    return this.#call(READ_MS, async (deadline) => {
      const { slot, probe, channel, copies } = this.#keys;
      for (const command of [
        ...[
          ['SET', probe, '', 'PX', '1'],
          ['GET', probe],
          ['DEL', probe],
          ['UNLINK', probe],
        ],
        ...[
          ['ZADD', probe, '1', ''],
          ['ZRANGEBYSCORE', probe, '1', '1'],
          ['ZREMRANGEBYSCORE', probe, '1', '1'],
        ],
        ...[
          ['HINCRBY', probe, '1', '1'],
          ['HSET', probe, '1', ''],
          ['HGET', probe, '1'],
          ['HGETALL', probe],
        ],
        ...[
          ['HDEL', probe, '1'],
          ['EVAL', PROBE.body, '1', probe],
          ['EVALSHA', PROBE.sha, '1', probe],
        ],
        ['TIME'],
        ['PUBLISH', channel, ''],
      ])
        await this.#servers.send(slot, command, deadline);
      await Promise.all(
        this.#servers.all().map((link) => link.send(['SCAN', '0', 'MATCH', copies, 'COUNT', '1'], deadline)),
      );
    });
  }
}

const closed = (): ReadModelUnavailable => new ReadModelUnavailable('the read model has been closed');

const missing = (generation: Generation): GenerationMissing =>
  new GenerationMissing(`there is no generation ${generation}`);

/** The field of a partition's hash of parked owners that says how many there are: no owner is encoded so. */
const PARKED_COUNT = '#';

/**
 * A field that keeps the hash there while no owner is parked: while a cluster moves a slot, a script is refused
 * (TRYAGAIN) unless all of its keys exist where it runs. No owner is encoded so.
 */
const PARKED_KEPT = '#kept';

/**
 * The earlier changes of a plant leave nothing behind. But those before and after a refused event of the owner are kept
 * apart: what follows that may have to be left out.
 */
const lastOfEachPlant = (
  changes: readonly RowChange[],
  refused: readonly ParkedOwner[],
): Iterable<RowChange> => {
  const last = new Map<string, RowChange>();
  for (const change of changes) {
    const { id, owner, position } = change;
    const refusedBefore =
      refused.length === 0
        ? 0
        : refused.filter((event) => event.owner === owner && event.position < position).length;
    last.set(`${id} ${refusedBefore} ${owner}`, change);
  }
  return last.values();
};

/** Where an owner is parked, as the hash of parked owners holds it after `applied|missed|`. */
const parkedText = ({ position, stream, revision, kind, reason }: ParkedOwner): string =>
  JSON.stringify({ position, stream, revision, kind, reason });

/** The parked owner that a field of the hash stands for. */
const parkedOwnerOf = (owner: string, text: string): ParkedOwner => {
  const [, applied = '', event = ''] = /^([^|]*)\|[^|]*\|(.*)$/s.exec(text) ?? [];
  return {
    owner,
    ...(JSON.parse(event) as Omit<ParkedOwner, 'owner' | 'applied'>),
    applied: applied as Position,
  };
};

/**
 * A row as a sorted set holds it: the id, since two plants of an owner may have the same row; and the row's length
 * (in UTF-16 units), by which many of them are taken from one text, whatever a row contains.
 */
const memberOf = (id: number, row: string): string => `${id}:${row.length}:${row}`;

const pageOf = (text: string, owner: string, limit: number): Page => {
  const rows: { id: number; row: string }[] = [];
  const lineEnd = text.indexOf('\n');
  let at = lineEnd + 1;
  while (at < text.length && rows.length < limit) {
    const afterId = text.indexOf(':', at);
    const afterLength = text.indexOf(':', afterId + 1);
    const id = Number(text.slice(at, afterId));
    at = afterLength + 1 + Number(text.slice(afterId + 1, afterLength));
    rows.push({ id, row: text.slice(afterLength + 1, at) });
  }
  return { rows, more: at < text.length, ...headOf(text.slice(0, lineEnd), owner) };
};

/** A position, and where the owner is parked if so. */
const headOf = (head: string, owner: string): Pick<Page, 'position' | 'parked'> => {
  const space = head.indexOf(' ');
  if (space === -1) return { position: head as Position };
  const parked = parkedOwnerOf(owner, head.slice(space + 1));
  return { position: head.slice(0, space) as Position, parked };
};

/**
 * The same of members and their scores. A member that is not the one of its score stands there whole, as a row that the
 * projection never writes; a member more of the last score belongs to the page, which would not be met again.
 */
const scoredPageOf = (
  [head, found]: [head: string, members: string[]],
  owner: string,
  limit: number,
): Page => {
  const rows: { id: number; row: string }[] = [];
  for (let at = 0; at < found.length; at += 2) {
    const [member = '', score = ''] = found.slice(at, at + 2);
    const id = Number(score);
    if (rows.length >= limit && rows.at(-1)?.id !== id) return { rows, more: true, ...headOf(head, owner) };
    const [, of, row] = /^([^:]*):\d*:(.*)$/s.exec(member) ?? [];
    rows.push({ id, row: row === undefined || of !== score ? member : row });
  }
  return { rows, more: false, ...headOf(head, owner) };
};

/**
 * The read model on Redis, for the log with that identity. Others may be on the same server, on the same keys'
 * prefix even: each log has its own.
 *
 * Throws ReadModelUnavailable, in one line that says what to change, where the server cannot be used.
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
