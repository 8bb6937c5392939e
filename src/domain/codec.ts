import { EventRefused, type RefusalKind } from './errors.js';
import { type Erased, type ErasureOrdered } from './erasure.js';
import { type OperationEvent } from './operation.js';
import { type PlantEvent } from './plant.js';
import { type RequestAccepted } from './request.js';
import { parsePlantStream, PLANT_STREAMS } from './stream.js';
import {
  type EventData,
  type EventVersion,
  type EventVersions,
  type LoggedEvent,
  UPCASTERS,
  type Upcasters,
} from './upcasters.js';

/** An event as it is stored, not validated: `decode` does that. */
export interface StoredEvent {
  readonly stream: string;
  readonly revision: bigint;
  readonly type: string;
  readonly data: unknown;
  readonly metadata: unknown;
}

/** An event that was read, by what it is about. */
export type Fact =
  | { readonly kind: 'plant'; readonly owner: string; readonly event: PlantEvent }
  /** Of a request with an Idempotency-Key. */
  | { readonly kind: 'request'; readonly event: RequestAccepted }
  | { readonly kind: 'operation'; readonly event: OperationEvent }
  /** The owner that an erasure is about. */
  | { readonly kind: 'erasure'; readonly event: ErasureOrdered }
  /** The rest of an erased event. */
  | { readonly kind: 'erased'; readonly event: Erased };

/** A reason to refuse an event; `tryDecode` adds its stream and revision. */
class Reason extends Error {
  constructor(
    message: string,
    readonly kind: RefusalKind = 'invalid',
  ) {
    super(message);
  }
}

/** The version that new events of a type are written with. Throws where this release only reads them. */
export const versionOf = (type: LoggedEvent['type'], upcasters: Upcasters = UPCASTERS): number => {
  const { written }: EventVersions = upcasters[type];
  if (written === false) throw new Error(`this release reads events of the type ${type}, and writes none`);
  return written;
};

/** The data of a new event, in the version that its type is written with. */
export const encode = ({ type, data }: LoggedEvent, upcasters: Upcasters = UPCASTERS): EventData => {
  const { versions }: EventVersions = upcasters[type];
  return versions[versionOf(type, upcasters) - 1]?.downcast?.(data as never) ?? { ...data };
};

/** As `tryDecode`, but throws EventRefused. */
export const decode = (stored: StoredEvent, upcasters: Upcasters = UPCASTERS): Fact => {
  const fact = tryDecode(stored, upcasters);
  if (fact instanceof EventRefused) throw fact;
  return fact;
};

/**
 * Reads a stored event: checks it whole and brings it to the newest version's shape. Returns EventRefused for an
 * unknown type or version, for data that the rules of its type refuse, and for an event that stands in a stream where
 * it does not belong.
 */
export const tryDecode = (stored: StoredEvent, upcasters: Upcasters = UPCASTERS): Fact | EventRefused => {
  try {
    const { type } = stored;
    if (!isKnown(type)) throw new Reason(`unknown type ${quoted(type)}`, 'unknown_type');
    const { streams, versions }: EventVersions = upcasters[type];
    if (!stored.stream.startsWith(streams))
      throw new Reason(`a ${type} belongs in a stream that begins with ${streams}`);
    const stated = objectIn(stored.data);
    const number = versionIn(stored.metadata);
    const version = versions[number - 1];
    if (!version) throw new Reason(`unknown version ${number} of ${type}`, 'newer_version');
    const data = checked(stated, version.fields);
    const event = { type, data: version.upcast?.(data) ?? data } as LoggedEvent;
    if (event.type === 'RequestAccepted') return { kind: 'request', event };
    if (event.type === 'ErasureOrdered') return { kind: 'erasure', event };
    if (event.type === 'Erased') return { kind: 'erased', event };
    if (!isOfPlant(event)) return { kind: 'operation', event };
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

const isKnown = (type: string): type is LoggedEvent['type'] => Object.hasOwn(UPCASTERS, type);

const isOfPlant = (event: LoggedEvent): event is PlantEvent =>
  UPCASTERS[event.type].streams === PLANT_STREAMS;

const versionIn = (metadata: unknown): number => {
  const version = isObject(metadata) ? metadata.schemaVersion : undefined;
  if (typeof version !== 'number' || !Number.isInteger(version) || version < 1)
    throw new Reason('its metadata has no schemaVersion');
  return version;
};

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const objectIn = (data: unknown): Readonly<Record<string, unknown>> => {
  if (isObject(data)) return data;
  throw new Reason('its data is not a JSON object');
};

/** Returns the data, with the fields of a version and no others. */
const checked = (data: Readonly<Record<string, unknown>>, fields: EventVersion['fields']): EventData => {
  for (const name in data)
    if (!Object.hasOwn(fields, name)) throw new Reason(`unknown field ${quoted(name)}`);
  for (const name in fields) {
    const fault = fields[name]?.(data[name]);
    if (fault !== undefined) throw new Reason(`${name} ${fault}`);
  }
  return data as EventData;
};

/** An untrusted text, escaped and shortened for a message. */
const quoted = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
