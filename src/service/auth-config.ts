import { bad, ConfigError, type Environment, given, setting } from './setting-values.js';
import { type SettingName } from './settings.js';

/** Signs the tokens of a service that has no issuer. */
export const LOCAL_ISSUER = 'urn:plants:local';

/** The issuer whose tokens are accepted. */
export type AuthConfig = Readonly<{
  issuer: string;
  /** A token is meant for one of them. */
  audiences: [string, ...string[]];
  ownerClaim: string;
}> &
  (Readonly<{ kind: 'local' }> | Readonly<{ kind: 'issuer'; jwksUrl: URL }>);

/** Throws ConfigError. */
export const auth = (env: Environment): AuthConfig => {
  const issuer = given(env, 'AUTH_ISSUER');
  const jwksUrl = given(env, 'AUTH_JWKS_URL');
  const audiences = audiencesIn(setting(env, 'AUTH_AUDIENCE'));
  const ownerClaim = claimText(setting(env, 'AUTH_OWNER_CLAIM'), 'AUTH_OWNER_CLAIM');
  if (issuer === undefined) {
    if (jwksUrl !== undefined)
      throw new ConfigError(
        'AUTH_JWKS_URL needs AUTH_ISSUER: keys without an issuer would be trusted blindly',
      );
    if (ownerClaim !== 'sub')
      throw new ConfigError(
        'AUTH_OWNER_CLAIM needs AUTH_ISSUER: tokens of the local key name the owner in sub',
      );
    return { kind: 'local', issuer: LOCAL_ISSUER, audiences, ownerClaim };
  }
  if (given(env, 'AUTH_AUDIENCE') === undefined)
    throw new ConfigError(
      'AUTH_AUDIENCE is required with AUTH_ISSUER: the aud that its tokens for this service have',
    );
  if (jwksUrl === undefined)
    throw new ConfigError("AUTH_JWKS_URL is required with AUTH_ISSUER: where the issuer's public keys are");
  return {
    kind: 'issuer',
    issuer: claimText(issuer, 'AUTH_ISSUER'),
    audiences,
    ownerClaim,
    jwksUrl: keysUrl(jwksUrl),
  };
};

/** The client that the console is at the issuer. Throws ConfigError. */
export const consoleClientId = (env: Environment): string | undefined => {
  const clientId = given(env, 'CONSOLE_CLIENT_ID');
  if (clientId === undefined) return undefined;
  const issuer = given(env, 'AUTH_ISSUER');
  if (issuer === undefined)
    throw new ConfigError('CONSOLE_CLIENT_ID needs AUTH_ISSUER: it is the id that the console has there');
  if (!isSecure(issuer))
    throw new ConfigError(
      'CONSOLE_CLIENT_ID needs an AUTH_ISSUER that is an https URL (http only for this machine): people sign in there',
    );
  return claimText(clientId, 'CONSOLE_CLIENT_ID');
};

const audiencesIn = (value: string): [string, ...string[]] => {
  const [first = '', ...others] = value.split(',').map((one) => claimText(one.trim(), 'AUTH_AUDIENCE'));
  if (first === '' || others.includes(''))
    throw bad('AUTH_AUDIENCE', value, 'one audience, or several separated by commas, none of them empty');
  return [first, ...others];
};

/** A text that is compared with a claim exactly: with an invisible space or line end it would never match. */
const claimText = (value: string, name: SettingName): string => {
  if (/[\s\p{Cc}]/u.test(value)) throw bad(name, value, 'a text without spaces and control characters');
  return value;
};

/** An attacker on the network could replace keys that come over plain http. */
const keysUrl = (value: string): URL => {
  const allowed = 'an https URL (http only for this machine) without a user name or password';
  if (!URL.canParse(value)) throw bad('AUTH_JWKS_URL', value, allowed);
  const url = new URL(value);
  if (!isSecure(value) || url.username !== '' || url.password !== '')
    throw bad('AUTH_JWKS_URL', value, allowed);
  return url;
};

/** True if answers from there cannot be changed on the network: https, or http from this machine. */
const isSecure = (value: string): boolean => {
  if (!URL.canParse(value)) return false;
  const { hostname, protocol } = new URL(value);
  const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  return protocol === 'https:' || (protocol === 'http:' && loopback);
};
