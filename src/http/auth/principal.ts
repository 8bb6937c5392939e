import { type FastifyRequest } from 'fastify';

export const SCOPES = [
  'plants:read',
  'plants:write',
  'plants:audit',
  'plants:operate',
  'plants:erase',
] as const;
export type Scope = (typeof SCOPES)[number];

/** Scopes of a token without any scope claim: its owner's plants, and nothing more. */
export const DEFAULT_SCOPES = ['plants:read', 'plants:write'] as const satisfies readonly Scope[];

/** The client of a request, by its verified token. */
export interface Principal {
  /** The account whose plants are meant. */
  readonly owner: string;
  /** The claim `sub`. */
  readonly subject: string;
  /** The client that the token was issued to, where the token names it. */
  readonly clientId?: string;
  /** Those that this service knows; tokens with the same ones share this set. */
  readonly scopes: ReadonlySet<Scope>;
  /** In seconds since 1970, as the claim `exp`. */
  readonly expiresAt: number;
}

/** A request that may have passed the guard. */
export interface GuardedRequest extends FastifyRequest {
  principal?: Principal;
  /** Takes the request back that was counted for a stranger. There where it was. */
  refundAnonymousQuota?: () => Promise<void>;
}

/** The principal of a request. Only for handlers behind BearerGuard. */
export const principalOf = (request: GuardedRequest): Principal => {
  if (!request.principal) throw new Error('this handler is not behind BearerGuard');
  return request.principal;
};

/** The longest name of an account: what OpenID Connect allows for `sub` (Core 1.0, section 2). */
export const MAX_NAME = 255;

/** The first thing wrong with the name of an owner, a subject or a client, or undefined. */
export const nameFault = (value: unknown): string | undefined => {
  if (typeof value !== 'string') return 'must be a string';
  if (value === '') return 'must not be empty';
  // A code point takes at most two UTF-16 units, so a huge name is refused without walking it.
  if (value.length > 2 * MAX_NAME || Array.from(value).length > MAX_NAME)
    return `must be at most ${MAX_NAME} characters long`;
  if (/\p{Surrogate}/u.test(value)) return 'must be well-formed Unicode';
  if (/\p{Cc}/u.test(value)) return 'must not hold control characters';
  return undefined;
};
