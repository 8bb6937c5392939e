import { v5 as uuidV5 } from 'uuid';
import { digestOfErased, hashInTree } from '../transparency/erased-events.js';
import { type Hash } from '../transparency/merkle.js';
import { stateChangeOf } from '../transparency/state.js';
import { pause } from '../runtime/pause.js';
import { monotonicMs, nextTurn, untilTick } from '../runtime/runtime.js';
import { encode, tryDecode, versionOf } from '../domain/codec.js';
import { type ErasureEvent } from '../domain/erasure.js';
import { leafOf } from '../audit/leaf.js';
import { EventRefused } from '../domain/errors.js';
import { effectOf } from '../domain/plant.js';
import { isSkipped } from '../domain/skips.js';
import {
  erasedStream,
  ERASURES_STREAM,
  erasureStream,
  ownedBy,
  parsePlantStream,
  streamsOf,
} from '../domain/stream.js';
import {
  type Erasing,
  type EventLog,
  LogUnavailable,
  type Position,
  type RecordedEvent,
  ScrubTakesTime,
  type RedactedEvent,
  START,
  WrongExpectedRevision,
} from '../log/event-log.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { type TreeStore } from '../audit/tree-store.js';
import { readSkipsInForce } from '../commands/read-rebuilds.js';
import { appendWithRetry, execute } from '../commands/execute.js';
import { operationEvent, type Operator } from '../commands/record-rebuilds.js';
import { scrubTree } from './scrub-tree.js';
import { type Erasure, type Erasures, isInProgress, ownerOf, readErasures } from './erasures.js';

/** The interval at which the log is read for orders, in milliseconds: one short stream. */
const LOOK_EVERY_MS = 1_000;

/** The same while an erasure is in progress, in milliseconds: each look is a step. */
const STEP_EVERY_MS = 250;

/** The interval at which it is looked whether the stores have caught up, in milliseconds. */
const WAIT_LOOK_MS = 50;

/** The pause before reading again what is erased already, in milliseconds: on EventStoreDB that is the whole log. */
const LOOK_AGAIN_MS = 30_000;

/** Deletions at a time: they share their fsyncs, and hold up others' lists by few commands (docs/performance.md). */
const DELETES_AT_ONCE = 32;

/** Events that are hashed, or get a redacted event, in one turn of the event loop: two milliseconds. */
const EVENTS_A_TURN = 50;

/** The time in which an order has to be complete after its first event, in milliseconds: else it was interrupted. */
const ORDER_MS = 60_000;

/** The most decisions, while others order erasures. */
const RACES = 20;

/** The steps of an erasure, each of which another process may have to continue. */
export const ERASURE_STEPS = [
  'ordered',
  'plants deleted',
  'lists and tree follow',
  'erased',
  'scrubbed',
] as const;
export type ErasureStep = (typeof ERASURE_STEPS)[number];

/** The state of an erasure in progress. */
export interface ErasureProgress {
  readonly erasure: string;
  readonly step: 'deleting' | 'waiting' | 'erasing' | 'scrubbing' | 'scavenging';
  /** The number of plants that are deleted, and of all; undefined in another step. */
  readonly plants?: { readonly done: number; readonly total: number };
}

export interface EraserOptions {
  readonly now: () => Date;
  /** Called at each step. */
  readonly onStep?: (step: ErasureStep) => void;
  /** Called with what was done, for the log. */
  readonly onDone: (message: string) => void;
  /** Called when an erasure is failing, for the log. */
  readonly onProblem: (reason: string) => void;
}

/** The streams and events of an erasure. */
interface ErasureScope {
  /** The position of its last event. */
  readonly last: Position;
  /** True if an earlier attempt has erased some of it already, so that followers cannot read on. */
  readonly isBegun: boolean;
}

/** A plant of an owner. */
interface OwnedPlant {
  readonly id: number;
  /** Of the last event in its stream. */
  readonly revision: bigint;
  readonly inLists: boolean;
  /** True if the state tree holds it, which goes by the shape of data, also of an event that was skipped. */
  readonly inState: boolean;
}

/** The actor of events that are recorded here, and of the deletions. */
const ERASER: Operator = { actor: { sub: 'plants eraser' }, correlationId: 'erasure' };

