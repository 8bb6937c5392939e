import { EventRefused, type RefusalKind } from './errors.js';
import { type PlantEvent } from './events.js';
import { idFault, nameFault, tagFault } from './fields.js';
import { type OperationEvent, type RecordedCheckpoint } from './operation.js';
import { type RequestAccepted } from './request.js';
import {
  AUDIT_STREAM,
  PLANT_STREAMS,
  REBUILDS_STREAM,
  REQUEST_STREAMS,
  SKIPS_STREAM,
  parsePlantStream,
} from './stream.js';

/** An event as a log gives it back: nothing in it is trusted before `decode` has looked. */
export interface StoredEvent {
  readonly stream: string;
  readonly revision: bigint;
  readonly type: string;
  readonly data: unknown;
  readonly metadata: unknown;
}

/** A plant's event with whose plant it is. */
export interface PlantFact {
  readonly kind: 'plant';
  readonly owner: string;
  readonly event: PlantEvent;
}

/** An event of a request that was named by an Idempotency-Key. */
export interface RequestFact {
  readonly kind: 'request';
  readonly event: RequestAccepted;
}

/** An event of what an operator asked for. */
export interface OperationFact {
  readonly kind: 'operation';
  readonly event: OperationEvent;
}

export type Fact = PlantFact | RequestFact | OperationFact;

type Fields = Readonly<Record<string, unknown>>;

/** A reason to refuse, on its way to `decode`, which knows the stream and the revision. */
class Reason extends Error {
  constructor(
    message: string,
    readonly kind: RefusalKind = 'invalid',
  ) {
    super(message);
  }
}

/**
 * How each version of each event is read, oldest first. An event of an older version is upcast by its own
 * reader, which gives the shape of today: a new version adds a reader and changes the older ones to match.
 */
const READERS: Readonly<
  Record<
    Fact['event']['type'],
    { readonly streams: string; readonly versions: readonly ((data: Fields) => Fact['event'])[] }
  >
> = {
  PlantCreated: {
    streams: PLANT_STREAMS,
    versions: [
      (data) => {
        only(data, ['id', 'name', 'tag']);
        return {
          type: 'PlantCreated',
          data: {
            id: integer(data, 'id', idFault),
            name: text(data, 'name', nameFault),
            tag: text(data, 'tag', tagFault),
          },
        };
      },
    ],
  },
  PlantDeleted: {
    streams: PLANT_STREAMS,
    versions: [
      (data) => {
        only(data, ['id']);
        return { type: 'PlantDeleted', data: { id: integer(data, 'id', idFault) } };
      },
    ],
  },
  RequestAccepted: {
    streams: REQUEST_STREAMS,
    versions: [
      (data) => {
        only(data, ['fingerprint', 'commandId', 'firstRevision']);
        return {
          type: 'RequestAccepted',
          data: {
            fingerprint: text(data, 'fingerprint', stringFault),
            commandId: text(data, 'commandId', stringFault),
            firstRevision: integer(data, 'firstRevision', revisionFault),
          },
        };
      },
    ],
  },
  RebuildRequested: {
    streams: REBUILDS_STREAM,
    versions: [
      (data) => {
        only(data, ['rebuild', 'rate', 'unskip']);
        return {
          type: 'RebuildRequested',
          data: {
            rebuild: text(data, 'rebuild', stringFault),
            rate: data.rate === null ? null : integer(data, 'rate', positiveFault),
            unskip: flag(data, 'unskip'),
          },
        };
      },
    ],
  },
  RebuildStarted: {
    streams: REBUILDS_STREAM,
    versions: [
      (data) => {
        only(data, ['rebuild', 'generation']);
        return {
          type: 'RebuildStarted',
          data: {
            rebuild: text(data, 'rebuild', stringFault),
            generation: integer(data, 'generation', positiveFault),
          },
        };
      },
    ],
  },
  RebuildPromoted: {
    streams: REBUILDS_STREAM,
    versions: [
      (data) => {
        only(data, ['rebuild', 'generation', 'replaced']);
        return {
          type: 'RebuildPromoted',
          data: {
            rebuild: text(data, 'rebuild', stringFault),
            generation: integer(data, 'generation', positiveFault),
            replaced: data.replaced === null ? null : integer(data, 'replaced', positiveFault),
          },
        };
      },
    ],
  },
  RebuildCancelled: {
    streams: REBUILDS_STREAM,
    versions: [
      (data) => {
        only(data, ['rebuild', 'reason']);
        return {
          type: 'RebuildCancelled',
          data: { rebuild: text(data, 'rebuild', stringFault), reason: text(data, 'reason', stringFault) },
        };
      },
    ],
  },
  RollbackRequested: {
    streams: REBUILDS_STREAM,
    versions: [
      (data) => {
        only(data, ['rebuild', 'reason']);
        return {
          type: 'RollbackRequested',
          data: { rebuild: text(data, 'rebuild', stringFault), reason: text(data, 'reason', stringFault) },
        };
      },
    ],
  },
  RolledBack: {
    streams: REBUILDS_STREAM,
    versions: [
      (data) => {
        only(data, ['rebuild', 'generation', 'replaced']);
        return {
          type: 'RolledBack',
          data: {
            rebuild: text(data, 'rebuild', stringFault),
            generation: integer(data, 'generation', positiveFault),
            replaced: integer(data, 'replaced', positiveFault),
          },
        };
      },
    ],
  },
  RebuildClosed: {
    streams: REBUILDS_STREAM,
    versions: [
      (data) => {
        only(data, ['rebuild']);
        return { type: 'RebuildClosed', data: { rebuild: text(data, 'rebuild', stringFault) } };
      },
    ],
  },
  EventSkipped: {
    streams: SKIPS_STREAM,
    versions: [
      (data) => {
        only(data, ['stream', 'revision', 'reason']);
        return {
          type: 'EventSkipped',
          data: {
            stream: text(data, 'stream', stringFault),
            revision: integer(data, 'revision', revisionFault),
            reason: text(data, 'reason', stringFault),
          },
        };
      },
    ],
  },
  SigningStarted: {
    streams: AUDIT_STREAM,
    versions: [(data) => ({ type: 'SigningStarted', data: recordedCheckpoint(data) })],
  },
  CheckpointRecorded: {
    streams: AUDIT_STREAM,
    versions: [(data) => ({ type: 'CheckpointRecorded', data: recordedCheckpoint(data) })],
  },
};

