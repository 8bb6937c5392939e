import { encodeOwner } from '../../src/domain/stream.js';
import { type EventMetadata, type Json } from '../../src/log/event-log.js';
import { type TestService } from './service.js';

export interface StoredEvent {
  readonly type: string;
  readonly data: Json;
  readonly metadata: EventMetadata;
}

/** The events of an owner in the log of a service: of plants, and of named requests. */
export const eventsOf = async (service: TestService, owner: string): Promise<StoredEvent[]> =>
  (await service.events())
    .filter(({ stream }) => stream.includes(`-${encodeOwner(owner)}/`))
    .map(({ type, data, metadata }) => ({
      type,
      data: data as Json,
      metadata: metadata as EventMetadata,
    }));
