import { z } from 'zod';
import { type OperationEvent } from '../domain/operation.js';
import { EventRefused } from '../domain/errors.js';
import { eventKey } from '../domain/skips.js';
import { ERASURES_STREAM, REBUILDS_STREAM, SKIPS_STREAM } from '../domain/stream.js';
import { type EventLog, type Position, type RecordedEvent } from '../log/event-log.js';
import { readOperation } from '../commands/rebuilds.js';

const time = z.iso.datetime();

/** An operation, as GET /operations shows it. Members may be added: clients must ignore unknown ones. */
export const PastOperation = z
  .object({
    position: z.string().meta({ description: 'Of its first event in the log: names the operation.' }),
    operation: z.string().meta({
      description:
        'rebuild, cancel, rollback, skip, erasure; or unreadable, where this version cannot read the event.',
      examples: ['rebuild'],
    }),
    about: z.string().meta({
      description:
        'Of a rebuild, its cancelling and its rollback: the id of the rebuild. Of an erasure: its id. Of a skip, and of an event that cannot be read: stream@revision of that event.',
    }),
    at: time.nullable().meta({ description: 'When it was asked for; null where the log does not say.' }),
    by: z.string().meta({
      description:
        "Who asked for it: a token's subject, `cli:` and a name for a command, or a part of the service (`plants projector`). Empty where the log does not say.",
    }),
    client: z.string().nullable().meta({ description: 'The client that the token was issued to, if any.' }),
    reason: z.string().nullable().meta({ description: 'Why, where a reason was given.' }),
    outcome: z
      .enum(['in_progress', 'done', 'cancelled'])
      .nullable()
      .meta({ description: 'What came of it; null where it is not known.' }),
    outcomeAt: time.nullable().meta({ description: 'Since when.' }),
    detail: z.string().nullable().meta({ description: 'More about the outcome, in one line.' }),
  })
  .meta({ id: 'PastOperation', description: 'What an operator has asked for, and what came of it.' });

export type PastOperation = Readonly<z.infer<typeof PastOperation>>;

/** A page of operations. */
export interface OperationsPage {
  /** The newest first. */
  readonly operations: readonly PastOperation[];
  /** True if there are older ones. */
  readonly more: boolean;
}

/**
 * The newest operations that began before a position (of all, without it). The streams of operations are read as a whole:
 * each has a few events for each operation that a person has asked for. Throws what the log throws.
 */
export const readPastOperations = async (
  log: EventLog,
  before: Position | undefined,
  limit: number,
): Promise<OperationsPage> => {
  const streams = await Promise.all(
    [REBUILDS_STREAM, SKIPS_STREAM, ERASURES_STREAM].map((stream) => log.readStream(stream)),
  );
  const found = streams
    .flatMap(operationsIn)
    .filter(({ position }) => before === undefined || position < before)
    .sort((one, other) => (one.position < other.position ? 1 : -1));
  return { operations: found.slice(0, limit), more: found.length > limit };
};

/** The operations of one stream, the oldest first. */
const operationsIn = (recorded: readonly RecordedEvent[]): PastOperation[] => {
  const found: PastOperation[] = [];
  /** The index of the last operation with a name: an event may be skipped again after a rebuild with `unskip`. */
  const places = new Map<string, number>();
  for (const stored of recorded) {
    const event = readOperation(stored);
    const first = firstOf(stored);
    if (event instanceof EventRefused) {
      found.push({ ...first, operation: 'unreadable', about: eventKey(stored), detail: event.reason });
      continue;
    }
    const { ended, begun } = toldBy(event);
    const place = ended && places.get(nameOf(ended));
    const before = place === undefined ? undefined : found[place];
    // An outcome is final: closing a rebuild ends a rollback only where it had not been done.
    if (before?.outcome === 'in_progress') found[place ?? 0] = { ...before, ...ended, outcomeAt: first.at };
    if (!begun) continue;
    places.set(nameOf(begun), found.length);
    found.push({ ...first, outcome: 'in_progress', outcomeAt: first.at, ...begun });
  }
  return found;
};

/** The part of an operation that an event tells. */
type Told = Pick<PastOperation, 'operation' | 'about'> & Partial<PastOperation>;

const nameOf = ({ operation, about }: Told): string => `${operation} ${about}`;

/** The facts that an event tells by itself. */
const firstOf = ({ position, metadata }: RecordedEvent): Omit<PastOperation, 'operation' | 'about'> => {
  const { actor, decidedAt } = (metadata ?? {}) as Readonly<Record<string, unknown>>;
  const { sub, clientId } = (actor ?? {}) as Readonly<Record<string, unknown>>;
  const at = new Date(typeof decidedAt === 'string' ? decidedAt : Number.NaN);
  return {
    position,
    at: Number.isNaN(at.getTime()) ? null : at.toISOString(),
    by: typeof sub === 'string' ? sub : '',
    client: typeof clientId === 'string' ? clientId : null,
    ...{ reason: null, outcome: null, outcomeAt: null, detail: null },
  };
};

/** The operation that begins with an event, and what it says of one that began before and may be over. */
const toldBy = ({ type, data }: OperationEvent): { readonly begun?: Told; readonly ended?: Told } => {
  const of = (operation: string, about: string, told: Partial<PastOperation>): Told => ({
    operation,
    about,
    ...told,
  });
  switch (type) {
    case 'RebuildRequested':
      return { begun: of('rebuild', data.rebuild, {}) };
    case 'RebuildPromoted': {
      const detail = `lists are answered from generation ${data.generation}`;
      return { ended: of('rebuild', data.rebuild, { outcome: 'done', detail }) };
    }
    case 'RebuildCancelled':
      return {
        ended: of('rebuild', data.rebuild, { outcome: 'cancelled', detail: data.reason }),
        begun: of('cancel', data.rebuild, { outcome: 'done', reason: data.reason }),
      };
    case 'RollbackRequested':
      return { begun: of('rollback', data.rebuild, { reason: data.reason }) };
    case 'RolledBack': {
      const detail = `lists are answered from generation ${data.generation} again`;
      return { ended: of('rollback', data.rebuild, { outcome: 'done', detail }) };
    }
    case 'RebuildClosed': {
      const detail = 'the generation before was not kept any more';
      return { ended: of('rollback', data.rebuild, { outcome: 'cancelled', detail }) };
    }
    case 'EventSkipped':
      return { begun: of('skip', eventKey(data), { outcome: 'done', reason: data.reason }) };
    case 'ErasureStarted':
      return { begun: of('erasure', data.erasure, { reason: data.reason }) };
    case 'OwnerErased':
      return {
        ended: of('erasure', data.erasure, { detail: `events erased from the log: ${data.events}` }),
      };
    case 'ErasureFinished':
      return { ended: of('erasure', data.erasure, { outcome: 'done' }) };
    case 'ErasureCancelled':
      return { ended: of('erasure', data.erasure, { outcome: 'cancelled', detail: data.reason }) };
    default:
      return {};
  }
};
