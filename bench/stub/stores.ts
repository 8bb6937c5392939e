import { openEventLog as openRealLog } from '../../src/adapters/stores.js';
import { type EventLog } from '../../src/ports/event-log.js';
import { decorate } from '../../src/ports/decorate.js';
import { type EventLogLocation } from '../../src/adapters/store-locations.js';
import { MemoryLog } from './memory-log.js';

export { openReadModel, openSharedCounters, openTreeStore } from '../../src/adapters/stores.js';

/**
 * The embedded log with its content in memory: an append resolves at once. What is left out is the writer's thread, the
 * JSON text of events, the transaction and its fsync, and reading events back from the file. What stays is all else:
 * the request, the command, the projection, the read model's own transactions, and the wait until a list has the write.
 */
export const openEventLog = async (place: EventLogLocation): Promise<EventLog> => {
  const memory = new MemoryLog();
  return decorate(await openRealLog(place), {
    append: (stream, expected, events) => memory.append(stream, expected, events),
    readStream: (stream, after, limit) => memory.readStream(stream, after, limit),
    readLast: (stream) => memory.readLast(stream),
    readAll: (after) => memory.readAll(after),
    subscribe: (after, signal) => memory.subscribe(after, signal),
    head: () => memory.head(),
    distance: (after, upTo) => Number(upTo) - Number(after),
  });
};
