import { isDeeperThan, MAX_DEPTH } from '../domain/json-depth.js';
import { tryDecode } from '../domain/codec.js';
import { EventRefused } from '../domain/errors.js';
import {
  OPERATION_STREAMS,
  ownerOfStream,
  parsePlantStream,
  PLANT_STREAMS,
  REQUEST_STREAMS,
} from '../domain/stream.js';
import { type RecordedEvent } from '../log/event-log.js';
import { type CloudEvent } from './cloud-event-schema.js';
import { parseInstant } from './instant.js';
import { yieldToLoop } from '../runtime/event-loop.js';

type Fields = Readonly<Record<string, unknown>>;

/** Any event of a log, also one that the codec refuses: auditors see everything. */
export const cloudEventOf = (event: RecordedEvent): CloudEvent => {
  const { stream, position } = event;
  if (isDeeperThan(event.data, MAX_DEPTH) || isDeeperThan(event.metadata, MAX_DEPTH)) {
    const refused = `its data or metadata is nested deeper than ${MAX_DEPTH} levels, and is not shown`;
    return { ...cloudEventOf({ ...event, data: null, metadata: {} }), refused };
  }
  const metadata = fieldsOf(event.metadata);
  const actor = fieldsOf(metadata.actor);
  const fact = tryDecode(event);
  const owner = ownerOfStream(stream);
  return {
    specversion: '1.0',
    id: event.id,
    source: 'urn:plants:log',
    type: cloudTypeOf(event),
    ...given('subject', subjectOf(stream)),
    ...given('time', decidedAtOf(event) && (metadata.decidedAt as string)),
    datacontenttype: 'application/json',
    data: event.data ?? null,
    ...given('owner', owner === '' ? undefined : owner), // CloudEvents refuses empty attributes
    position,
    stream,
    revision: Number(event.revision),
    ...given('actor', textIn(actor, 'sub')),
    ...given('clientid', textIn(actor, 'clientId')),
    ...given('correlationid', textIn(metadata, 'correlationId')),
    ...given('causationid', textIn(metadata, 'causationId')),
    ...given('traceparent', textIn(metadata, 'traceparent')),
    ...given('refused', fact instanceof EventRefused ? fact.reason : undefined),
    ...(isShown(event.metadata) ? {} : { metadata: JSON.stringify(event.metadata) }),
  };
};

/** The text of an event as CloudEvents JSON: one line. */
export const cloudEventText = (event: RecordedEvent): string => JSON.stringify(cloudEventOf(event));

/** Events whose texts are made at once: half a millisecond's work. */
const TEXTS_AT_ONCE = 50;

/**
 * A page of events in CloudEvents' batch format, a JSON array. Only texts are kept: 1,000 events as objects take three
 * times the memory, and outlive enough collections to end up among V8's old objects.
 */
export class EventPage {
  readonly #pieces: string[] = [];
  #size = 0;
  #last: RecordedEvent | undefined;

  /** `limit`: how many events the page holds at most. */
  constructor(private readonly limit: number) {}

  /** The last event of the page. */
  get last(): RecordedEvent | undefined {
    return this.#last;
  }

  /** Adds events, and resolves with whether all of them had a place. */
  async add(events: readonly RecordedEvent[]): Promise<boolean> {
    const shown = events.slice(0, this.limit - this.#size);
    for (let first = 0; first < shown.length; first += TEXTS_AT_ONCE) {
      if (first > 0) await yieldToLoop();
      const texts = shown.slice(first, first + TEXTS_AT_ONCE).map(cloudEventText);
      this.#pieces.push(texts.join(','));
    }
    this.#size += shown.length;
    this.#last = shown.at(-1) ?? this.#last;
    return shown.length === events.length;
  }

  /** The text of the whole page. */
  text(): string {
    return `[${this.#pieces.join(',')}]`;
  }
}

/** The type of an event as CloudEvents show it. */
export const cloudTypeOf = ({ type, metadata }: Pick<RecordedEvent, 'type' | 'metadata'>): string => {
  const { schemaVersion } = fieldsOf(metadata);
  return Number.isInteger(schemaVersion) ? `plants.${type}.v${String(schemaVersion)}` : `plants.${type}`;
};

/** When an event was decided; undefined where it does not say. */
export const decidedAtOf = ({ metadata }: Pick<RecordedEvent, 'metadata'>) => {
  const { decidedAt } = fieldsOf(metadata);
  return typeof decidedAt === 'string' ? parseInstant(decidedAt) : undefined;
};

/** The actor of an event; undefined where it does not say. */
export const actorOf = ({ metadata }: Pick<RecordedEvent, 'metadata'>): string | undefined =>
  textIn(fieldsOf(fieldsOf(metadata).actor), 'sub');

const given = (name: keyof CloudEvent, value: string | undefined) =>
  value === undefined ? {} : { [name]: value };

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};

const textIn = (fields: Fields, name: string): string | undefined => {
  const value = fields[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
};

const subjectOf = (stream: string): string | undefined => {
  if (stream.startsWith(PLANT_STREAMS)) {
    const plant = parsePlantStream(stream);
    return plant && `plants/${plant.id}`;
  }
  if (stream.startsWith(REQUEST_STREAMS)) return `requests/${stream.slice(stream.lastIndexOf('/') + 1)}`;
  if (stream.startsWith(OPERATION_STREAMS)) return `operations/${stream.slice(OPERATION_STREAMS.length)}`;
  return undefined;
};

/** The fields of metadata that attributes show, each with how it must be to be shown whole. */
const SHOWN: Readonly<Record<string, (value: unknown) => boolean>> = {
  schemaVersion: (value) => Number.isInteger(value),
  decidedAt: (value) => typeof value === 'string' && parseInstant(value) !== undefined,
  actor: (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(value).every(([name, text]) => ['sub', 'clientId'].includes(name) && isText(text)),
  correlationId: (value) => isText(value),
  causationId: (value) => isText(value),
  traceparent: (value) => isText(value),
};

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

/** Tells whether the attributes of an event show all of its metadata. */
const isShown = (metadata: unknown): boolean =>
  typeof metadata === 'object' &&
  metadata !== null &&
  !Array.isArray(metadata) &&
  Object.entries(metadata).every(([name, value]) => Object.hasOwn(SHOWN, name) && SHOWN[name]?.(value));
