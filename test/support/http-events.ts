import { join } from 'node:path';
import { DatabaseSync } from '../../src/adapters/sqlite/database.js';
import { encodeOwner } from '../../src/plants/stream.js';
import { type EventMetadata, type Json } from '../../src/ports/event-log.js';
import { type TestService } from './service.js';

export interface StoredEvent {
  readonly type: string;
  readonly data: Json;
  readonly metadata: EventMetadata;
}

/** The events of an owner in the log of a service, read from its file: of plants, and of named requests. */
export const eventsOf = (service: TestService, owner: string): StoredEvent[] => {
  const database = new DatabaseSync(join(service.dataDir, 'events.db'), { readOnly: true });
  try {
    const rows = database
      .prepare('SELECT type, data, metadata FROM events WHERE instr(stream, ?) > 0 ORDER BY seq')
      .all(`-${encodeOwner(owner)}/`) as { type: string; data: string; metadata: string }[];
    return rows.map(({ type, data, metadata }) => ({
      type,
      data: JSON.parse(data) as Json,
      metadata: JSON.parse(metadata) as EventMetadata,
    }));
  } finally {
    database.close();
  }
};
