import { type IncomingMessage } from 'node:http';
import { type ExecutionContext, Inject, Injectable, Optional, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard } from '@nestjs/passport';
import { type FastifyReply } from 'fastify';
import { countHeader, splitUrl } from '../requests.js';
import { InvalidToken, misusedToken, scopeMissing, tokenMissing } from './auth-error.js';
import { type BearerRequest } from './bearer.strategy.js';
import { type GuardedRequest, type Principal, type Scope } from './principal.js';
import { RateLimit, rateLimitFields } from './rate-limit.js';
import { TokenVerifier } from './verify.js';

const SCOPES_KEY = Symbol('scopes');

/** Errors of requests before they came to Nest: the guard throws them, so that they are answered as all others. */
export const failures = new WeakMap<IncomingMessage, unknown>();

/** The scopes that a token must have for a handler, all of them. */
export const Scopes = (...scopes: [Scope, ...Scope[]]): MethodDecorator & ClassDecorator =>
  SetMetadata(SCOPES_KEY, scopes);

/**
 * Lets in who has a good token with the scopes of the handler, and puts the principal on the request. Throws
 * Problem or KeysUnavailable.
 */
@Injectable()
export class BearerGuard extends AuthGuard('bearer') {
  constructor(
    @Inject(TokenVerifier) private readonly verifier: TokenVerifier,
    @Inject(Reflector) private readonly reflector: Reflector,
    @Optional() @Inject(RateLimit) private readonly rateLimit?: RateLimit,
  ) {
    super();
  }

  override async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<GuardedRequest>();
    // Most tokens were verified before: passport would cost a quarter of the throughput.
    const { known } = credentialsOf(request.raw, this.verifier);
    if (known) request.principal = known;
    if (failures.has(request.raw)) throw failures.get(request.raw);
    if (!known) {
      await super.canActivate(context);
      await request.refundAnonymousQuota?.();
    }
    const { principal } = request;
    if (!principal) throw new InvalidToken('the token is not valid');
    if (this.rateLimit) {
      const quota = await this.rateLimit.take(principal.owner);
      context.switchToHttp().getResponse<FastifyReply>().headers(rateLimitFields(quota));
    }
    const needed = this.#scopesOf(context);
    if (!needed.every((scope) => principal.scopes.has(scope))) throw scopeMissing(needed);
    return true;
  }

  override getRequest(context: ExecutionContext): BearerRequest {
    const request = context.switchToHttp().getRequest<GuardedRequest>();
    const { token } = credentialsOf(request.raw, this.verifier);
    return { headers: { authorization: `Bearer ${token}` }, verifier: this.verifier };
  }

  /** @nestjs/passport answers with its own error and drops the challenge, which RFC 6750 demands. */
  override handleRequest<User>(
    error: unknown,
    user: (User & Principal) | false | null,
    _info: unknown,
    context: ExecutionContext,
  ): User {
    if (error) throw error as Error;
    if (!user) throw new InvalidToken('the token is not valid');
    context.switchToHttp().getRequest<GuardedRequest>().principal = user;
    return user;
  }

  /** A guarded handler without scopes is a mistake of ours, and must not be open to every token. */
  #scopesOf(context: ExecutionContext): readonly Scope[] {
    const scopes = this.reflector.getAllAndOverride<readonly Scope[] | undefined>(SCOPES_KEY, [
      context.getHandler(),
      context.getClass(),
    ]);
    if (!scopes) throw new Error(`${context.getClass().name}.${context.getHandler().name} has no @Scopes`);
    return scopes;
  }
}

const USUAL = 'Bearer ';

/** RFC 9110, 11.4 with RFC 6750, 2.1: the scheme in any case, spaces, and the token's own alphabet. */
export const CREDENTIALS = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/**
 * The token of a request, and its principal where it was verified before. Throws Problem where there is none, or where
 * one is that must not be there.
 */
export const credentialsOf = (
  { rawHeaders, headers, url = '' }: IncomingMessage,
  verifier: TokenVerifier,
): { readonly token: string; readonly known?: Principal | undefined } => {
  // Node keeps the first of two and drops the other silently; a proxy before us may have looked at the second.
  if (countHeader(rawHeaders, 'authorization') > 1)
    throw misusedToken('token_repeated', 'the request has more than one Authorization header');
  if (queryHasToken(url))
    throw misusedToken('token_misplaced', 'a token must not be in the query, where it ends up in logs');
  const authorization = headers.authorization ?? '';
  // A token that is in the cache needs no check of its characters.
  const rest = authorization.slice(USUAL.length);
  const known = authorization.startsWith(USUAL) ? verifier.known(rest) : undefined;
  if (known) return { token: rest, known };
  const token = CREDENTIALS.exec(authorization)?.[1];
  if (token !== undefined) return { token, known: verifier.known(token) };
  if (/^Bearer(?![A-Za-z0-9!#$%&'*+.^_`|~-])/i.test(authorization))
    throw misusedToken(
      'token_malformed',
      'the Authorization header must be the word Bearer, a space and the token',
    );
  throw tokenMissing();
};

/** RFC 6750, 2.3. URLSearchParams decodes every way of writing the name; it takes longer than all else here. */
const queryHasToken = (url: string): boolean => {
  const [, query] = splitUrl(url);
  return /access|%/.test(query) && new URLSearchParams(query).has('access_token');
};
