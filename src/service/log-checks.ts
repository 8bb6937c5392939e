import { join } from 'node:path';
import { type Beside, whyNotToBegin, whyNotToStart } from '../adapters/sqlite/start-check.js';
import { howToSetAside } from '../adapters/store-locations.js';
import { type EventLog, START } from '../ports/event-log.js';
import { ReadModelAhead } from '../ports/read-model.js';
import { type ReadModelStore } from '../ports/read-model-store.js';
import { Freshness } from '../read/freshness.js';
import { type Config } from './config.js';
import { LogMissing, StartError } from './start-error.js';

/** Throws StartError where the read model contains events that the log does not. */
export const freshnessOf = async (
  log: EventLog,
  model: ReadModelStore,
  config: Config,
): Promise<Freshness> => {
  try {
    return await Freshness.from(log, model, config.writeWaitMs);
  } catch (error) {
    if (!(error instanceof ReadModelAhead)) throw error;
    throw new StartError(
      `${error.message}: was a file of the log lost, or the log restored from a backup? Keep every file, the read model may be the only copy: look for the missing events ${whereToLook(config)}. To go on without them, ${howToSetAside(config.readModel)}, and it is built anew from the log`,
    );
  }
};

const whereToLook = ({ eventLog }: Config): string =>
  eventLog.kind === 'sqlite'
    ? `in ${eventLog.file}-wal if that was moved, in a file ${eventLog.file}.rescued-… and in newer backups`
    : 'in newer backups of the server';

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
