import { type SqliteEventLog, openSqliteEventLog } from '../../src/log/sqlite/event-log.js';
import { openSqliteLogReader } from '../../src/log/sqlite/log-reader.js';
import { decorate } from '../../src/log/decorate.js';
import { type EventLog, LogUnavailable } from '../../src/log/event-log.js';

/**
 * Clients of one embedded log: the first one owns it, and the others read on connections of their own and write through
 * the owner, as the auditor's thread does.
 */
export const sqliteClients = (file: string): (() => Promise<EventLog>) => {
  let owner: SqliteEventLog | undefined;
  return async () => {
    if (!owner) return (owner = await openSqliteEventLog(file));
    const writer = owner;
    const reader = await openSqliteLogReader(file, writer.shared);
    const appending = new Set<Promise<unknown>>();
    let isClosed = false;
    const assertOpen = (): void => {
      if (isClosed) throw new LogUnavailable('closed');
    };
    return decorate<EventLog>(reader, {
      append: async (...of) => {
        assertOpen();
        const appended = writer.append(...of);
        appending.add(appended);
        try {
          return await appended;
        } finally {
          appending.delete(appended);
        }
      },
      ready: async () => {
        assertOpen();
        await writer.ready();
      },
      erase: (erasing) => writer.erase(erasing),
      scrub: () => writer.scrub(),
      whyNotErase: () => writer.whyNotErase(),
      close: async () => {
        isClosed = true;
        await Promise.allSettled(appending);
        await reader.close();
      },
    });
  };
};