/** The namespace of the ids of redacted events (RFC 9562, version 5): a random UUID. */
const REDACTED_IDS = '8a0c8f6e-0c56-4a7c-9d5c-1f6b7c0a9d3e';

/**
 * Carries out erasures, one after the other. It has no state of its own: the next step follows from the log and the
 * stores, so that any process continues after a crash, and two at a time do no harm. It runs where the tree is, since
 * a checkpoint without the owner has to be signed before anything is erased.
 */
export class Eraser {
  readonly #progress = new Map<string, ErasureProgress>();
  /** Erasures of which lists have nothing left in their files, while the log or the tree still has. */
  readonly #scrubbed = new Set<string>();
  /** When an order that is not complete was first seen, in milliseconds of `monotonicMs()`. */
  readonly #incompleteSince = new Map<string, number>();
  #lastRevision: bigint | undefined;
  #isIdle = false;
  #problem: string | undefined;

  constructor(
    private readonly log: EventLog,
    private readonly model: ReadModelStore,
    private readonly tree: TreeStore,
    private readonly options: EraserOptions,
  ) {}

  /** The erasures in progress, in the order in which they were ordered. */
  get progress(): readonly ErasureProgress[] {
    return [...this.#progress.values()];
  }

  /** Why erasures failed at the last look, in one line without an owner's name; undefined where none did. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Runs until `signal` aborts; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const problem = await this.#look(signal);
      if (problem !== undefined && problem !== this.#problem) this.options.onProblem(problem);
      this.#problem = problem;
      await pause(this.#isIdle ? untilTick(LOOK_EVERY_MS) : STEP_EVERY_MS, signal);
    }
  }

  /** Carries out what is due. Returns why something of it failed; undefined where all is well. Never rejects. */
  async #look(signal: AbortSignal): Promise<string | undefined> {
    try {
      return await this.#next(signal);
    } catch (error) {
      this.#isIdle = false;
      // A log that is away is told by all others, and holds up no erasure where none is in progress.
      return error instanceof LogUnavailable && this.#progress.size === 0 ? undefined : messageOf(error);
    }
  }

