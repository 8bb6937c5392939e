import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import tab from '@bomb.sh/tab/commander';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { BackupRefused } from '../adapters/sqlite/backup-refused.js';
import { BadStoreUrl } from '../adapters/store-url.js';
import { AuditKeyError, openAuditKey, originOf } from '../audit/audit-key.js';
import { CopyRefused, copyLog } from './copy-log.js';
import { UnknownPosition } from '../history/read.js';
import { type Instant, instantOf, parseInstant } from '../history/instant.js';
import { ExportRefused } from '../audit/make-bundle.js';
import { formatVerifierKey, NoteRefused, parseVerifierKey, type VerifierKey } from '../audit/signed-note.js';
import { type Config, ConfigError, loadConfig, refusePlaintext, SETTINGS } from '../service/config.js';
import { completeEnvironment } from '../service/environment.js';
import { LocalKeyError } from '../http/auth/local-key.js';
import { SCOPES } from '../http/auth/principal.js';
import { SHUTDOWN_MS } from '../http/shutdown.js';
import { limitHeapGrowth } from '../service/heap-growth.js';
import { createLogger } from '../service/logging/logger.js';
import { BASH_COMPLETION } from './bash-completion.js';
import { type CliContext } from './context.js';
import { CheckFailed, readWhole } from './check-files.js';
import { Interrupted } from './interrupted.js';
import { OPEN_FILES_NEEDED, openFilesLimit } from '../service/open-files.js';
import { ownCommand } from './own-command.js';
import { EventRefused } from '../plants/errors.js';
import { idFault } from '../plants/fields.js';
import { type EventLog, LogDamaged, LogUnavailable, OutcomeUnknown } from '../ports/event-log.js';
import {
  GenerationMissing,
  ReadModelAhead,
  ReadModelIncomplete,
  ReadModelTampered,
  ReadModelUnavailable,
} from '../ports/read-model.js';
import { TreeUnavailable } from '../ports/tree-store.js';
import { OperationRefused } from '../projector/rebuilds.js';
import { LogMissing, StartError } from '../service/start-error.js';
import {
  type EventLogLocation,
  howToSetAside,
  isSameLocation,
  parseEventLogUrl,
  type SqliteLocation,
} from '../adapters/store-locations.js';
import { signToken, TokenRefused } from './token.js';
import { onUnhandledError } from '../service/unhandled-error.js';

/** What scripts can rely on. Whoever is interrupted ends as a shell says it: 128 and the number of the signal. */
const EXIT = { ok: 0, failed: 1, usage: 2, SIGINT: 130, SIGTERM: 143 } as const;

/** Whether errors are printed as JSON. Commander's own errors come before any option is known. */
const JSON_ERRORS = process.argv.includes('--json');

/** The same, but for the drain, after an error that nothing has handled: what still works is not known. */
const SHUTDOWN_AFTER_ERROR_MS = 10_000;

const packageFile = createRequire(import.meta.url).resolve('#package.json');
const PACKAGE = dirname(packageFile);
const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as {
  version: string;
};

/** The arguments of a command cannot be used. The message is one line for whoever typed them. */
class UsageError extends Error {
  override readonly name = 'UsageError';
}

const settingsHelp = (): string => {
  const width = Math.max(...SETTINGS.map(({ name }) => name.length));
  const lines = SETTINGS.map(
    (setting) =>
      `  ${setting.name.padEnd(width)}  ${setting.meaning}${setting.default === '' ? '' : ` (default: ${setting.default})`}`,
  );
  return `\nSettings (environment variables, or lines of .env in the working directory):\n${lines.join('\n')}`;
};

const EXITS = '\nExit status: 0 success, 1 failure, 2 wrong usage or settings, 130 interrupted.';

let known: Config | undefined;

/** The settings, of the environment and of .env in the working directory, read once. Throws ConfigError. */
const settings = (): Config => (known ??= readSettings());

const readSettings = (): Config => {
  const fromFile = completeEnvironment(process.env, process.cwd());
  try {
    return loadConfig(process.env);
  } catch (error) {
    const [name = ''] = /^[A-Z_]+/.exec((error as Error).message) ?? [];
    throw fromFile.has(name) ? new ConfigError(`${(error as Error).message} (set in .env)`) : error;
  }
};

