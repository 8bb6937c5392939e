import { type Erased, type ErasureOrdered } from './erasure.js';
import { idFault, nameFault, tagFault } from './fields.js';
import { type OperationEvent } from './operation.js';
import { type PlantEvent } from './plant.js';
import { type RequestAccepted } from './request.js';
import {
  AUDIT_STREAM,
  ERASED_STREAMS,
  ERASURE_STREAMS,
  ERASURES_STREAM,
  PLANT_STREAMS,
  REBUILDS_STREAM,
  REQUEST_STREAMS,
  SKIPS_STREAM,
} from './stream.js';

/** Every event that the log of plants may hold. */
export type LoggedEvent = PlantEvent | RequestAccepted | OperationEvent | ErasureOrdered | Erased;

/** An event's data as JSON. */
export type EventData = Readonly<Record<string, string | number | boolean | null>>;

/** The first thing wrong with a field's value, or undefined. */
type FieldCheck = (value: unknown) => string | undefined;

/** One version of an event. Data with another field than these is refused. */
export interface EventVersion {
  readonly fields: Readonly<Record<string, FieldCheck>>;
  /** Makes the newest version's data of this one's. */
  readonly upcast?: (data: EventData) => object;
  /** The reverse, for an older version that is still the written one. */
  readonly downcast?: (data: never) => EventData;
}

/** The versions of an event type. */
export interface EventVersions {
  /** The names of its streams begin with this. */
  readonly streams: string;
  /** The version that new events are written with: at most the number of `versions`. False for a type that is only read. */
  readonly written: number | false;
  /** The versions that can be read, from 1 on. */
  readonly versions: readonly EventVersion[];
}

/** As EventVersions; the newest version has the fields that the type of the event declares. */
interface VersionsOf<Event extends LoggedEvent> extends EventVersions {
  readonly versions: readonly [
    ...older: EventVersion[],
    newest: { readonly fields: { readonly [Name in keyof Event['data']]: FieldCheck } },
  ];
}

export type Upcasters = {
  readonly [Type in LoggedEvent['type']]: VersionsOf<Extract<LoggedEvent, { readonly type: Type }>>;
};

const stringFault: FieldCheck = (value) =>
  typeof value === 'string' && value !== '' ? undefined : 'must be a string that is not empty';

const ownerFault: FieldCheck = (value) => (typeof value === 'string' ? undefined : 'must be a string');

const revisionFault: FieldCheck = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0
    ? undefined
    : 'must be an integer that is not negative';

const positiveFault: FieldCheck = (value) =>
  Number.isSafeInteger(value) && (value as number) > 0 ? undefined : 'must be a positive integer';

const positiveOrNullFault: FieldCheck = (value) => (value === null ? undefined : positiveFault(value));

const flagFault: FieldCheck = (value) => (typeof value === 'boolean' ? undefined : 'must be true or false');

const reasonFields = { rebuild: stringFault, reason: stringFault };

const hashFault: FieldCheck = (value) =>
  typeof value === 'string' && HASH.test(value) ? undefined : 'must be 32 bytes in base64';

/** 32 bytes in base64 (RFC 4648, section 4). */
const HASH = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/;

const checkpointFields = { key: stringFault, note: stringFault, treeSince: stringFault };

/**
 * The versions of each event: which ones can be read, and which one is written. A release that adds a type or a version
 * only reads it; the next release writes it, when no process is left that cannot read it.
 */
export const UPCASTERS: Upcasters = {
  PlantCreated: {
    streams: PLANT_STREAMS,
    written: 1,
    versions: [{ fields: { id: idFault, name: nameFault, tag: tagFault } }],
  },
  PlantDeleted: { streams: PLANT_STREAMS, written: 1, versions: [{ fields: { id: idFault } }] },
  RequestAccepted: {
    streams: REQUEST_STREAMS,
    written: 1,
    versions: [
      { fields: { fingerprint: stringFault, commandId: stringFault, firstRevision: revisionFault } },
    ],
  },
  RebuildRequested: {
    streams: REBUILDS_STREAM,
    written: 1,
    versions: [{ fields: { rebuild: stringFault, rate: positiveOrNullFault, unskip: flagFault } }],
  },
  RebuildStarted: {
    streams: REBUILDS_STREAM,
    written: 1,
    versions: [{ fields: { rebuild: stringFault, generation: positiveFault } }],
  },
  RebuildPromoted: {
    streams: REBUILDS_STREAM,
    written: 1,
    versions: [
      { fields: { rebuild: stringFault, generation: positiveFault, replaced: positiveOrNullFault } },
    ],
  },
  RebuildCancelled: { streams: REBUILDS_STREAM, written: 1, versions: [{ fields: reasonFields }] },
  RollbackRequested: { streams: REBUILDS_STREAM, written: 1, versions: [{ fields: reasonFields }] },
  RolledBack: {
    streams: REBUILDS_STREAM,
    written: 1,
    versions: [{ fields: { rebuild: stringFault, generation: positiveFault, replaced: positiveFault } }],
  },
  RebuildClosed: { streams: REBUILDS_STREAM, written: 1, versions: [{ fields: { rebuild: stringFault } }] },
  EventSkipped: {
    streams: SKIPS_STREAM,
    written: 1,
    versions: [{ fields: { stream: stringFault, revision: revisionFault, reason: stringFault } }],
  },
  SigningStarted: { streams: AUDIT_STREAM, written: 1, versions: [{ fields: checkpointFields }] },
  CheckpointRecorded: { streams: AUDIT_STREAM, written: 1, versions: [{ fields: checkpointFields }] },
  ErasureStarted: {
    streams: ERASURES_STREAM,
    written: 1,
    versions: [{ fields: { erasure: stringFault, ownerHash: hashFault, reason: stringFault } }],
  },
  OwnerErased: {
    streams: ERASURES_STREAM,
    written: 1,
    versions: [{ fields: { erasure: stringFault, events: positiveFault, digest: hashFault } }],
  },
  ErasureFinished: { streams: ERASURES_STREAM, written: 1, versions: [{ fields: { erasure: stringFault } }] },
  ErasureCancelled: {
    streams: ERASURES_STREAM,
    written: 1,
    versions: [{ fields: { erasure: stringFault, reason: stringFault } }],
  },
  ErasureOrdered: {
    streams: ERASURE_STREAMS,
    written: 1,
    versions: [{ fields: { owner: ownerFault, key: hashFault } }],
  },
  Erased: { streams: ERASED_STREAMS, written: 1, versions: [{ fields: { leafHash: hashFault } }] },
};
