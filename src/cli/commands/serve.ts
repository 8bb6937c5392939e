import { hostname } from 'node:os';
import { type Command } from 'commander';
import { SHUTDOWN_MS } from '../../http/shutdown.js';
import { type Config } from '../../service/config.js';
import { SETTINGS } from '../../service/settings.js';
import { limitHeapGrowth } from '../../service/heap-growth.js';
import { createLogger } from '../../service/logging/logger.js';
import { OPEN_FILES_NEEDED, openFilesLimit } from '../../service/open-files.js';
import { StartError } from '../../service/start-error.js';
import { onUnhandledError } from '../../service/unhandled-error.js';
import { EXIT, EXITS } from '../exit-status.js';
import { ownCommand } from '../own-command.js';
import { PACKAGE, version } from '../package.js';
import { printErrorsWith } from '../print-error.js';
import { settings } from '../settings.js';

/** How long a stop may take after an unhandled error, in milliseconds. */
const SHUTDOWN_AFTER_ERROR_MS = 10_000;

const settingsHelp = (): string => {
  const width = Math.max(...SETTINGS.map(({ name }) => name.length));
  const lines = SETTINGS.map(
    (setting) =>
      `  ${setting.name.padEnd(width)}  ${setting.meaning}${setting.default === '' ? '' : ` (default: ${setting.default})`}`,
  );
  return `\nSettings (environment variables, or lines of .env in the working directory):\n${lines.join('\n')}`;
};

/** Adds `plants serve`. */
export const addServe = (program: Command): void => {
  program
    .command('serve')
    .description('run the service')
    .option('--json', 'log JSON on a terminal too')
    .addHelpText('after', settingsHelp() + EXITS)
    .action(serve);
};

const serve = async ({ json }: { json?: true }): Promise<void> => {
  const readable = process.stdout.isTTY && !json;
  const source = { pid: process.pid, host: hostname(), version };
  // JSON on standard error too: containers merge both streams.
  if (!readable)
    printErrorsWith((message) => {
      createLogger('fatal', process.stderr, source).fatal(message);
    });
  const config = servedConfig();
  const openFiles = openFilesLimit() ?? Infinity;
  if (openFiles < OPEN_FILES_NEEDED)
    throw new StartError(
      `this process may have ${openFiles} files open, and a service needs ${OPEN_FILES_NEEDED}: raise the limit (ulimit -n, LimitNOFILE= of systemd, or nofile of the container)`,
    );
  const role = [...config.roles].join(',');
  const destination = readable
    ? (await import('../../service/logging/readable-lines.js')).readableLog()
    : undefined;
  const logger = createLogger(config.logLevel, destination, { ...source, role });
  let started = false;
  const stopReason = new Promise<{ signal: NodeJS.Signals } | { error: string }>((resolve) => {
    let received = 0;
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.on(signal, () => {
        received += 1;
        if (received > 1) process.exit(EXIT.failed); // a second signal ends it at once
        resolve({ signal });
      });
    onUnhandledError((error) => {
      logger.fatal({ error }, 'nothing handles this error of the service: the process stops');
      process.exitCode = EXIT.failed;
      if (started) resolve({ error: error.type });
      else process.exit();
    });
  });
  limitHeapGrowth();
  const { start } = await import('../../service/start.js'); // Nest takes most of a second to load, which only this command needs
  const service = await start(config, logger, version);
  started = true;
  const { url, metricsUrl } = service;
  logger.info({ url, metricsUrl, version, node: process.version }, `listening on ${url}`);
  if (service.firstStart) process.stderr.write(welcome(url, config.docs));

  const reason = await stopReason;
  logger.info(reason, 'stopping');
  setTimeout(
    () => {
      logger.fatal('stopping took too long: what was acknowledged is in the log');
      process.exit(EXIT.failed);
    },
    'signal' in reason ? SHUTDOWN_MS : config.drainMs + SHUTDOWN_AFTER_ERROR_MS,
  );
  await service.stop();
  logger.info('stopped');
  await new Promise<void>((resolve) => {
    logger.flush(() => {
      resolve();
    });
  });
  // Explicitly: with a socket to a server still waiting, Node 20 may loop in its clean-up without an end.
  process.exit();
};

/** The settings; on a terminal without a drain, which only load balancers need. */
const servedConfig = (): Config => {
  const config = settings();
  const onTerminal = process.stdin.isTTY || process.stdout.isTTY;
  return onTerminal && !process.env.DRAIN_MS ? { ...config, drainMs: 0 } : config;
};

const welcome = (url: string, docs: boolean): string => `
The plant store listens on ${url}, and has made a key to sign tokens with.
Get a token, and add the first plant:

  TOKEN=$(${sameSettings()}${ownCommand(PACKAGE, process.cwd(), process.env.PATH ?? '')} token --owner alice)
  curl -i ${url}/plants -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
    -d '{"name": "Monstera deliciosa", "tag": "aroid", "id": 1}'

${docs ? `The API is described at ${url}/docs\n\n` : ''}`;

/** The settings that make a command in another shell use the same key. */
const sameSettings = (): string =>
  (['DATA_DIR', 'AUTH_AUDIENCE'] as const)
    .filter((name) => process.env[name])
    .map((name) => `${name}='${(process.env[name] ?? '').replaceAll("'", "'\\''")}' `)
    .join('');
