import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { BadStoreUrl } from './adapters/store-url.js';
import { CopyRefused, copyLog } from './audit/copy-log.js';
import { type Config, ConfigError, loadConfig, refusePlaintext, SETTINGS } from './config.js';
import { LocalKeyError } from './http/auth/local-key.js';
import { SCOPES } from './http/auth/principal.js';
import { createLogger } from './logging.js';
import { type Service } from './main.js';
import { type EventLog, LogUnavailable, OutcomeUnknown } from './ports/event-log.js';
import { ReadModelUnavailable } from './ports/read-model.js';
import { Progress } from './progress.js';
import { StartError } from './start-error.js';
import { type EventLogPlace, isSamePlace, parseEventLogUrl } from './store-places.js';
import { signToken, TokenRefused } from './token.js';

/** What scripts can rely on. */
const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** How long a shutdown may take, in milliseconds: longer than a request, shorter than what kills us (30 s usually). */
const SHUTDOWN_MS = 20_000;

const { version } = JSON.parse(
  readFileSync(createRequire(import.meta.url).resolve('#package.json'), 'utf8'),
) as {
  version: string;
};

/** The arguments of a command cannot be used. The message is one line for whoever typed them. */
class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Somebody asked a command to stop. The message is one line that says what is left to do. */
class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

const settingsHelp = (): string => {
  const width = Math.max(...SETTINGS.map(({ name }) => name.length));
  const lines = SETTINGS.map(
    (setting) =>
      `  ${setting.name.padEnd(width)}  ${setting.meaning}${setting.default === '' ? '' : ` (default: ${setting.default})`}`,
  );
  return `\nSettings (environment variables):\n${lines.join('\n')}`;
};

const EXITS = '\nExit status: 0 success, 1 failure, 2 wrong usage or settings.';

const serve = async ({ json }: { json?: true }): Promise<void> => {
  const config = loadConfig(process.env);
  const logger = createLogger(config.logLevel, process.stdout.isTTY && !json ? 'readable' : 'json');
  const stopSignal = new Promise<NodeJS.Signals>((resolve) => {
    let received = 0;
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.on(signal, () => {
        received += 1;
        if (received > 1) process.exit(EXIT.failed); // asked twice: somebody does not want to wait
        resolve(signal);
      });
  });
  const { start } = await import('./main.js'); // Nest takes most of a second to load, which only this command needs
  const service = await start(config, logger, version);
  logger.info({ url: service.url, version, node: process.version }, `listening on ${service.url}`);
  if (service.firstStart) process.stderr.write(welcome(service));

  const signal = await stopSignal;
  logger.info({ signal }, 'stopping');
  setTimeout(() => {
    logger.fatal('stopping took too long: what was acknowledged is in the log');
    process.exit(EXIT.failed);
  }, SHUTDOWN_MS).unref();
  await service.stop();
  logger.info('stopped');
};

const welcome = ({ url }: Service): string => `
The plant store listens on ${url}, and has made a key to sign tokens with.
Get a token, and add the first plant:

  TOKEN=$(${sameSettings()}npx plants token --owner alice)
  curl -i ${url}/plants -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
    -d '{"name": "Monstera deliciosa", "tag": "aroid", "id": 1}'

The API is described at ${url}/docs

`;

/** Makes a command that is pasted into another shell use the key of this one. */
const sameSettings = (): string =>
  (['DATA_DIR', 'AUTH_AUDIENCE'] as const)
    .filter((name) => process.env[name])
    .map((name) => `${name}='${(process.env[name] ?? '').replaceAll("'", "'\\''")}' `)
    .join('');

interface TokenOptions {
  readonly owner: string;
  readonly scope?: string;
  readonly expires: string;
  readonly client?: string;
  readonly json?: true;
}

const token = async ({ owner, scope, expires, client, json }: TokenOptions): Promise<void> => {
  const config: Config = loadConfig(process.env);
  const signed = await signToken(config, { owner, scope, expires, clientId: client }, new Date());
  if (signed.keyCreated) process.stderr.write(`made the signing key ${signed.keyFile}\n`);
  process.stdout.write(
    `${json ? JSON.stringify({ token: signed.token, expiresAt: signed.expiresAt.toISOString() }) : signed.token}\n`,
  );
};

interface CopyOptions {
  readonly from: string;
  readonly to: string;
  readonly json?: true;
}