  async #next(signal: AbortSignal): Promise<string | undefined> {
    const last = await this.log.readLast(ERASURES_STREAM);
    if (!last) this.#isIdle = true;
    if (!last || (this.#isIdle && last.revision === this.#lastRevision)) return undefined;
    const { all, revision, unread } = await readErasures(this.log);
    if (unread > 0)
      throw new Error('a newer version has recorded something about erasures: upgrade this one');
    const open = all.filter(isInProgress);
    for (const { erasure } of all)
      if (!open.some((one) => one.erasure === erasure)) this.#progress.delete(erasure);
    const problems: string[] = [];
    for (const erasure of open) {
      if (signal.aborted) return undefined;
      try {
        await this.#carryOut(erasure, signal);
      } catch (error) {
        if (error instanceof ScrubTakesTime)
          this.#progress.set(erasure.erasure, { erasure: erasure.erasure, step: 'scavenging' });
        else problems.push(`erasure ${erasure.erasure}: ${messageOf(error)}`);
      }
    }
    const isScrubbed = await scrubTree(this.log, this.tree);
    this.#lastRevision = revision;
    this.#isIdle = open.length === 0 && isScrubbed;
    return problems.length === 0 ? undefined : problems.join('; ');
  }

  async #carryOut({ erasure, state, orderedAt }: Erasure, signal: AbortSignal): Promise<void> {
    const show = (step: ErasureProgress['step'], plants?: ErasureProgress['plants']): void => {
      this.#progress.set(erasure, { erasure, step, ...(plants && { plants }) });
    };
    const deletePlants = (owner: string) =>
      this.#deletePlants(owner, erasure, (plants) => {
        show('deleting', plants);
      });
    if (state === 'ordered') {
      const owner = await ownerOf(this.log, erasure);
      if (owner === undefined) return this.#cancelUnless(erasure, orderedAt);
      this.#incompleteSince.delete(erasure);
      show('deleting');
      this.#step('ordered');
      // The second time for what the owner has created meanwhile: its command may have been admitted before the order.
      const scope = (await deletePlants(owner)) ?? (await deletePlants(owner));
      if (scope === undefined) return; // again
      this.#step('plants deleted');
      show('waiting');
      if (!scope.isBegun && !(await this.#followed(scope.last, signal))) return; // again
      this.#step('lists and tree follow');
      show('erasing');
      if (!(await this.#erase(owner, erasure, scope.last, signal))) return; // something was written meanwhile: again
      this.#step('erased');
    }
    if (!this.#scrubbed.has(erasure)) {
      show('scrubbing');
      await this.model.scrub();
      this.#scrubbed.add(erasure);
    }
    if (!(await scrubTree(this.log, this.tree))) {
      await this.#assertNoAlarm();
      return; // again, after the others: the tree may have to read past one of which only a part is erased
    }
    await this.log.scrub(erasedStream(erasure));
    this.#scrubbed.delete(erasure);
    await this.#record(erasure, 'erased', { type: 'ErasureFinished', data: { erasure } });
    this.#step('scrubbed');
    this.#progress.delete(erasure);
    this.options.onDone(`erasure ${erasure}: finished`);
  }

  #step(step: ErasureStep): void {
    this.options.onStep?.(step);
  }

  /** Cancels an order that is older than ORDER_MS: until then its owner's name may be about to be written. */
  async #cancelUnless(erasure: string, orderedAt: Date): Promise<void> {
    const since = this.#incompleteSince.get(erasure) ?? monotonicMs();
    this.#incompleteSince.set(erasure, since);
    // The time of day may have been set back since it was ordered.
    const ageMs = Math.max(this.options.now().getTime() - orderedAt.getTime(), monotonicMs() - since);
    if (ageMs < ORDER_MS) return;
    const reason = 'the command that ordered it was interrupted: order it again';
    await this.#record(erasure, 'ordered', { type: 'ErasureCancelled', data: { erasure, reason } });
    this.#incompleteSince.delete(erasure);
    this.options.onDone(`erasure ${erasure}: ${reason}`);
  }

  /**
   * Deletes the owner's plants by ordinary events: so lists, generations and the state tree lose them by their own
   * rules, and whoever replays the log without the erased events comes to the same state. Returns what is to be erased
   * where no plant is present in it; undefined where it has deleted some, so that another look is due.
   */
  async #deletePlants(
    owner: string,
    erasure: string,
    onDeleted: (plants: NonNullable<ErasureProgress['plants']>) => void,
  ): Promise<ErasureScope | undefined> {
    const { log, options } = this;
    const skips = await readSkipsInForce(log);
    const isOwned = ownedBy(owner);
    const plants = new Map<string, OwnedPlant>();
    let last = START;
    let isBegun = false;
    for await (const event of this.#owned(owner, erasure)) {
      isBegun ||= event.stream === erasedStream(erasure);
      last = event.position;
      if (!isOwned(event.stream)) continue;
      const fact = isSkipped(skips, event) ? undefined : tryDecode(event);
      if (fact instanceof EventRefused)
        throw new Error(
          `the event at position ${event.position} cannot be read: run a version that can read it, or skip it (plants skip --position ${event.position})`,
        );
      const { id } = parsePlantStream(event.stream) ?? {};
      if (id === undefined) continue;
      const before = plants.get(event.stream)?.inLists ?? false;
      plants.set(event.stream, {
        id,
        revision: event.revision,
        inLists: fact?.kind === 'plant' ? effectOf(fact.event).plant !== undefined : before,
        inState: stateChangeOf(event)?.value !== undefined,
      });
    }
    const present = [...plants].filter(([, { inLists, inState }]) => inLists || inState);
    const total = present.length;
    if (total === 0) return { last, isBegun };
    let done = 0;
    onDeleted({ done, total });
    const by = { ...ERASER, correlationId: erasure };
    const deleteNext = async (): Promise<void> => {
      for (let next = present.pop(); next; next = present.pop()) {
        const [stream, { id, revision }] = next;
        const deleted = { type: 'PlantDeleted', data: { id } } as const;
        try {
          await appendWithRetry(log, stream, revision, [
            operationEvent(stream, revision, deleted, by, options.now()),
          ]);
        } catch (error) {
          if (!(error instanceof WrongExpectedRevision)) throw error; // else: the owner was faster
        }
        onDeleted({ done: ++done, total });
      }
    };
    await Promise.all(Array.from({ length: DELETES_AT_ONCE }, deleteNext));
    return undefined;
  }

  /** The events of the owner, and what an earlier attempt has put in the place of some. */
  #owned(owner: string, erasure: string): AsyncIterable<RecordedEvent> {
    return this.log.readStreamsFrom([...prefixesOf(owner, erasure), erasedStream(erasure)]);
  }

  /**
   * Waits until every generation has applied the owner's events, and a checkpoint was signed that covers them. Returns
   * false where `signal` aborts, and after a while: another process may have erased some, and was lost then.
   */
  async #followed(last: Position, signal: AbortSignal): Promise<boolean> {
    const until = monotonicMs() + LOOK_AGAIN_MS;
    let size: number | undefined;
    while (!signal.aborted) {
      const tree = await this.tree.tree();
      if (tree.position >= last) size ??= tree.size;
      await this.#assertNoAlarm();
      const signed = (await this.tree.latestCheckpoint())?.size ?? 0;
      if (size !== undefined && signed >= size && (await this.#listsFollow(last))) return true;
      if (monotonicMs() >= until) return false;
      await pause(WAIT_LOOK_MS, signal);
    }
    return false;
  }

  /** True if no generation reads redacted events in the place of deletions, and would have to be made again. */
  async #listsFollow(last: Position): Promise<boolean> {
    for (const { generation } of await this.model.generations())
      if ((await this.model.anchors(generation)).some(({ position }) => position < last)) return false;
    return true;
  }

  async #assertNoAlarm(): Promise<void> {
    if (await this.tree.alarm())
      throw new Error('an alarm of the auditor stands, so nothing is signed: see plants status');
  }

  /** Erases the events. Returns false, and has erased nothing, where others were written meanwhile. */
  async #erase(owner: string, erasure: string, covered: Position, signal: AbortSignal): Promise<boolean> {
    const { log, options } = this;
    const events: { readonly position: Position; readonly hash: Hash }[] = [];
    for await (const event of this.#owned(owner, erasure)) {
      events.push({ position: event.position, hash: hashInTree(event, leafOf(event)) });
      if (events.length % EVENTS_A_TURN === 0) await nextTurn();
    }
    if (events.at(-1)?.position !== covered) return false;
    const { revision, all } = await readErasures(log);
    if (all.find((one) => one.erasure === erasure)?.state !== 'ordered') return true; // by another process
    const digest = digestOfErased(events.map(({ hash }) => hash));
    const data = { erasure, events: events.length, digest };
    const record = operationEvent(
      ERASURES_STREAM,
      revision,
      { type: 'OwnerErased', data },
      ERASER,
      options.now(),
    );
    const redacted: RedactedEvent[] = [];
    for (const { position, hash } of events) {
      redacted.push({
        position,
        id: uuidV5(`${erasure} ${redacted.length}`, REDACTED_IDS),
        type: 'Erased',
        data: encode({ type: 'Erased', data: { leafHash: Buffer.from(hash).toString('base64') } }),
        metadata: { schemaVersion: versionOf('Erased') },
      });
      if (redacted.length % EVENTS_A_TURN === 0) await nextTurn();
    }
    const erasing: Erasing = {
      prefixes: prefixesOf(owner, erasure),
      subject: erasureStream(erasure),
      redacted,
      into: erasedStream(erasure),
      record: { stream: ERASURES_STREAM, expected: revision ?? 'none', event: record },
    };
    const erased = await log.erase(erasing, signal);
    if (erased) options.onDone(`erasure ${erasure}: events erased: ${events.length}`);
    return erased !== undefined;
  }

  /** Records a step, unless the erasure is in another state already. */
  async #record(erasure: string, state: Erasure['state'], event: ErasureEvent): Promise<void> {
    await execute<Erasures, undefined>(this.log, ERASURES_STREAM, {
      races: RACES,
      read: async () => {
        const erasures = await readErasures(this.log);
        const isDue = erasures.all.some((one) => one.erasure === erasure && one.state === state);
        return isDue ? { state: erasures, revision: erasures.revision } : { done: undefined };
      },
      decide: ({ revision }) => [
        operationEvent(ERASURES_STREAM, revision, event, ERASER, this.options.now()),
      ],
      tooManyRaces: () => new Error('another process records erasures at the same time'),
    });
  }
}

/** The streams that an erasure erases: the owner's, and the one that names the owner for it. */
const prefixesOf = (owner: string, erasure: string): string[] => [
  ...streamsOf(owner),
  erasureStream(erasure),
];

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
