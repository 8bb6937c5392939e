import { OPERATION_STREAMS, plantStream, REQUEST_STREAMS } from '../../src/domain/stream.js';
import { type Position, type RecordedEvent, START } from '../../src/log/event-log.js';

export type Wish =
  | Readonly<{ kind: 'create'; id: number; name: string; tag: string; key?: string }>
  | Readonly<{ kind: 'delete'; id: number; key?: string }>
  /** `atLeast` is the Plants-Position that the request carried. */
  | Readonly<{ kind: 'list'; limit: number; atLeast: Position }>;

/** As far as the client knows. */
export type Outcome =
  /** 201 or 204, with Plants-Position. */
  | Readonly<{ kind: 'acknowledged'; position: Position }>
  /** 409 or 404. */
  | Readonly<{ kind: 'refused'; because: 'present' | 'absent' }>
  /** 200, with Plants-Position; `more` where a Link led to a next page. */
  | Readonly<{ kind: 'listed'; position: Position; body: string; more: boolean }>
  /** The connection was cut, or 503 said that the outcome is unknown. */
  | Readonly<{ kind: 'unknown' }>
  /** The connection was refused, or 503 said that nothing was written; a list was not answered, or by a 503. */
  | Readonly<{ kind: 'nothing' }>
  /** Never to be answered. */
  | Readonly<{ kind: 'unexpected'; answer: string }>;

/** One request with its outcome; where the client tried again with its Idempotency-Key, all tries are one. */
export interface Operation {
  /** Its X-Correlation-Id, different for each operation: it stands in the metadata of what it wrote. */
  readonly id: string;
  readonly owner: string;
  readonly wish: Wish;
  /** One clock counts the starts and ends of all operations: what ended before another started came before it. */
  readonly started: number;
  readonly ended: number;
  /** The process that answered, from 1; the last one of an operation that was tried in several. */
  readonly life: number;
  readonly outcome: Outcome;
}

export type Rule =
  | 'every answer is one that the API has'
  | 'positions ascend'
  | 'an event is there once'
  | 'revisions are dense'
  | 'plants are created and deleted in turn'
  | 'every event has an operation'
  | 'an event is what was asked'
  | 'an acknowledged write is in the log at its position'
  | 'a write is in the log once'
  | 'what was not written is not in the log'
  | 'a later write stands later'
  | 'a refusal was true'
  | 'a list is the fold at its position'
  | 'a list knows nothing of the future'
  | 'reads see acknowledged writes'
  | 'reads are as fresh as asked'
  | 'reads never go back';

export interface Violation {
  readonly rule: Rule;
  readonly detail: string;
}

export interface Promised {
  /**
   * Lists go back in no process, whichever has answered before: without a switch between generations, after which others
   * may answer from the one before for a moment. Else a process never goes back itself.
   */
  readonly monotonicAcrossProcesses: boolean;
}

/** Everything that is wrong with a history, given the whole log after it. */
export const violationsOf = (
  operations: readonly Operation[],
  all: readonly RecordedEvent[],
  promised: Promised = { monotonicAcrossProcesses: true },
): Violation[] => {
  const violations: Violation[] = [];
  const report = (rule: Rule, detail: string): void => void violations.push({ rule, detail });
  const byId = new Map(operations.map((operation) => [operation.id, operation]));
  checkAnswers(operations, report);
  checkLog(all, report);
  // Records of operators and of the service, such as signed checkpoints, are not about plants.
  const log = all.filter(({ stream }) => !stream.startsWith(OPERATION_STREAMS));
  const written = explain(log, byId, report);
  checkWrites(operations, written, report);
  const time = timeOf(operations, written);
  checkRefusals(operations, log, time, report);
  checkLists(operations, log, time, report);
  checkOrderOfReads(operations, promised, report);
  return violations;
};

type Report = (rule: Rule, detail: string) => void;

const shown = ({ id, owner, wish, outcome, started, ended }: Operation): string =>
  `${id} ${JSON.stringify(wish)} of ${owner} → ${JSON.stringify(outcome)} (${started}–${ended})`;

const checkAnswers = (operations: readonly Operation[], report: Report): void => {
  for (const operation of operations)
    if (operation.outcome.kind === 'unexpected')
      report('every answer is one that the API has', shown(operation));
};

