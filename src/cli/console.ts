import { type Config } from '../service/config.js';
import { StartError } from '../service/start-error.js';
import { UsageError } from './exit-status.js';
import { signToken } from './token.js';

/** How long a token of the console is good where nothing else is said: as long as somebody looks at it. */
export const CONSOLE_EXPIRES = '1h';

/** What the console has pages for. */
export const CONSOLE_SCOPES = 'plants:read plants:write plants:audit plants:operate';

/** How long the service may take to answer, in milliseconds. */
const ANSWER_MS = 3_000;

/** What a link is asked for. */
export interface ConsoleRequest {
  readonly owner: string;
  readonly scope?: string | undefined;
  readonly expires: string;
  /** Where the service is; undefined for what HOST and PORT say. */
  readonly url?: string | undefined;
}

export interface ConsoleLink {
  /** With a token in its fragment, which browsers send to nobody. */
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
  if (url !== undefined) {
    if (!/^https?:\/\//.test(url) || !URL.canParse(url))
      throw new UsageError(
        `--url must be where the service is, such as http://127.0.0.1:3000, not ${JSON.stringify(url)}`,
      );
    return new URL(url).href.replace(/\/$/, '');
  }
  if (port === 0) throw new UsageError('PORT is 0: name the address that the service has told, by --url');
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
      `there is no console at ${page} (${answer.status}): CONSOLE is off there, or the process has not the role api`,
    );
};
