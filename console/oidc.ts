/**
 * Signing in at the issuer of tokens: OpenID Connect's authorization code with PKCE (RFC 7636), without a secret, as
 * https://datatracker.ietf.org/doc/draft-ietf-oauth-browser-based-apps/ says. Loaded when somebody signs in there.
 */
import {
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  type AuthorizationServer,
  AuthorizationResponseError,
  calculatePKCECodeChallenge,
  type Client,
  discoveryRequest,
  generateRandomCodeVerifier,
  generateRandomNonce,
  generateRandomState,
  None,
  processAuthorizationCodeResponse,
  processDiscoveryResponse,
  validateAuthResponse,
} from 'oauth4webapi';
import { ROOT } from './router.js';
import { SCOPES } from './session.js';

/** The issuer, and the console's id there. */
export interface SignInAt {
  readonly issuer: string;
  readonly clientId: string;
}

/** Kept until the issuer sends the browser back. */
interface Pending {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** The address that was asked for. */
  readonly href: string;
}

const KEPT_AS = 'plants-console-sign-in';

/** Address to which the issuer sends the browser: always the same, since issuers compare it with those that they know. */
const redirectUri = (): string => new URL(ROOT, location.href).href;

/** An issuer on this machine may do without TLS, as its keys may. */
const optionsOf = ({ issuer }: SignInAt) => ({
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- its authors mark what is only for such issuers
  [allowInsecureRequests]: new URL(issuer).protocol === 'http:',
});

const discover = async (at: SignInAt): Promise<AuthorizationServer> => {
  const issuer = new URL(at.issuer);
  return processDiscoveryResponse(issuer, await discoveryRequest(issuer, optionsOf(at)));
};

/** Leaves for the issuer. Throws where it cannot be reached, or is none. */
export const leaveForIssuer = async (at: SignInAt): Promise<void> => {
  const server = await discover(at);
  if (server.authorization_endpoint === undefined)
    throw new Error('the issuer has no authorization endpoint');
  const pending: Pending = {
    state: generateRandomState(),
    nonce: generateRandomNonce(),
    verifier: generateRandomCodeVerifier(),
    href: location.href,
  };
  const target = new URL(server.authorization_endpoint);
  const known = server.scopes_supported;
  const parameters = {
    response_type: 'code',
    client_id: at.clientId,
    redirect_uri: redirectUri(),
    scope: ['openid', ...SCOPES.filter((scope) => known === undefined || known.includes(scope))].join(' '),
    code_challenge: await calculatePKCECodeChallenge(pending.verifier),
    code_challenge_method: 'S256',
    state: pending.state,
    nonce: pending.nonce,
  };
  for (const [name, value] of Object.entries(parameters)) target.searchParams.set(name, value);
  sessionStorage.setItem(KEPT_AS, JSON.stringify(pending));
  location.assign(target.href);
};

/** Of a browser that the issuer has sent back here. */
export interface Returned {
  readonly token: string;
  /** The address that was asked for before. */
  readonly href: string;
}

/**
 * Takes the code that the issuer has sent, and changes it for a token. Throws an Error that says why there is none: also
 * for a code that this tab has not asked for.
 */
export const returnFromIssuer = async (at: SignInAt, parameters: URLSearchParams): Promise<Returned> => {
  const kept = sessionStorage.getItem(KEPT_AS);
  sessionStorage.removeItem(KEPT_AS);
  if (kept === null) throw new Error('This tab has not asked anyone to sign in. Try again.');
  const { state, nonce, verifier, href } = JSON.parse(kept) as Pending;
  const client: Client = { client_id: at.clientId };
  const server = await discover(at);
  try {
    const valid = validateAuthResponse(server, client, parameters, state);
    const response = await authorizationCodeGrantRequest(
      server,
      client,
      None(),
      valid,
      redirectUri(),
      verifier,
      optionsOf(at),
    );
    const { access_token: token } = await processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: nonce,
      requireIdToken: true,
    });
    return { token, href };
  } catch (error) {
    if (error instanceof AuthorizationResponseError)
      throw new Error(`The issuer has refused: ${error.error_description ?? error.error}.`, { cause: error });
    throw error;
  }
};
