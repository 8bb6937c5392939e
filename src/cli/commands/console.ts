import { userInfo } from 'node:os';
import { type Command } from 'commander';
import { SCOPES } from '../../http/auth/principal.js';
import { type Config } from '../../service/config.js';
import { StartError } from '../../service/start-error.js';
import { EXITS, UsageError } from '../exit-status.js';
import { openBrowser } from '../open-browser.js';
import { settings } from '../settings.js';
import { print } from '../terminal.js';
import { signToken } from '../token.js';
import { checkedUrl } from '../with-operations.js';

/** Defines `plants console`. */
export const define = (command: Command): void => {
  command
    .option(
      '--owner <name>',
      'whose plants are shown; without it, those of an owner with the name of this account',
    )
    .option(
      '--scope <scopes>',
      `what the token allows, separated by spaces: ${SCOPES.join(', ')}; without it ${CONSOLE_SCOPES}`,
    )
    .option('--expires <duration>', 'how long the token is good: 15m, 12h; at most 365d', CONSOLE_EXPIRES)
    .option('--url <url>', 'where the service is; without it at HOST and PORT')
    .option('--no-open', 'print the link, and open nothing')
    .option('--json', 'print {link, expiresAt, opened}')
    .addHelpText(
      'after',
      `\nAnyone who has the link can do what the token allows, until it expires.\n\nExample:\n  npx plants console --owner alice\n${EXITS}`,
    )
    .action(openConsole);
};

interface ConsoleOptions extends Omit<ConsoleRequest, 'owner'> {
  readonly owner?: string;
  readonly open: boolean;
  readonly json?: true;
}

const openConsole = async ({
  open,
  json,
  owner = userInfo().username,
  ...request
}: ConsoleOptions): Promise<void> => {
  const { link, page, expiresAt } = await consoleLink(settings(), { owner, ...request }, new Date());
  if (open && !json) process.stdout.write(`Opening ${page} for ${owner}.\n`);
  const opened = open && (await openBrowser(link));
  const until = `use this link, until ${expiresAt.toISOString()}:\n\n${link}`;
  print(
    { json },
    { link, expiresAt, opened },
    open ? `${opened ? 'If nothing has opened' : 'No browser could be opened here'}, ${until}` : link,
  );
};

/** The time that a token of the console is valid unless told. */
export const CONSOLE_EXPIRES = '1h';

/** The areas of the console. */
export const CONSOLE_SCOPES = 'plants:read plants:write plants:audit plants:operate';

/** The time that the service may take to answer, in milliseconds. */
const ANSWER_MS = 3_000;

/** The parts of a link. */
export interface ConsoleRequest {
  readonly owner: string;
  readonly scope?: string | undefined;
  readonly expires: string;
  /** The address of the service; undefined for what HOST and PORT say. */
  readonly url?: string | undefined;
}

export interface ConsoleLink {
  /** With a token in its fragment, which browsers do not send. */
  readonly link: string;
  /** The same without it. */
  readonly page: string;
  readonly expiresAt: Date;
}

/** Makes a link into the console of a service that runs. Throws TokenRefused, UsageError, and StartError where none runs. */
export const consoleLink = async (
  config: Pick<Config, 'host' | 'port' | 'dataDir' | 'auth'>,
  { owner, scope = CONSOLE_SCOPES, expires, url }: ConsoleRequest,
  now: Date,
): Promise<ConsoleLink> => {
  const { token, expiresAt } = await signToken(config, { owner, scope, expires }, now);
  const page = `${baseOf(config, url)}/console`;
  await needConsole(page);
  return { link: `${page}#token=${token}`, page, expiresAt };
};

/** The address of the service, without a slash at its end. */
const baseOf = ({ host, port }: Pick<Config, 'host' | 'port'>, url: string | undefined): string => {
  if (url !== undefined) return new URL(checkedUrl(url)).href.replace(/\/$/, '');
  if (port === 0) throw new UsageError('PORT is 0: give the address that the service printed, by --url');
  // Every interface is reached at the one of this machine.
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
};

const needConsole = async (page: string): Promise<void> => {
  const answer = await fetch(page, { method: 'HEAD', signal: AbortSignal.timeout(ANSWER_MS) }).catch(
    () => undefined,
  );
  if (!answer)
    throw new StartError(
      `no service answers at ${page}: start it (plants serve), or say where it is (--url, or HOST and PORT)`,
    );
  if (!answer.ok)
    throw new StartError(
      `there is no console at ${page} (${answer.status}): CONSOLE is off there, or the process does not have the role api`,
    );
};
