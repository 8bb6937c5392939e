import { type Logger } from 'pino';
import { SHUTDOWN_MS } from '../http/shutdown.js';
import { type Config } from './config.js';
import { limitHeapGrowth } from './heap-growth.js';
import { type Service } from './start.js';
import { onUnhandledError } from './unhandled-error.js';
import { type WorkerLink, type WorkerStop } from './workers/worker-link.js';

/** How long a stop may take after an unhandled error, in milliseconds. */
const SHUTDOWN_AFTER_ERROR_MS = 10_000;

/** The exit status of a process that did not end as it was told to. */
const FAILED = 1;

type StopReason = { signal: NodeJS.Signals } | { error: string } | { how: WorkerStop };

/** Where a service listens, and what only a worker does. */
export interface Serving {
  readonly onListening: (service: Service) => void;
  /** The channel to the primary process, in a worker. */
  readonly link?: WorkerLink;
}

/** Runs the service in this process until it is told to stop, and ends the process. Throws what `start` throws. */
export const serveAlone = async (
  config: Config,
  version: string,
  logger: Logger,
  { onListening, link }: Serving,
): Promise<void> => {
  let started = false;
  const stopReason = new Promise<StopReason>((resolve) => {
    if (link) onWorkerStop(link, resolve);
    else onSignals(resolve);
    onUnhandledError((error) => {
      logger.fatal({ error }, 'nothing handles this error of the service: the process stops');
      process.exitCode = FAILED;
      if (started) resolve({ error: error.type });
      else process.exit();
    });
  });
  limitHeapGrowth();
  const { start } = await import('./start.js'); // Nest takes most of a second to load, which only this command needs
  const service = await start(config, logger, version, link);
  started = true;
  onListening(service);

  const reason = await stopReason;
  logger.info(reason, 'stopping');
  setTimeout(
    () => {
      logger.fatal('stopping took too long: what was acknowledged is in the log');
      process.exit(FAILED);
    },
    'error' in reason ? config.drainMs + SHUTDOWN_AFTER_ERROR_MS : SHUTDOWN_MS,
  );
  await service.stop('how' in reason && reason.how === 'replaced' ? 'replaced' : 'stop');
  await link?.finish();
  logger.info('stopped');
  await new Promise<void>((resolve) => {
    logger.flush(() => {
      resolve();
    });
  });
  // Explicitly: with a socket to a server still waiting, Node 20 may loop in its clean-up without an end.
  process.exit();
};

const onSignals = (stop: (reason: StopReason) => void): void => {
  let received = 0;
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      received += 1;
      if (received > 1) process.exit(FAILED); // a second signal ends it at once
      stop({ signal });
    });
};

/** A terminal sends SIGINT to the workers, too: the primary process decides what it means. */
const onWorkerStop = (link: WorkerLink, stop: (reason: StopReason) => void): void => {
  process.on('SIGINT', () => undefined);
  process.on('SIGHUP', () => undefined);
  process.on('SIGTERM', () => {
    stop({ signal: 'SIGTERM' });
  });
  void link.stopped.then((how) => {
    stop({ how });
  });
};
