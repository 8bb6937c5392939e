import { promisify } from 'node:util';
import { type Logger } from 'pino';
import { SHUTDOWN_MS } from '../http/shutdown.js';
import { type Config } from './config.js';
import { limitHeapGrowth } from './heap-growth.js';
import { type Service } from './start.js';
import { onUnhandledError } from './unhandled-error.js';

/** Limit for a stop after an unhandled error. */
const SHUTDOWN_AFTER_ERROR_MS = 10_000;

/** The exit status of a process that did not end as it was told to. */
const FAILED = 1;

type StopReason = { signal: NodeJS.Signals } | { error: string };

/** Runs the service in this process until it is told to stop, and ends the process. Throws what `start` throws. */
export const serve = async (
  config: Config,
  version: string,
  logger: Logger,
  onListening: (service: Service) => void,
): Promise<void> => {
  let service: Service | undefined = undefined;
  const fail = (): void => {
    void Promise.resolve(service?.endThreads()).finally(() => process.exit(FAILED));
  };
  const stopReason = new Promise<StopReason>((resolve) => {
    onSignals(resolve, fail);
    onUnhandledError((error) => {
      logger.fatal({ error }, 'this error was not expected: the process stops');
      process.exitCode = FAILED;
      if (service) resolve({ error: error.type });
      else process.exit();
    });
  });
  limitHeapGrowth();
  const { start } = await import('./start.js'); // Nest takes most of a second to load, which only this command needs
  service = await start(config, logger, version);
  onListening(service);

  const reason = await stopReason;
  logger.info(reason, 'stopping');
  setTimeout(
    () => {
      logger.fatal('stopping took too long: what was acknowledged is in the log');
      fail();
    },
    'error' in reason ? config.drainMs + SHUTDOWN_AFTER_ERROR_MS : SHUTDOWN_MS,
  );
  await service.stop();
  logger.info('stopped');
  await promisify(logger.flush.bind(logger))();
  // Explicitly: with a socket to a server still waiting, Node 20 may loop in its clean-up without an end.
  process.exit();
};

const onSignals = (stop: (reason: StopReason) => void, end: () => void): void => {
  let received = 0;
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      received += 1;
      if (received > 1) end(); // without waiting for requests
      else stop({ signal });
    });
};