/** The log by itself: order, identity, revisions, and the rules of the domain. */
const checkLog = (log: readonly RecordedEvent[], report: Report): void => {
  const ids = new Set<string>();
  const lengths = new Map<string, number>();
  let last: Position = START;
  for (const { id, stream, revision, position, type } of log) {
    const at = `${type} ${stream}@${revision} at ${position}`;
    if (position <= last) report('positions ascend', `${at} after ${last}`);
    last = position;
    if (ids.has(id)) report('an event is there once', at);
    ids.add(id);
    const length = lengths.get(stream) ?? 0;
    if (revision !== BigInt(length)) report('revisions are dense', `${at} after ${length} events`);
    lengths.set(stream, length + 1);
    if (stream.startsWith(REQUEST_STREAMS) || stream.startsWith(OPERATION_STREAMS)) continue;
    const inTurn = length % 2 === 0 ? 'PlantCreated' : 'PlantDeleted';
    if (type !== inTurn) report('plants are created and deleted in turn', at);
  }
};

/** Finds each operation's place in its plant's events. Reports events that no one asked for. */
const explain = (
  log: readonly RecordedEvent[],
  byId: ReadonlyMap<string, Operation>,
  report: Report,
): ReadonlyMap<string, readonly Position[]> => {
  const written = new Map<string, Position[]>();
  for (const event of log) {
    const at = `${event.type} ${event.stream}@${event.revision} at ${event.position}`;
    const { correlationId, actor } = event.metadata as {
      correlationId?: string;
      actor?: { sub?: string };
    };
    const operation = byId.get(correlationId ?? '');
    if (!operation || operation.wish.kind === 'list') {
      report('every event has an operation', at);
      continue;
    }
    if (event.stream.startsWith(REQUEST_STREAMS)) {
      if (operation.wish.key === undefined) report('every event has an operation', at);
      continue;
    }
    const positions = written.get(operation.id);
    if (positions) positions.push(event.position);
    else written.set(operation.id, [event.position]);
    const { wish, owner } = operation;
    const asked =
      wish.kind === 'create'
        ? { type: 'PlantCreated', data: { id: wish.id, name: wish.name, tag: wish.tag } }
        : { type: 'PlantDeleted', data: { id: wish.id } };
    const same =
      event.stream === plantStream(owner, wish.id) &&
      event.type === asked.type &&
      JSON.stringify(event.data) === JSON.stringify(asked.data) &&
      actor?.sub === owner;
    if (!same)
      report('an event is what was asked', `${at} ${JSON.stringify(event.data)} by ${shown(operation)}`);
  }
  return written;
};

const checkWrites = (
  operations: readonly Operation[],
  written: ReadonlyMap<string, readonly Position[]>,
  report: Report,
): void => {
  for (const operation of operations) {
    const positions = written.get(operation.id) ?? [];
    const at = `${shown(operation)}, in the log at ${positions.join(' and ') || 'no position'}`;
    if (positions.length > 1) report('a write is in the log once', at);
    switch (operation.outcome.kind) {
      case 'acknowledged':
        if (!positions.includes(operation.outcome.position))
          report('an acknowledged write is in the log at its position', at);
        break;
      case 'refused':
      case 'nothing':
        if (positions.length > 0) report('what was not written is not in the log', at);
        break;
      case 'unknown':
      case 'listed':
      case 'unexpected':
        break;
    }
  }
};

interface Time {
  /** The greatest position that was acknowledged before a moment. */
  readonly knownBefore: (moment: number) => Position;
  /** The least position that was written by an operation which started after a moment. */
  readonly writtenAfter: (moment: number) => Position;
}

/** Greater than every position. */
const END = '~' as Position;

const timeOf = (
  operations: readonly Operation[],
  written: ReadonlyMap<string, readonly Position[]>,
): Time => {
  const ends: [moment: number, position: Position][] = [];
  const starts: [moment: number, position: Position][] = [];
  for (const { id, started, ended, outcome } of operations) {
    if (outcome.kind === 'acknowledged') ends.push([ended, outcome.position]);
    for (const position of written.get(id) ?? []) starts.push([started, position]);
  }
  ends.sort(([a], [b]) => a - b);
  starts.sort(([a], [b]) => b - a);
  // Each entry gets the greatest position of those before it, and the least of those after it.
  let greatest = START;
  for (const entry of ends) entry[1] = greatest = entry[1] > greatest ? entry[1] : greatest;
  let least = END;
  for (const entry of starts) entry[1] = least = entry[1] < least ? entry[1] : least;
  starts.reverse();
  return {
    knownBefore: (moment) => ends[countUntil(ends, moment) - 1]?.[1] ?? START,
    writtenAfter: (moment) => starts[countUntil(starts, moment)]?.[1] ?? END,
  };
};

