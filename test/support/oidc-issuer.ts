import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

/** An issuer at which somebody is signed in already: it sends the browser back at once. */
export interface OidcIssuer {
  readonly url: string;
  /** The settings of a service that trusts it. */
  readonly settings: Readonly<Record<string, string>>;
  readonly asked: URLSearchParams[];
  /** From now on it refuses to sign anybody in, with this description. */
  refuse(description: string): void;
  stop(): Promise<void>;
}

const AUDIENCE = 'plants';
const CLIENT = 'plants-console';

/** Starts one whose tokens name this owner in the claim `account`. */
export const startOidcIssuer = async (owner: string): Promise<OidcIssuer> => {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwk = { ...(await exportJWK(publicKey)), kid: '1', alg: 'ES256', use: 'sig' };
  const codes = new Map<string, URLSearchParams>();
  const asked: URLSearchParams[] = [];
  let refusal: string | undefined;
  let url = '';

  const sign = (audience: string, claims: Readonly<Record<string, unknown>>): Promise<string> =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: '1' })
      .setIssuer(url)
      .setAudience(audience)
      .setSubject('subject-1')
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(privateKey);

  const authorize = (query: URLSearchParams): string => {
    asked.push(query);
    const back = new URL(query.get('redirect_uri') ?? '');
    back.searchParams.set('state', query.get('state') ?? '');
    back.searchParams.set('iss', url);
    if (refusal !== undefined) {
      back.searchParams.set('error', 'access_denied');
      back.searchParams.set('error_description', refusal);
      return back.href;
    }
    const code = randomUUID();
    codes.set(code, query);
    back.searchParams.set('code', code);
    return back.href;
  };

  /** Undefined for a code that is not known, or whose proof key does not fit (RFC 7636, section 4.6). */
  const tokens = async (form: URLSearchParams): Promise<object | undefined> => {
    const request = codes.get(form.get('code') ?? '');
    codes.delete(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    if (request?.get('code_challenge') !== challenge || form.get('client_id') !== CLIENT) return undefined;
    return {
      token_type: 'Bearer',
      expires_in: 3_600,
      access_token: await sign(AUDIENCE, { account: owner, scope: 'plants:read plants:write' }),
      id_token: await sign(CLIENT, { nonce: request.get('nonce') }),
    };
  };

  const answers: Readonly<Record<string, (body: string) => unknown>> = {
    '/.well-known/openid-configuration': () => ({
      issuer: url,
      authorization_endpoint: `${url}/authorize`,
      token_endpoint: `${url}/token`,
      jwks_uri: `${url}/keys`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256'],
      authorization_response_iss_parameter_supported: true,
    }),
    '/keys': () => ({ keys: [jwk] }),
    '/token': (body) => tokens(new URLSearchParams(body)),
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { pathname, searchParams } = new URL(request.url ?? '', url);
      if (pathname === '/authorize') {
        response.writeHead(302, { location: authorize(searchParams) }).end();
        return;
      }
      const answer = await answers[pathname]?.(await text(request));
      response
        .writeHead(answer === undefined ? 400 : 200, {
          'content-type': 'application/json',
          'access-control-allow-origin': '*',
        })
        .end(JSON.stringify(answer ?? { error: 'invalid_grant' }));
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    settings: {
      AUTH_ISSUER: url,
      AUTH_AUDIENCE: AUDIENCE,
      AUTH_JWKS_URL: `${url}/keys`,
      AUTH_OWNER_CLAIM: 'account',
      CONSOLE_CLIENT_ID: CLIENT,
    },
    asked,
    refuse: (description) => {
      refusal = description;
    },
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};
