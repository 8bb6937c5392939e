import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Command } from 'commander';
import { isThere } from '../runtime/new-file.js';
import { type KeepBackup } from '../log/backup.js';
import { type Operations, ServiceUnreachable } from '../operations/operations.js';
import { runningService } from '../service/service-file.js';
import { exitBy, UsageError } from './exit-status.js';
import { stopSignal } from './interrupted.js';
import { operatorHere } from './operator.js';
import { type StoresNeeded } from './operations-here.js';
import { settings } from './settings.js';

/** Options of a command that asks a service for operations. */
export interface OperateOptions {
  readonly url?: string;
  readonly tokenFile?: string;
  readonly json?: true;
}

/** The tools of an operator's command. */
export interface Operating {
  readonly operations: Operations;
  readonly now: () => Date;
  /** Aborts, with an Interrupted, at SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Print one JSON object, and no progress. */
  readonly json: boolean;
}

/** The needs of a command. */
interface Needs {
  /** The scope of the token that is signed here; plants:operate unless set. */
  readonly scope?: 'plants:operate' | 'plants:erase';
  /** The stores that it uses where it carries out the operation itself. */
  readonly stores: StoresNeeded;
  /** True if something has to carry out what is asked for: a service in this process, where none runs on the folder. */
  readonly isCarriedOut?: boolean;
  /** The state after Ctrl-C, in one line. */
  readonly interrupted?: string;
}

/** The time that the service of this folder may take to say that it is there, in milliseconds. */
const ANSWERS_WITHIN_MS = 2_000;

/** Tells whether a command is for a service that its options name. */
export const isElsewhere = ({ url }: OperateOptions): boolean =>
  (url ?? process.env.PLANTS_URL) !== undefined;

/** Adds the options that say which service a command is for, and its work, as `withOperations` runs it. */
export const operable = <Options extends OperateOptions>(
  command: Command,
  needsOf: (options: Options) => Needs,
  work: (operating: Operating, options: Options) => Promise<boolean>,
): void => {
  command
    .option('--url <url>', 'a running service; without it, that of DATA_DIR, or its stores (PLANTS_URL)')
    .option('--token-file <file>', 'holds the token for it (PLANTS_TOKEN); without it, one is made here')
    .action((options: Options) =>
      withOperations(options, needsOf(options), (operating) => work(operating, options)),
    );
};

/**
 * Runs a command on the operations of a system: over HTTP where `--url` names a service or one runs on the embedded
 * folder of the settings, else in this process. The exit status is 1 where `work` is not well.
 */
const withOperations = async (
  options: OperateOptions,
  { scope = 'plants:operate', stores, isCarriedOut = false, interrupted = 'interrupted' }: Needs,
  work: (operating: Operating) => Promise<boolean>,
): Promise<void> => {
  const signal = stopSignal(interrupted);
  const json = options.json ?? false;
  const run = async (operations: Operations): Promise<void> => {
    exitBy(await work({ operations, now: () => new Date(), signal, json }));
  };
  const url = options.url ?? process.env.PLANTS_URL;
  const token = givenToken(options);
  if (url !== undefined) return run(await remote(checkedUrl(url), token, scope));
  const config = settings();
  const isAsked = config.eventLog.kind === 'sqlite' && (token !== undefined || config.auth.kind === 'local');
  const found = isAsked ? await serviceOf(config.dataDir, config.eventLog.file) : undefined;
  if (found !== undefined) return run(await remote(found, token, scope));
  const { withOwnService, withStoresHere } = await import('./operations-here.js');
  return isAsked && isCarriedOut
    ? withOwnService(config, json, async (own) => run(await remote(own, token, scope)))
    : withStoresHere(config, stores, run);
};

/** The address of a service, as it was given. Throws UsageError. */
export const checkedUrl = (url: string): string => {
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url;
  throw new UsageError(
    `--url must be the address of the service, such as http://127.0.0.1:3000, not ${JSON.stringify(url)}`,
  );
};

const givenToken = ({ tokenFile }: OperateOptions): string | undefined => {
  if (tokenFile === undefined) return process.env.PLANTS_TOKEN;
  if (!isThere(tokenFile)) throw new UsageError(`--token-file: there is no file ${tokenFile}`);
  return readFileSync(tokenFile, 'utf8').trim();
};

/** The operations of a service, with the given token, or with one of a minute that the local key signs. */
const remote = async (url: string, token: string | undefined, scope: string): Promise<Operations> => {
  const [{ RemoteOperations }, { signToken }] = await Promise.all([
    import('../operations/remote.js'),
    import('./token.js'),
  ]);
  const sign = async (): Promise<string> => {
    if (token !== undefined) return token;
    const { dataDir } = settings();
    // A token that was signed here crosses no network readable.
    if (isPlaintext(new URL(url)) || !isThere(join(dataDir, 'signing-key.json')))
      throw new UsageError(
        `there is no token for ${url}: give one (--token-file, PLANTS_TOKEN), or the DATA_DIR with its key`,
      );
    const owner = operatorHere().actor.sub;
    return (await signToken(settings(), { owner, scope, expires: '1m' }, new Date())).token;
  };
  const keep: KeepBackup = async (...backup) => {
    const { keepBackup } = await import('../log/sqlite/backup.js'); // other commands need no database
    return keepBackup(...backup);
  };
  return new RemoteOperations(url, sign, keep);
};

const isPlaintext = ({ protocol, hostname }: URL): boolean =>
  protocol === 'http:' && !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname);

/**
 * The address of the service of a folder; undefined where none runs. Throws ServiceUnreachable where one does not answer.
 * A file may be left of a process whose number another one has now: nobody listens there then.
 */
const serviceOf = async (dataDir: string, logFile: string): Promise<string | undefined> => {
  const found = runningService(dataDir, logFile);
  if (!found) return undefined;
  try {
    await fetch(`${found.url}/health/live`, { signal: AbortSignal.timeout(ANSWERS_WITHIN_MS) });
    return found.url;
  } catch (error) {
    const { cause } = error as { readonly cause?: { readonly code?: string } };
    if (cause?.code === 'ECONNREFUSED') return undefined;
    throw new ServiceUnreachable(
      `the service of ${dataDir}, process ${found.pid}, does not answer at ${found.url}: look at its log`,
    );
  }
};
