import { setTimeout as delay } from 'node:timers/promises';
import { isThere } from '../runtime/new-file.js';
import { LocalOperations } from '../operations/local.js';
import { type Operations } from '../operations/operations.js';
import { ANSWERS_WITHIN_MS, SILENT } from '../operations/status.js';
import { type EventLog, LogUnavailable } from '../log/event-log.js';
import { type ReadModelStore } from '../lists/read-model-store.js';
import { ReadModelUnavailable } from '../lists/read-model.js';
import { type TreeStore } from '../audit/tree-store.js';
import { type Config } from '../service/config.js';
import { asOwner } from '../service/service-file.js';
import { StartError } from '../service/start-error.js';
import { Interrupted } from './interrupted.js';
import { operatorHere } from './operator.js';
import { assertLogExists, withTreeOf } from './with-stores.js';

type Run = (operations: Operations) => Promise<void>;

/** The stores that a command uses where it carries out its operation itself. */
export interface StoresNeeded {
  /** To `write`, this process has to become the owner of an embedded log. */
  readonly log?: 'read' | 'write';
  /** `if there`: as `partial`, for them alone. */
  readonly lists?: true | 'if there';
  readonly tree?: true;
  /** All of them, which a thread opens for itself. */
  readonly apart?: true;
  /** Goes on without a store that is away, and asks it again with each question. */
  readonly partial?: true;
}

const warn = (message: string): void => {
  process.stderr.write(`plants: ${message}\n`);
};

/**
 * Carries out operations on the stores of the settings, beside whatever else reads them, and closes them. A read model is
 * only ever made by the service. Throws StartError where an embedded store is not there, and what opening one throws.
 */
export const withStoresHere = async (config: Config, needed: StoresNeeded, run: Run): Promise<void> => {
  const { eventLog, readModel, dataDir } = config;
  assertLogExists(eventLog);
  const { log: access, lists, partial } = needed;
  if ((lists === true || needed.apart) && readModel.kind === 'sqlite' && !isThere(readModel.folder))
    throw new StartError(
      `there is no read model ${readModel.folder}: start the service, which builds it from the log, or give this command its settings (DATA_DIR, READ_MODEL)`,
    );
  // Imported here: other commands need no databases.
  const [{ loadClients, openEventLog, openReadModel }, { operationsApart }] = await Promise.all([
    import('../service/stores.js'),
    import('../service/apart.js'),
  ]);
  const log =
    access &&
    new OpenedWhenAsked<EventLog>(
      () =>
        asOwner({ dataDir, eventLog }, 'give this command a token for it (--token-file)', () =>
          openEventLog(eventLog, { access }),
        ),
      new LogUnavailable(SILENT),
    );
  const model =
    lists &&
    new OpenedWhenAsked<ReadModelStore>(async () => {
      if (log && !log.store)
        throw new ReadModelUnavailable('the lists are not read: which ones they are stands in the event log');
      return openReadModel(readModel, log?.store?.identity() ?? '', warn, 'read');
    }, new ReadModelUnavailable(SILENT));
  if (partial) await loadClients(eventLog, readModel); // on a busy machine a second is over before they are loaded
  // One after the other: without the log, nothing is known of the lists, and no second is spent on them.
  await (partial ? log?.openedInTime() : log?.opened());
  const isBorneWith = partial ?? lists === 'if there';
  await (isBorneWith ? model?.openedInTime() : model?.opened());
  const system = {
    log: log?.asked() ?? NONE.asked(),
    model: model?.asked() ?? NONE.asked(),
    dataDir,
    ...operationsApart(config),
    now: () => new Date(),
    onUnrecorded: (error: unknown) => {
      const { code = 'failed' } = error as NodeJS.ErrnoException;
      warn(`DATA_DIR cannot be written (${code}), so the metrics do not show this run`);
    },
  };
  try {
    const work = (tree: TreeStore | undefined): Promise<void> =>
      run(new LocalOperations({ ...system, tree }, operatorHere()));
    await (needed.tree ? withTreeOf(system.log, dataDir, work) : work(undefined));
  } finally {
    await model?.close();
    await log?.close();
  }
  // A store that is still being opened would keep the process for ten seconds.
  if (isBorneWith) process.exit();
};

/** A store that each question opens where it is not open yet. */
class OpenedWhenAsked<Store extends { close(): Promise<void> }> {
  #opening: Promise<Store> | undefined;
  /** Undefined where it is not open. */
  store: Store | undefined;

  constructor(
    private readonly open: () => Promise<Store>,
    /** Why the last try to open it failed; at first, that it goes on. */
    private failure: Error,
  ) {}

  async opened(): Promise<Store> {
    if (this.store) return this.store;
    this.#opening ??= this.open().finally(() => {
      this.#opening = undefined;
    });
    try {
      return (this.store = await this.#opening);
    } catch (error) {
      this.failure = error as Error;
      throw error;
    }
  }

  /** Waits for ANSWERS_WITHIN_MS at most; never rejects. */
  async openedInTime(): Promise<void> {
    const late = delay(ANSWERS_WITHIN_MS, undefined, { ref: false });
    await Promise.race([this.opened().catch(() => undefined), late]);
  }

  /** The store; while it is not open, each of its methods fails at once, and opens it for the next one. */
  asked(): Store {
    const away = (): Promise<never> => {
      this.opened().catch(() => undefined);
      return Promise.reject(this.failure);
    };
    const get = (_: unknown, name: string | symbol): unknown => {
      if (!this.store) return name === 'health' ? () => ({ state: 'ok' }) : away;
      const member: unknown = Reflect.get(this.store, name);
      return typeof member === 'function' ? member.bind(this.store) : member;
    };
    return new Proxy<Store>({} as Store, { get });
  }

  async close(): Promise<void> {
    await this.store?.close();
  }
}

const NOT_OPENED = new Error('this command opens no such store');
const NONE = new OpenedWhenAsked<EventLog & ReadModelStore>(() => Promise.reject(NOT_OPENED), NOT_OPENED);

/**
 * Starts a service on the embedded stores of the settings in this process, for as long as the operation takes: nobody
 * else is there to carry it out. It listens on a port of its own.
 */
export const withOwnService = async (
  config: Config,
  json: boolean,
  run: (url: string) => Promise<void>,
): Promise<void> => {
  assertLogExists(config.eventLog);
  if (!json) warn(`no service runs on ${config.dataDir}: this command carries it out itself`);
  const [{ start }, { createLogger }, { version }] = await Promise.all([
    import('../service/start.js'),
    import('../service/logging/logger.js'),
    import('./package.js'),
  ]);
  const service = await start(
    {
      ...config,
      ...{ host: '127.0.0.1', port: 0, metrics: 'off', docs: false, console: false, corsOrigins: [] },
      ...{ drainMs: 0, tracing: undefined, rateLimit: 'off' },
    },
    createLogger('silent', undefined, { pid: process.pid, host: 'cli', version }),
    version,
  );
  try {
    await run(service.url);
  } catch (error) {
    throw error instanceof Interrupted
      ? new Interrupted('interrupted: it goes on once a service runs on this folder', error.signal)
      : error;
  } finally {
    await service.stop();
  }
};