const copy = async ({ from, to, json }: CopyOptions): Promise<void> => {
  const source = place('--from', from);
  const target = place('--to', to);
  if (isSamePlace(source, target)) throw new UsageError('--from and --to name the same log');
  if (source.kind === 'sqlite' && !existsSync(source.file))
    throw new UsageError(`--from: there is no file ${source.file}`);
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => {
      stopping.abort(new Interrupted('interrupted: run the same command again to go on'));
    });
  const { openEventLog } = await import('./stores.js'); // databases, which other commands do not need
  const progress = new Progress('events', process.stderr, json);
  const began = performance.now();
  const opened: EventLog[] = [];
  try {
    const open = async (one: EventLogPlace): Promise<EventLog> => {
      const log = await openEventLog(one);
      opened.push(log);
      return log;
    };
    const { events, appended } = await copyLog(
      await open(source),
      await open(target),
      ({ phase, events, total }) => {
        progress.show(phase, events, total);
      },
      stopping.signal,
    );
    progress.end();
    const seconds = Number(((performance.now() - began) / 1_000).toFixed(1));
    process.stdout.write(
      json
        ? `${JSON.stringify({ events, appended, seconds })}\n`
        : `copied ${appended} events in ${seconds} s; both logs hold the same ${events} events: compared one by one\n`,
    );
  } finally {
    progress.end();
    for (const log of opened) await log.close();
  }
};

/** The log that an option names. */
const place = (option: '--from' | '--to', value: string): EventLogPlace => {
  const [, variable] = /^env:(.+)$/.exec(value) ?? [];
  const url = variable === undefined ? value : process.env[variable];
  if (!url) throw new UsageError(`${option} env:${variable ?? ''}: that variable is not set`);
  try {
    const log = parseEventLogUrl(url);
    refusePlaintext(process.env, log, option);
    return log;
  } catch (error) {
    if (error instanceof BadStoreUrl) throw new UsageError(`${option}: ${error.message}`);
    throw error;
  }
};

const program = new Command('plants')
  .description('An event-sourced plant store.')
  .version(version)
  .showHelpAfterError('(plants --help tells more)')
  .addHelpText('after', EXITS)
  .exitOverride();

program
  .command('serve')
  .description('run the service')
  .option('--json', 'log JSON on a terminal too')
  .addHelpText('after', settingsHelp() + EXITS)
  .action(serve);

program
  .command('token')
  .description('make a token, signed with the local key of DATA_DIR')
  .requiredOption('--owner <name>', 'whose plants it is for')
  .option(
    '--scope <scopes>',
    `what it allows, separated by spaces: ${SCOPES.join(', ')}; without it, reading and writing plants`,
  )
  .option('--expires <duration>', 'how long it is good: 15m, 12h, 30d; at most 365d', '30d')
  .option('--client <id>', 'the client that it is for; appears as the actor in the history')
  .option('--json', 'print {token, expiresAt}')
  .addHelpText('after', `\nExample:\n  TOKEN=$(npx plants token --owner alice --expires 12h)\n${EXITS}`)
  .action(token);

program
  .command('copy')
  .description('copy an event log into another one, and compare them at the end')
  .requiredOption('--from <url>', 'the log to read: sqlite:FILE or esdb://HOST:2113')
  .requiredOption('--to <url>', 'the log to write: empty, or the beginning of such a copy')
  .option('--json', 'print {events, appended, seconds}, and no progress')
  .addHelpText(
    'after',
    `
Streams, revisions, event ids, order, data and metadata stay as they are; positions are the target's own. Stop what
writes to the source first. A copy that was interrupted goes on when it is run again.

env:NAME takes a URL from the environment: other users of a machine can see the arguments of a command, and with
them a password.

Example:
  TARGET='esdb://plants:PASSWORD@host:2113' npx plants copy --from sqlite:./data/events.db --to env:TARGET
${EXITS}`,
  )
  .action(copy);

// Whoever reads our output may stop early (plants … | head): that is no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(EXIT.ok);
});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = complain(error);
}

/** One line for what a person can mend, the whole error for what is our mistake. Gives the exit status. */
function complain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage; // it has spoken already
  if (error instanceof ConfigError || error instanceof TokenRefused || error instanceof UsageError) {
    process.stderr.write(`plants: ${error.message}\n`);
    return EXIT.usage;
  }
  const known = [
    StartError,
    LocalKeyError,
    LogUnavailable,
    OutcomeUnknown,
    ReadModelUnavailable,
    CopyRefused,
    Interrupted,
  ].some((type) => error instanceof type);
  process.stderr.write(
    `plants: ${known ? (error as Error).message : error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
  return EXIT.failed;
}
