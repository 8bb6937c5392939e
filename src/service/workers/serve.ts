import { type Logger } from 'pino';
import { type Config } from '../config.js';
import { type LogSource } from '../logging/logger.js';
import { serveAlone } from '../serve.js';
import { onUnhandledError } from '../unhandled-error.js';
import { type Listening } from './messages.js';
import { Primary, WorkerNotStarted } from './primary.js';
import { WorkerLink } from './worker-link.js';

/** The exit status of a process that did not end as it was told to. */
const FAILED = 1;

/** The environment of a process, where undefined stands for a variable that workers must not inherit. */
type Environment = Readonly<Record<string, string | undefined>>;

interface Surroundings {
  readonly onListening: (listening: Listening) => void;
  /** Whether the process belongs to a terminal, whose end it must not outlive. */
  readonly onTerminal: boolean;
}

/**
 * Runs a service of several workers: in the primary process, which starts them, or in a worker. `environment` is that of
 * the process before the settings completed it.
 */
export const serveWithWorkers = async (
  config: Config,
  environment: Environment,
  version: string,
  loggerOf: (about: Pick<LogSource, 'role' | 'worker'>) => Logger,
  surroundings: Surroundings,
): Promise<void> => {
  const link = WorkerLink.ofThisProcess();
  if (link) await serveAsWorker(config, version, loggerOf, link);
  else
    await supervise(
      config,
      workerEnvironment(config, environment),
      version,
      loggerOf({ role: 'primary' }),
      surroundings,
    );
};

const serveAsWorker = async (
  config: Config,
  version: string,
  loggerOf: (about: Pick<LogSource, 'role' | 'worker'>) => Logger,
  link: WorkerLink,
): Promise<void> => {
  const { number, of } = link.identity;
  const logger = loggerOf({ role: [...link.roles(config.roles)].join(','), worker: number });
  await serveAlone(config, version, logger, {
    link,
    onListening: ({ url, metricsUrl, firstStart }) => {
      logger.info(`worker ${number} of ${of} listens`);
      link.listening({ url, metricsUrl, firstStart });
    },
  });
};

const supervise = async (
  config: Config,
  environment: Environment,
  version: string,
  logger: Logger,
  { onListening, onTerminal }: Surroundings,
): Promise<void> => {
  const primary = new Primary(config.workers, logger, environment);
  const stopSignal = new Promise<NodeJS.Signals>((resolve) => {
    let received = 0;
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.on(signal, () => {
        received += 1;
        if (received > 1) {
          primary.kill();
          process.exit(FAILED);
        }
        resolve(signal);
      });
  });
  onUnhandledError((error) => {
    logger.fatal({ error }, 'nothing handles this error of the primary process: the service ends');
    primary.kill();
    process.exit(FAILED);
  });
  let listening: Listening;
  try {
    listening = await primary.start();
  } catch (error) {
    if (!(error instanceof WorkerNotStarted)) throw error;
    process.exit(error.exitStatus); // the worker has said why
  }
  if (!onTerminal)
    process.on('SIGHUP', () => {
      primary.replaceAll();
    });
  const { url, metricsUrl } = listening;
  const { workers } = config;
  logger.info(
    { url, metricsUrl, workers, version, node: process.version },
    `listening on ${url} with ${workers} workers`,
  );
  onListening(listening);

  const signal = await stopSignal;
  logger.info({ signal }, 'stopping');
  const well = await primary.stop();
  if (well) logger.info('stopped');
  else logger.error('a worker did not stop as it should: what was acknowledged is in the log');
  await new Promise<void>((resolve) => {
    logger.flush(() => {
      resolve();
    });
  });
  process.exit(well ? 0 : FAILED);
};

/**
 * What workers get: the environment as it was given, so that each reads .env and secret files by itself, but for what all
 * of them must have in common.
 */
const workerEnvironment = (config: Config, given: Environment): Environment => ({
  ...Object.fromEntries(Object.keys(process.env).map((name) => [name, given[name]])),
  HOST: config.host,
  PORT: String(config.port),
  METRICS_LISTEN: process.env.METRICS_LISTEN ?? '',
  WORKERS: String(config.workers),
});
