import { join } from 'node:path';
import { type Beside, whyNotToBegin, whyNotToStart } from '../adapters/sqlite/start-check.js';
import { type EventLog, START } from '../ports/event-log.js';
import { type Config } from './config.js';
import { LogMissing } from './start-error.js';

/** What is derived from an event log in a file, and contains its identity. */
const madeFrom = ({ readModel, dataDir }: Config): Beside => ({
  lists: readModel.kind === 'sqlite' ? readModel.folder : undefined,
  tree: join(dataDir, 'tree.db'),
});

/** Throws LogMissing where a log without events is beside files that were derived from another one. */
export const assertLogIsTheirs = async (log: EventLog, config: Config): Promise<void> => {
  if (config.eventLog.kind !== 'sqlite' || (await log.head()) !== START) return;
  const reason = whyNotToBegin(config.eventLog.file, log.identity(), madeFrom(config));
  if (reason !== undefined) throw new LogMissing(reason);
};

/** Throws LogMissing where a start would create a log beside files that were derived from an older one. */
export const assertLogIsThere = (config: Config): void => {
  if (config.eventLog.kind !== 'sqlite') return;
  const reason = whyNotToStart(config.eventLog.file, madeFrom(config));
  if (reason !== undefined) throw new LogMissing(reason);
};