/** Where a failing start says why it fails, once `serve` logs JSON. */
let failedStart: ((message: string) => void) | undefined;

const serve = async ({ json }: { json?: true }): Promise<void> => {
  const readable = process.stdout.isTTY && !json;
  const source = { pid: process.pid, host: hostname(), version };
  // On standard error as ever; one stream of both, as a container has it, is JSON then.
  if (!readable)
    failedStart = (message) => {
      createLogger('fatal', process.stderr, source).fatal(message);
    };
  const config = servedConfig();
  const openFiles = openFilesLimit() ?? Infinity;
  if (openFiles < OPEN_FILES_NEEDED)
    throw new StartError(
      `this process may have ${openFiles} files open, and a service needs ${OPEN_FILES_NEEDED}: raise the limit (ulimit -n, LimitNOFILE= of systemd, or nofile of the container)`,
    );
  const role = [...config.roles].join(',');
  const destination = readable
    ? (await import('../service/logging/readable-lines.js')).readableLog()
    : undefined;
  const logger = createLogger(config.logLevel, destination, { ...source, role });
  let started = false;
  const stopReason = new Promise<{ signal: NodeJS.Signals } | { error: string }>((resolve) => {
    let received = 0;
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.on(signal, () => {
        received += 1;
        if (received > 1) process.exit(EXIT.failed); // asked twice: somebody does not want to wait
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
  const { start } = await import('../service/start.js'); // Nest takes most of a second to load, which only this command needs
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
  // Not left to Node: where a socket to a server still waits, Node 20 may turn for ever in its own clearing up.
  process.exit();
};

/** The settings, but that nobody who types Ctrl-C waits for a drain that no balancer needs. */
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
  const config: Config = settings();
  const signed = await signToken(config, { owner, scope, expires, clientId: client }, new Date());
  if (signed.keyCreated) process.stderr.write(`made the signing key ${signed.keyFile}\n`);
  process.stdout.write(
    `${json ? JSON.stringify({ token: signed.token, expiresAt: signed.expiresAt.toISOString() }) : signed.token}\n`,
  );
};

/** The signal that asked this process to stop. Ctrl-C typed at a question comes without one. */
let stoppedBy: 'SIGINT' | 'SIGTERM' = 'SIGINT';

/** Aborts, with an Interrupted of this message, when somebody asks this process to stop. */
const stopAsked = (message: string): AbortSignal => {
  const stopping = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => {
      stoppedBy = signal;
      stopping.abort(new Interrupted(message));
    });
  return stopping.signal;
};

interface CopyOptions {
  readonly from: string;
  readonly to: string;
  readonly json?: true;
}

const copy = async ({ from, to, json }: CopyOptions): Promise<void> => {
  const source = place('--from', from);
  const target = place('--to', to);
  if (isSameLocation(source, target)) throw new UsageError('--from and --to name the same log');
  if (source.kind === 'sqlite' && !existsSync(source.file))
    throw new UsageError(`--from: there is no file ${source.file}`);
  const stopping = stopAsked('interrupted: run the same command again to go on');
  // databases and bars, which other commands do not need
  const [{ openEventLog }, { Progress }] = await Promise.all([
    import('../adapters/stores.js'),
    import('./progress.js'),
  ]);
  const progress = new Progress('events', process.stderr, json);
  const began = performance.now();
  const opened: EventLog[] = [];
  try {
    const open = async (one: EventLogLocation): Promise<EventLog> => {
      const log = await openEventLog(one);
      opened.push(log);
      return log;
    };
    const from = await open(source);
    const to = await open(target);
    // One server has many names. A file's copy has the identity of the file, and may be continued.
    if (target.kind === 'eventstoredb' && from.identity() === to.identity())
      throw new UsageError('--from and --to name the same log');
    const { events, appended } = await copyLog(
      from,
      to,
      ({ phase, events, total }) => {
        progress.show(phase, events, total);
      },
      stopping,
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
const place = (option: '--from' | '--to', value: string): EventLogLocation => {
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

/** Runs a command on the event log of the settings, beside whatever else uses it, and closes it. */
const withLog = async (
  { json }: { json?: true },
  work: (context: Omit<CliContext, 'model'>) => Promise<boolean>,
): Promise<void> => {
  const { eventLog } = settings();
  if (eventLog.kind === 'sqlite' && !existsSync(eventLog.file)) throw noLog(eventLog.file);
  const stopping = stopAsked('interrupted');
  // Databases, which other commands do not need.
  const [{ openEventLog }, { eventsBetween }, { operatorHere }] = await Promise.all([
    import('../adapters/stores.js'),
    import('../adapters/sqlite/distance.js'),
    import('./operator.js'),
  ]);
  const log = await openEventLog(eventLog);
  try {
    const well = await work({
      log,
      eventsBetween: eventLog.kind === 'sqlite' ? eventsBetween : undefined,
      operator: operatorHere(),
      now: () => new Date(),
      signal: stopping,
      json: json ?? false,
    });
    process.exitCode = well ? EXIT.ok : EXIT.failed;
  } finally {
    await log.close();
  }
};

/** Runs an operator's command on both stores of the settings. A read model is only ever made by the service. */
const operate = (options: { json?: true }, work: (context: CliContext) => Promise<boolean>): Promise<void> =>
  withLog(options, async (context) => {
    const { readModel } = settings();
    if (readModel.kind === 'sqlite' && !existsSync(readModel.file))
      throw new StartError(
        `there is no read model ${readModel.file}: start the service, which builds it from the log, or give this command its settings (DATA_DIR, READ_MODEL)`,
      );
    const { openReadModel } = await import('../adapters/stores.js');
    const model = await openReadModel(readModel, context.log.identity(), (message) => {
      process.stderr.write(`plants: ${message}\n`);
    });
    try {
      return await work({ ...context, model });
    } finally {
      await model.close();
    }
  });

interface RebuildOptions {
  readonly rate?: number;
  readonly unskip?: true;
  readonly dryRun?: true;
  readonly cancel?: true;
  readonly wait: boolean;
  readonly json?: true;
}

const rebuild = (options: RebuildOptions): Promise<void> => {
  if (options.cancel && (options.dryRun ?? options.rate ?? options.unskip ?? !options.wait))
    throw new UsageError('--cancel goes with no other option but --json');
  if (options.dryRun && !options.wait)
    throw new UsageError('--dry-run and --no-wait exclude each other: a dry run asks for nothing');
  return operate(options, async (context) => {
    const commands = await import('./rebuild.js');
    if (options.cancel) return commands.cancel(context);
    const asked = { rate: options.rate, unskip: options.unskip ?? false, wait: options.wait };
    return options.dryRun ? commands.dryRun(context, asked) : commands.rebuild(context, asked);
  });
};

const rollback = (options: { readonly reason: string; readonly json?: true }): Promise<void> =>
  operate(options, async (context) => (await import('./rebuild.js')).rollback(context, options));

const verify = (options: { readonly json?: true }): Promise<void> =>
  operate(options, async (context) => {
    const [{ verify }, { recordVerify }] = await Promise.all([
      import('./verify.js'),
      import('../operations/last-runs.js'),
    ]);
    const { dataDir } = settings();
    return verify(context, (differing) =>
      recorded(() => recordVerify(dataDir, { at: new Date().toISOString(), differing })),
    );
  });

/** Leaves a record of what was done where the metrics look for it. What was done stands without it, too. */
const recorded = async (record: () => Promise<void>): Promise<void> => {
  try {
    await record();
  } catch (error) {
    const { code = 'failed' } = error as NodeJS.ErrnoException;
    process.stderr.write(
      `plants: DATA_DIR cannot be written (${code}), so the metrics do not show this run\n`,
    );
  }
};

interface SkipOptions {
  readonly position: string;
  readonly reason: string;
  readonly yes?: true;
  readonly force?: true;
  readonly json?: true;
}

const skip = (options: SkipOptions): Promise<void> =>
  operate(options, async (context) =>
    (await import('./skip.js')).skip(context, {
      ...options,
      yes: options.yes ?? false,
      force: options.force ?? false,
    }),
  );

const status = (options: { readonly watch?: true; readonly json?: true }): Promise<void> =>
  operate(options, async (context) => {
    const { status, watchStatus } = await import('./status.js');
    return options.watch ? watchStatus(context) : status(context);
  });

const backup = async ({ to, json }: { readonly to: string; readonly json?: true }): Promise<void> => {
  const { eventLog, dataDir } = settings();
  const { file } = inFile(eventLog);
  if (!existsSync(file)) throw noLog(file);
  const context = { json: json ?? false, signal: stopAsked('interrupted: no backup was made') };
  const [commands, { backUp }, { recordBackup }] = await Promise.all([
    import('./backup.js'),
    import('../adapters/sqlite/backup.js'),
    import('../operations/last-runs.js'),
  ]);
  const at = new Date().toISOString(); // what is written after this may be missing in it
  const { head, events } = await commands.backup(context, to, (watch) => backUp(file, to, watch));
  await recorded(() => recordBackup(dataDir, { at, head, events }));
};

const restore = async ({ from, json }: { readonly from: string; readonly json?: true }): Promise<void> => {
  const { eventLog, readModel, dataDir } = settings();
  const { file } = inFile(eventLog);
  if (!existsSync(from)) throw new UsageError(`--from: there is no file ${from}`);
  const context = { json: json ?? false, signal: stopAsked('interrupted: nothing was restored') };
  const [commands, adapter, { leavesIn }] = await Promise.all([
    import('./backup.js'),
    import('../adapters/sqlite/backup.js'),
    import('../adapters/sqlite/start-check.js'),
  ]);
  const tree = join(dataDir, 'tree.db');
  await commands.restore(context, file, (watch) => adapter.restore(from, file, watch), {
    readModel:
      readModel.kind === 'redis' || existsSync(readModel.file) ? howToSetAside(readModel) : undefined,
    tree: { file: tree, leaves: leavesIn(tree) },
  });
};

const auditKey = async ({ json }: { readonly json?: true }): Promise<void> => {
  const { eventLog, dataDir, auditOrigin } = settings();
  const { file, key, created } = await openAuditKey(dataDir, auditOrigin ?? (await originOfLog(eventLog)));
  if (created) process.stderr.write(`made the audit key ${file}\n`);
  const vkey = formatVerifierKey(key);
  process.stdout.write(`${json ? JSON.stringify({ origin: key.name, vkey }) : vkey}\n`);
};

/** What the log of the settings is called where AUDIT_ORIGIN does not name it. */
const originOfLog = async (place: EventLogLocation): Promise<string> => {
  if (place.kind === 'sqlite' && !existsSync(place.file)) throw noLog(place.file);
  const { openEventLog } = await import('../adapters/stores.js');
  const log = await openEventLog(place);
  try {
    return originOf(log.identity());
  } finally {
    await log.close();
  }
};

interface LiftOptions {
  readonly reason: string;
  readonly json?: true;
}

const liftAlarm = async ({ reason, json }: LiftOptions): Promise<void> => {
  const { eventLog, dataDir } = settings();
  const tree = join(dataDir, 'tree.db');
  if (eventLog.kind === 'sqlite' && !existsSync(eventLog.file)) throw noLog(eventLog.file);
  if (!existsSync(tree))
    throw new StartError(`there is no tree ${tree}: give this command the auditor's DATA_DIR`);
  const [{ openEventLog, openTreeStore }, { operatorHere }] = await Promise.all([
    import('../adapters/stores.js'),
    import('./operator.js'),
  ]);
  const log = await openEventLog(eventLog);
  try {
    const store = await openTreeStore(tree, log.identity());
    try {
      const lifted = await store.lift(operatorHere().actor.sub, reason);
      if (json) process.stdout.write(`${JSON.stringify({ lifted: lifted ?? null })}\n`);
      else
        process.stdout.write(
          lifted
            ? `lifted: ${lifted.message}\nan auditor now reads the whole log, and signs again if it is as it was\n`
            : 'no alarm stands\n',
        );
    } finally {
      await store.close();
    }
  } finally {
    await log.close();
  }
};

interface ExportOptions {
  readonly out: string;
  readonly from?: string;
  readonly owner?: string;
  readonly altered?: true;
  readonly json?: true;
}

const exportEvents = async ({ out, from, owner, altered, json }: ExportOptions): Promise<void> => {
  const { eventLog, dataDir } = settings();
  const file = join(dataDir, 'tree.db');
  if (eventLog.kind === 'sqlite' && !existsSync(eventLog.file)) throw noLog(eventLog.file);
  if (!existsSync(file))
    throw new StartError(
      `there is no tree ${file}: run a service with the role auditor first, and give this command its DATA_DIR`,
    );
  const signal = stopAsked('interrupted: nothing was exported');
  const [{ openEventLog, openTreeStore }, { published }, { exportBundle }] = await Promise.all([
    import('../adapters/stores.js'),
    import('../adapters/sqlite/backup.js'),
    import('./export.js'),
  ]);
  const log = await openEventLog(eventLog);
  try {
    const tree = await openTreeStore(file, log.identity());
    try {
      await exportBundle(
        { log, tree, signal, json: json ?? false, published },
        { file: out, from, owner, altered: altered ?? false },
      );
    } finally {
      await tree.close();
    }
  } finally {
    await log.close();
  }
};

interface CheckOptions {
  readonly key: readonly VerifierKey[];
  readonly against?: string;
  readonly previous?: string;
  readonly json?: true;
}

const checkFile = async (file: string, { key, against, previous, json }: CheckOptions): Promise<void> => {
  for (const needed of [file, against, previous])
    if (needed !== undefined && !existsSync(needed)) throw new UsageError(`there is no file ${needed}`);
  const { check } = await import('./check.js');
  const kept = against === undefined ? undefined : await readWhole(against);
  const well = await check({ json: json ?? false }, { file, keys: key, against: kept, previous });
  process.exitCode = well ? EXIT.ok : EXIT.failed;
};

/** One more verifier key, or those in a file that holds one in each line. */
const verifierKeysOf = (value: string, before: readonly VerifierKey[]): readonly VerifierKey[] => {
  try {
    const text = existsSync(value) ? readFileSync(value, 'utf8').trim() : value;
    return [...before, ...text.split(/\r?\n/).map(parseVerifierKey)];
  } catch (error) {
    throw new InvalidArgumentError(
      error instanceof NoteRefused ? error.message : 'It names a file that cannot be read.',
    );
  }
};

/** The embedded log of the settings. */
const inFile = (eventLog: EventLogLocation): SqliteLocation => {
  if (eventLog.kind === 'sqlite') return eventLog;
  throw new UsageError(
    'EVENT_LOG is not a file but EventStoreDB: back it up and restore it as docs/runbook.md, section 4, says',
  );
};

const noLog = (file: string): StartError =>
  new StartError(
    `there is no event log ${file}: give this command the settings (DATA_DIR, EVENT_LOG) of the service`,
  );

interface HistoryOptions {
  readonly owner?: string;
  readonly plant?: number;
  readonly type?: string;
  readonly actor?: string;
  readonly since?: Instant;
  readonly until?: Instant;
  readonly after?: string;
  readonly follow?: true;
  readonly asOf?: { readonly position: string } | { readonly instant: Instant };
  readonly json?: true;
}

const history = (options: HistoryOptions): Promise<void> => {
  const { owner, plant, type, actor, since, until, after, follow, asOf } = options;
  const filter = { owner, plant, type, actor, since, until };
  if (plant !== undefined && owner === undefined)
    throw new UsageError('--plant needs --owner: plants of different owners may have the same id');
  if (!asOf)
    return withLog(options, async (context) =>
      (await import('./history.js')).history(context, { ...filter, after, follow: follow ?? false }),
    );
  if (
    owner === undefined ||
    [plant, type, actor, since, until, after, follow].some((one) => one !== undefined)
  )
    throw new UsageError('--as-of needs --owner, and goes with no other option but --json');
  return withLog(options, async (context) => (await import('./history.js')).listAsOf(context, owner, asOf));
};

const plantId = (value: string): number => {
  const id = Number(value);
  if (!/^(0|-?[1-9]\d{0,15})$/.test(value) || idFault(id) !== undefined)
    throw new InvalidArgumentError('It must be an integer in its plain decimal form, such as 7 or -7.');
  return id;
};

const instant = (value: string): Instant => {
  const parsed = parseInstant(value);
  if (!parsed) throw new InvalidArgumentError('It must be an RFC 3339 instant such as 2026-01-31T12:00:00Z.');
  return parsed;
};

/** A position is all digits. */
const pointInTime = (value: string): NonNullable<HistoryOptions['asOf']> => {
  if (/^\d+$/.test(value)) return { position: value };
  const moment = instant(value);
  if (moment > instantOf(new Date())) throw new InvalidArgumentError('It must not be in the future.');
  return { instant: moment };
};

const positiveInteger = (value: string): number => {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new InvalidArgumentError('It must be a positive integer.');
  return Number(value);
};

const textThatSays = (value: string): string => {
  if (value.trim() === '') throw new InvalidArgumentError('It must not be empty.');
  return value;
};

const program = new Command('plants')
  .description('An event-sourced plant store.')
  .version(version)
  .showHelpAfterError('(plants --help tells more)')
  .configureOutput(JSON_ERRORS ? { writeErr: () => undefined } : {})
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

program
  .command('status')
  .description('show processes, lists, rebuilds and what is wrong')
  .option('--watch', 'show it each second, until Ctrl-C')
  .option('--json', 'print one object; with --watch, one in each line')
  .addHelpText(
    'after',
    `
Works without a running service too, once one has made the read model: the stores are those of the settings. Idle
parts of the lists move on once a second, so under traffic they may seem up to a second behind.

Example:
  npx plants status --json | jq '.problems'

Exit status: 0 if all is well, 1 if something is blocked or disconnected, nothing projects, or a list is not answered
(or on failure), 2 wrong usage or settings. Warnings do not count.`,
  )
  .action(status);

program
  .command('rebuild')
  .description('build the lists anew beside those that are answered, verify them, and switch over')
  .option('--rate <n>', 'at most so many events a second', positiveInteger)
  .option('--unskip', 'look again at events that were skipped')
  .option('--dry-run', 'only say how many events there are, and how long it would take')
  .option('--cancel', 'give up the rebuild that is under way')
  .option('--no-wait', 'ask for it, and do not watch it')
  .option('--json', 'print one object, and no progress')
  .addHelpText(
    'after',
    `
A projector does the work, and goes on with it after a restart: Ctrl-C ends only the watching. No request
fails by it.

Example:
  npx plants rebuild --rate 5000
${EXITS} Cancelled or refused is failure.`,
  )
  .action(rebuild);

program
  .command('rollback')
  .description('answer lists from what the last rebuild replaced')
  .option('--reason <text>', 'why, for the history', textThatSays, 'none given')
  .option('--json', 'print {rolledBack, generation}')
  .addHelpText(
    'after',
    `
The way back is open for 15 minutes after a rebuild, or until the next one is promoted; while one is under way it waits.
plants status shows it.

Example:
  npx plants rollback --reason 'lists are slower than before'
${EXITS}`,
  )
  .action(rollback);

program
  .command('verify')
  .description('compare the lists with the fold of the event log')
  .option(
    '--json',
    'print {generation, plants, owners, position, differing, parked, unreadable, differences}, and no progress',
  )
  .addHelpText(
    'after',
    `
It runs beside the service, under traffic. Nothing is mended: npx plants rebuild does that.

Example:
  npx plants verify --json | jq '.differences[]'

A list that is not answered, since an event of its owner cannot be read, is no difference: it is counted as parked. An
owner whose events this version cannot read, but is answered, is counted as unreadable: another version projects.

Exit status: 0 if nothing differs, 1 if something does or cannot be compared, or on failure, 2 wrong usage or settings.`,
  )
  .action(verify);

program
  .command('skip')
  .description('leave an event that cannot be read out of the lists')
  .requiredOption('--position <position>', 'where it stands: plants status shows it')
  .requiredOption('--reason <text>', 'why, for the history', textThatSays)
  .option('--yes', 'do not ask')
  .option('--force', 'also an event that a newer version of this service has written')
  .option('--json', 'print {skipped, position, stream, revision, reason}; needs --yes')
  .addHelpText(
    'after',
    `
The event is shown first. It stays in the log; a rebuild with --unskip looks at it again. The owner's list is brought
up to date from the log and answered again, unless a later event cannot be read either. One that a newer version has
written is refused: upgrade, and it is read. An event of an operation that cannot be read is passed over anyway; skipped,
it is not warned of any more.

Example:
  npx plants skip --position 00000000000000000042 --reason 'written by a test, ticket 123'
${EXITS} Not skipped is failure.`,
  )
  .action(skip);

program
  .command('backup')
  .description('copy the event log into one file, while the service writes to it')
  .requiredOption('--to <file>', 'the new file')
  .option('--json', 'print {file, events, head, bytes, seconds}, and no progress')
  .addHelpText(
    'after',
    `
The backup holds every write that was acknowledged before it began, and a checksum. It is compared with the log and
checked before it gets its name, and nothing is overwritten. Only the event log needs one: the lists are built anew.
For a log on EventStoreDB see docs/runbook.md, section 4.

Example:
  npx plants backup --to /backups/events-$(date +%F).db
${EXITS}`,
  )
  .action(backup);

program
  .command('restore')
  .description('make the event log anew from a backup')
  .requiredOption('--from <file>', 'what plants backup made')
  .option('--json', 'print {file, events, head, bytes, seconds}, and no progress')
  .addHelpText(
    'after',
    `
The backup is checked first. It becomes the log of the settings (DATA_DIR, EVENT_LOG), which must not be there: stop
the service, and move what is left of its log away.

Example:
  npx plants restore --from /backups/events-2026-11-21.db
${EXITS}`,
  )
  .action(restore);

program
  .command('history')
  .description("show what has happened, or an owner's list as it was")
  .option('--owner <name>', "events of this owner's plants and requests", textThatSays)
  .option('--plant <id>', 'events of this plant; needs --owner', plantId)
  .option('--type <type>', 'events of this type, such as PlantCreated', textThatSays)
  .option('--actor <subject>', 'events that this subject asked for', textThatSays)
  .option('--since <instant>', 'decided then or later: RFC 3339', instant)
  .option('--until <instant>', 'decided then or earlier: RFC 3339', instant)
  .option('--after <position>', 'events after this position')
  .option('--follow', 'go on with what is still to come, until Ctrl-C')
  .option(
    '--as-of <point>',
    "an owner's list as it was after a position, or at an RFC 3339 instant",
    pointInTime,
  )
  .option('--json', 'print JSON on a terminal too: a CloudEvent in each line, or a plant')
  .addHelpText(
    'after',
    `
Without a terminal it prints JSON. An event that cannot be read is shown as it is stored, and marked. An event that
does not say when it was decided passes --since and --until. --as-of an instant is the fold of all events that
--until the same instant shows; it reads the whole log.

Example:
  npx plants history --owner alice --since 2026-01-31T00:00:00Z
  npx plants history --owner alice --as-of 2026-01-31T12:00:00Z
${EXITS}`,
  )
  .action(history);

program
  .command('export')
  .description('write events into one file, with what proves that they are those that were signed')
  .requiredOption('--out <file>', 'the new file, compressed if it ends in .gz or .zst; - for standard output')
  .option(
    '--from <index>',
    'the first event: how many are before it, as an older checkpoint says, or a position',
    textThatSays,
  )
  .addOption(
    new Option('--owner <name>', "only events of this owner's plants and requests")
      .argParser(textThatSays)
      .conflicts('altered'),
  )
  .option(
    '--altered',
    'what the log holds now, although it is not what was signed: for plants check --previous',
  )
  .option('--json', 'print {file, origin, size, from, events, seconds, alarm}, and no progress')
  .addHelpText(
    'after',
    `
It holds the events up to the checkpoint that an auditor signed last, and runs beside the service. Nothing is
overwritten. plants check, and docs/check.py, check it without the store; docs/audit.md says what that proves.

Example:
  npx plants export --out events.ndjson.gz
${EXITS}`,
  )
  .action(exportEvents);

program
  .command('check')
  .description('prove what a file of plants export says, with no server, no network and no database')
  .argument('<file>', 'what plants export wrote')
  .option(
    '--key <vkey>',
    "the log's key, or a file with one in each line: plants audit-key prints it; several times for old and new keys",
    verifierKeysOf,
    [],
  )
  .option('--against <file>', 'a checkpoint kept from before: the events go on from it')
  .option(
    '--previous <file>',
    'an older file of plants export: no event of it differs, and what has changed since',
  )
  .option('--json', 'print one object, and no progress')
  .addHelpText(
    'after',
    `
It stops at the first line that does not fit, and names it. Each checkpoint has to be signed by one of the keys. Where
the log records that its key was changed, it says so, and whether the old key has signed the change. Without --key it says only that the file fits together:
anybody may have made it.

Example:
  npx plants check events.ndjson.gz --key plants.vkey --against checkpoint-of-last-month

Exit status: 0 if all of it holds, 1 if something does not or cannot be proven, 2 wrong usage.`,
  )
  .action(checkFile);

program
  .command('audit-key')
  .description('print the key that the checkpoints of this log are verified with')
  .option('--json', 'print {origin, vkey}')
  .addHelpText(
    'after',
    `
One line, as C2SP signed-note has it: name+id+key. Give it to auditors by a way that they trust. The private key is made
in DATA_DIR where there is none yet.

Example:
  npx plants audit-key > plants.vkey
${EXITS}`,
  )
  .action(auditKey);

program
  .command('audit-lift')
  .description('lift the alarm of an auditor, once it is known why it was raised')
  .requiredOption('--reason <text>', 'why, for the record', textThatSays)
  .option('--json', 'print {lifted}: the alarm, or null if none stood')
  .addHelpText(
    'after',
    `
The auditor then reads the whole log before it signs anything, and raises the alarm again if the log is still not what
was signed: restore it first. Use the auditor's DATA_DIR.

Example:
  npx plants audit-lift --reason 'log restored from the backup of last night, ticket 123'
${EXITS}`,
  )
  .action(liftAlarm);

const completions = tab(program, { completionCommandName: 'completion' });
program.commands
  .find((command) => command.name() === 'completion')
  ?.description('print what makes a shell complete commands and options')
  .action((shell: string) => {
    if (shell === 'bash') process.stdout.write(BASH_COMPLETION);
    else completions.setup('plants', 'plants', shell);
  })
  .addHelpText(
    'after',
    `
Examples:
  source <(npx plants completion bash)
  npx plants completion zsh > "\${fpath[1]}/_plants"
${EXITS}`,
  );

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

/** Prints an error on standard error: one line, or one JSON object under --json. */
function printError(message: string, exitStatus: number): number {
  if (failedStart) failedStart(message);
  else
    process.stderr.write(
      JSON_ERRORS ? `${JSON.stringify({ error: message, exitStatus })}\n` : `plants: ${message}\n`,
    );
  return exitStatus;
}

/** One line for what a person can mend, the whole error for what is our mistake. Gives the exit status. */
function complain(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.ok;
    // Commander has printed its own message, except under --json.
    return JSON_ERRORS ? printError(error.message.replace(/^error: /, ''), EXIT.usage) : EXIT.usage;
  }
  if (
    error instanceof ConfigError ||
    error instanceof LogMissing ||
    error instanceof TokenRefused ||
    error instanceof UsageError ||
    error instanceof UnknownPosition
  )
    return printError(error.message, EXIT.usage);
  if (error instanceof Interrupted) return printError(error.message, EXIT[stoppedBy]);
  const known = [
    StartError,
    AuditKeyError,
    TreeUnavailable,
    ExportRefused,
    CheckFailed,
    BackupRefused,
    LocalKeyError,
    LogDamaged,
    LogUnavailable,
    OutcomeUnknown,
    ReadModelUnavailable,
    CopyRefused,
    EventRefused,
    GenerationMissing,
    OperationRefused,
    ReadModelAhead,
    ReadModelIncomplete,
    ReadModelTampered,
  ].some((type) => error instanceof type);
  const text = known
    ? (error as Error).message
    : error instanceof Error
      ? (error.stack ?? error.message)
      : String(error);
  return printError(text, EXIT.failed);
}