/** Counts the entries, in order of their moments, that are not after a moment. */
const countUntil = (entries: readonly (readonly [number, Position])[], moment: number): number => {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((entries[middle]?.[0] ?? Infinity) <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
};

/**
 * A refused request saw a state of the log that held all that was acknowledged before it began, and nothing
 * that began after its answer: in one such state the refusal was true. Writes obey the clock, too.
 */
const checkRefusals = (
  operations: readonly Operation[],
  log: readonly RecordedEvent[],
  { knownBefore, writtenAfter }: Time,
  report: Report,
): void => {
  const streams = groupedBy(log, ({ stream }) => stream);
  for (const operation of operations) {
    const { owner, wish, outcome, started, ended } = operation;
    const from = knownBefore(started);
    const before = writtenAfter(ended);
    if (outcome.kind === 'acknowledged' && (outcome.position <= from || outcome.position >= before))
      report('a later write stands later', `${shown(operation)} must be between ${from} and ${before}`);
    if (outcome.kind !== 'refused' || wish.kind === 'list') continue;
    let state: 'present' | 'absent' = 'absent';
    let wasTrue = false;
    for (const { position, type } of streams.get(plantStream(owner, wish.id)) ?? []) {
      if (position >= before) break;
      if (position > from && state === outcome.because) wasTrue = true;
      state = type === 'PlantCreated' ? 'present' : 'absent';
    }
    if (!wasTrue && state !== outcome.because)
      report('a refusal was true', `${shown(operation)} was never so between ${from} and ${before}`);
  }
};

const groupedBy = <T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, readonly T[]> => {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
};

type List = Operation & {
  readonly wish: Extract<Wish, { kind: 'list' }>;
  readonly outcome: Extract<Outcome, { kind: 'listed' }>;
};

const isList = (operation: Operation): operation is List =>
  operation.wish.kind === 'list' && operation.outcome.kind === 'listed';

/** Each list against the plain fold of its owner's events up to its position, and against the clock. */
const checkLists = (
  operations: readonly Operation[],
  log: readonly RecordedEvent[],
  { writtenAfter }: Time,
  report: Report,
): void => {
  const owners = new Map<string, Map<number, string>>();
  let next = 0;
  const lists = operations.filter(isList).sort((a, b) => (a.outcome.position < b.outcome.position ? -1 : 1));
  for (const list of lists) {
    const { owner, wish, outcome, ended } = list;
    for (let event = log[next]; event && event.position <= outcome.position; event = log[++next])
      foldInto(owners, event);
    const rows = [...(owners.get(owner) ?? [])].sort(([a], [b]) => a - b).map(([, row]) => row);
    const body = `[${rows.slice(0, wish.limit).join(',')}]`;
    if (outcome.body !== body || outcome.more !== rows.length > wish.limit)
      report('a list is the fold at its position', `${shown(list)}, the fold is ${body}`);
    if (outcome.position >= writtenAfter(ended))
      report('a list knows nothing of the future', `${shown(list)} reaches ${writtenAfter(ended)}`);
    if (outcome.position < wish.atLeast) report('reads are as fresh as asked', shown(list));
  }
};

const foldInto = (owners: Map<string, Map<number, string>>, event: RecordedEvent): void => {
  const [, encoded = '', id] = /^plant-(.*)\/(-?\d+)$/.exec(event.stream) ?? [];
  if (id === undefined) return;
  const owner = decodeURIComponent(encoded);
  const plants = owners.get(owner) ?? new Map<number, string>();
  owners.set(owner, plants);
  if (event.type === 'PlantDeleted') plants.delete(Number(id));
  else {
    const { name, tag } = event.data as { name: string; tag: string };
    plants.set(Number(id), JSON.stringify({ name, tag }));
  }
};

/** Checks that a later list contains what any process has told the owner before. */
const checkOrderOfReads = (
  operations: readonly Operation[],
  { monotonicAcrossProcesses }: Promised,
  report: Report,
): void => {
  for (const ofOwner of groupedBy(operations, ({ owner }) => owner).values()) {
    const ended = [...ofOwner].sort((a, b) => a.ended - b.ended);
    let next = 0;
    let acknowledged = START;
    /** By process, or of all. */
    const listed = new Map<number, Position>();
    const readerOf = ({ life }: Operation): number => (monotonicAcrossProcesses ? 0 : life);
    const listedBy = (operation: Operation): Position => listed.get(readerOf(operation)) ?? START;
    for (const list of ofOwner.filter(isList).sort((a, b) => a.started - b.started)) {
      for (let earlier = ended[next]; earlier && earlier.ended < list.started; earlier = ended[++next]) {
        const { outcome } = earlier;
        if (outcome.kind === 'acknowledged' && outcome.position > acknowledged)
          acknowledged = outcome.position;
        if (outcome.kind === 'listed' && outcome.position > listedBy(earlier))
          listed.set(readerOf(earlier), outcome.position);
      }
      const { position } = list.outcome;
      if (position < acknowledged)
        report('reads see acknowledged writes', `${shown(list)} lacks ${acknowledged}`);
      if (position < listedBy(list)) report('reads never go back', `${shown(list)} after ${listedBy(list)}`);
    }
  }
};