const recordedCheckpoint = (data: Fields): RecordedCheckpoint => {
  only(data, ['key', 'note', 'treeSince']);
  return {
    key: text(data, 'key', stringFault),
    note: text(data, 'note', stringFault),
    treeSince: text(data, 'treeSince', stringFault),
  };
};

/** The version that every event of a type is written with today. */
export const versionOf = (type: Fact['event']['type']): number => READERS[type].versions.length;

/** As `tryDecode`, but throws EventRefused. */
export const decode = (stored: StoredEvent): Fact => {
  const fact = tryDecode(stored);
  if (fact instanceof EventRefused) throw fact;
  return fact;
};

/**
 * Reads a stored event: checks it whole and brings it to today's shape. Returns EventRefused for an unknown type or
 * version, for data that the rules of its type refuse, and for an event that stands in a stream where it does not
 * belong.
 */
export const tryDecode = (stored: StoredEvent): Fact | EventRefused => {
  try {
    if (!isKnown(stored.type)) throw new Reason(`unknown type ${quoted(stored.type)}`, 'unknown_type');
    const reader = READERS[stored.type];
    if (!stored.stream.startsWith(reader.streams))
      throw new Reason(`a ${stored.type} belongs into a stream that begins with ${reader.streams}`);
    const version = versionIn(stored.metadata);
    const read = reader.versions[version - 1];
    if (!read) throw new Reason(`unknown version ${version} of ${stored.type}`, 'newer_version');
    if (!isObject(stored.data)) throw new Reason('its data is not a JSON object');
    const event = read(stored.data);
    if (event.type === 'RequestAccepted') return { kind: 'request', event };
    if (event.type !== 'PlantCreated' && event.type !== 'PlantDeleted') return { kind: 'operation', event };
    const plant = parsePlantStream(stored.stream);
    if (!plant) throw new Reason('the name of its stream is not one of a plant');
    if (plant.id !== event.data.id) throw new Reason(`its id ${event.data.id} is not the one of its stream`);
    return { kind: 'plant', owner: plant.owner, event };
  } catch (error) {
    if (error instanceof Reason)
      return new EventRefused(stored.stream, stored.revision, error.message, error.kind);
    throw error;
  }
};

const isKnown = (type: string): type is Fact['event']['type'] => Object.hasOwn(READERS, type);

const versionIn = (metadata: unknown): number => {
  const version = isObject(metadata) ? metadata.schemaVersion : undefined;
  if (typeof version !== 'number' || !Number.isInteger(version) || version < 1)
    throw new Reason('its metadata has no schemaVersion');
  return version;
};

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const stringFault = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? undefined : 'must be a string that is not empty';

const revisionFault = (value: unknown): string | undefined =>
  Number.isSafeInteger(value) && (value as number) >= 0
    ? undefined
    : 'must be an integer that is not negative';

const positiveFault = (value: unknown): string | undefined =>
  Number.isSafeInteger(value) && (value as number) > 0 ? undefined : 'must be a positive integer';

const flag = (data: Fields, name: string): boolean => {
  const value = data[name];
  if (typeof value !== 'boolean') throw new Reason(`${name} must be true or false`);
  return value;
};

const only = (data: Fields, names: readonly string[]): void => {
  const unknown = Object.keys(data).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Reason(`unknown field ${quoted(unknown)}`);
};

const integer = (data: Fields, name: string, fault: (value: unknown) => string | undefined): number => {
  const reason = fault(data[name]);
  if (reason !== undefined) throw new Reason(`${name} ${reason}`);
  return data[name] as number; // what a fault of integers lets through is one
};

const text = (data: Fields, name: string, fault: (value: unknown) => string | undefined): string => {
  const reason = fault(data[name]);
  if (reason !== undefined) throw new Reason(`${name} ${reason}`);
  return data[name] as string; // what a fault of texts lets through is one
};

/** What came from outside, made safe and short enough for a message. */
const quoted = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
