import { hostname } from 'node:os';
import { type Command } from 'commander';
import { type Config } from '../../service/config.js';
import { SETTINGS } from '../../service/settings.js';
import { createLogger } from '../../service/logging/logger.js';
import { OPEN_FILES_NEEDED, openFilesLimit } from '../../service/open-files.js';
import { StartError } from '../../service/start-error.js';
import { serve } from '../../service/serve.js';
import { EXITS } from '../exit-status.js';
import { ownCommand } from '../own-command.js';
import { PACKAGE, version } from '../package.js';
import { printErrorsWith } from '../print-error.js';
import { settings } from '../settings.js';

const settingsHelp = (): string => {
  const width = Math.max(...SETTINGS.map(({ name }) => name.length));
  const lines = SETTINGS.map(
    (setting) =>
      `  ${setting.name.padEnd(width)}  ${setting.meaning}${setting.default === '' ? '' : ` (default: ${setting.default})`}`,
  );
  return `\nSettings (environment variables, or lines of .env in the working directory):\n${lines.join('\n')}`;
};

/** Defines `plants serve`. */
export const define = (command: Command): void => {
  command
    .option('--json', 'log JSON on a terminal too')
    .addHelpText('after', settingsHelp() + EXITS)
    .action(runService);
};

const runService = async ({ json }: { json?: true }): Promise<void> => {
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
  const destination = readable
    ? (await import('../../service/logging/readable-lines.js')).readableLog()
    : undefined;
  const logger = createLogger(config.logLevel, destination, { ...source, role: [...config.roles].join(',') });
  await serve(config, version, logger, ({ url, metricsUrl, firstStart }) => {
    logger.info({ url, metricsUrl, version, node: process.version }, `listening on ${url}`);
    if (firstStart) process.stderr.write(welcome(url, config));
  });
};

/** The settings; on a terminal without a drain, which only load balancers need. */
const servedConfig = (): Config => {
  const config = settings();
  const onTerminal = process.stdin.isTTY || process.stdout.isTTY;
  return onTerminal && !process.env.DRAIN_MS ? { ...config, drainMs: 0 } : config;
};

const welcome = (url: string, { docs, console: hasConsole, roles }: Config): string => `
The plant store listens on ${url}, and has made a key to sign tokens with.
Get a token, and add the first plant:

  TOKEN=$(${sameSettings()}${plants()} token --owner alice)
  curl -i ${url}/plants -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
    -d '{"name": "Monstera deliciosa", "tag": "aroid", "id": 1}'

${hasConsole && roles.has('api') ? `See it in the browser: ${sameSettings()}${plants()} console --owner alice --url ${url}\n` : ''}${docs ? `The API is described at ${url}/docs\n\n` : ''}`;

/** The words by which another shell runs this command. */
const plants = (): string => ownCommand(PACKAGE, process.cwd(), process.env.PATH ?? '');

/** The settings that make a command in another shell use the same key. */
const sameSettings = (): string =>
  (['DATA_DIR', 'AUTH_AUDIENCE'] as const)
    .filter((name) => process.env[name])
    .map((name) => `${name}='${(process.env[name] ?? '').replaceAll("'", "'\\''")}' `)
    .join('');
