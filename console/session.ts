/** The token is kept in memory; in sessionStorage, which ends with the tab, only where that was asked for. */
import { computed, signal } from '@preact/signals';
import { OWNER_CLAIM } from './installation.js';

/** As in docs/api.md. */
export const SCOPES = [
  'plants:read',
  'plants:write',
  'plants:audit',
  'plants:operate',
  'plants:erase',
] as const;
export type Scope = (typeof SCOPES)[number];

/** For a token that names no scope. */
const DEFAULT_SCOPES: readonly Scope[] = ['plants:read', 'plants:write'];

/** A token and what it says of itself. The service alone decides whether it is good. */
export interface Session {
  readonly token: string;
  /** The owner of plants that it speaks for. */
  readonly subject: string;
  readonly scopes: ReadonlySet<Scope>;
  /** In milliseconds since 1970. */
  readonly expiresAt: number;
}

const KEPT_AS = 'plants-console-token';

/** The longest time that a timer takes, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The last token, also after it has ended, so that what was typed stays where it is. */
export const session = signal<Session | undefined>(undefined);

/** Why the token cannot be used any more; undefined while it can. */
export const ended = signal<string | undefined>(undefined);

/** True while there is a token that has not ended. */
export const signedIn = computed(() => session.value !== undefined && ended.value === undefined);

/** True if the token allows it, so that it is worth showing. */
export const allows = (scope: Scope): boolean => session.value?.scopes.has(scope) === true;

let timer: ReturnType<typeof setTimeout> | undefined;

/** Takes a token. Throws an Error that says what is wrong where it is none, or has expired. */
export const signIn = (text: string, { keep = false } = {}): void => {
  const next = readToken(text);
  if (next.expiresAt <= Date.now()) throw new Error('This token has expired. Get a new one.');
  session.value = next;
  ended.value = undefined;
  store(keep ? next.token : undefined);
  awaitExpiry();
};

/** Forgets the token and everything that was shown with it. */
export const signOut = (): void => {
  clearTimeout(timer);
  session.value = undefined;
  ended.value = undefined;
  store(undefined);
};

/** The token was refused, or has expired: it is kept on the screen whose it was, and a new one is asked for. */
export const endSession = (why: string): void => {
  clearTimeout(timer);
  if (session.peek()) ended.value = why;
  store(undefined);
};

/**
 * Takes the token that `plants console` put into the fragment of the address (#token=…) and removes it from there, or
 * takes the one that this tab was asked to keep. Gives what is wrong with it, if anything is.
 */
export const resume = (): string | undefined => {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token !== null) history.replaceState(null, '', location.pathname + location.search);
  const kept = stored();
  const found = token ?? kept;
  if (found === null) return undefined;
  try {
    signIn(found, { keep: token === null });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
};

/** Does not check whether the token is of an issuer or of this service. */
const readToken = (text: string): Session => {
  const token = text.trim().replace(/^Bearer\s+/i, '');
  const claims = claimsOf(token);
  if (claims === undefined)
    throw new Error('This is not a token: it has three parts with a dot between them, and begins with eyJ.');
  const { exp, scope, scp } = claims;
  const owner = claims[OWNER_CLAIM];
  const named = typeof scope === 'string' ? scope.split(' ') : Array.isArray(scp) ? scp : undefined;
  return {
    token,
    subject: typeof owner === 'string' ? owner : '',
    scopes: new Set(named ? SCOPES.filter((one) => named.includes(one)) : DEFAULT_SCOPES),
    expiresAt: typeof exp === 'number' ? exp * 1_000 : Infinity,
  };
};

const claimsOf = (token: string): Record<string, unknown> | undefined => {
  const [, payload, ...rest] = token.split('.');
  if (payload === undefined || rest.length !== 1) return undefined;
  try {
    const bytes = Uint8Array.from(atob(payload.replace(/-/g, '+').replace(/_/g, '/')), (one) =>
      one.charCodeAt(0),
    );
    const claims: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof claims === 'object' && claims !== null ? (claims as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
};

const awaitExpiry = (): void => {
  clearTimeout(timer);
  const { expiresAt } = session.peek() ?? { expiresAt: Infinity };
  const left = expiresAt - Date.now();
  if (left <= 0) endSession('Your token has expired.');
  else if (left !== Infinity) timer = setTimeout(awaitExpiry, Math.min(left, LONGEST_TIMER));
};

/** A browser may refuse its storage; then the token is kept in memory alone. */
const store = (token: string | undefined): void => {
  try {
    if (token === undefined) sessionStorage.removeItem(KEPT_AS);
    else sessionStorage.setItem(KEPT_AS, token);
  } catch {
    return;
  }
};

const stored = (): string | null => {
  try {
    return sessionStorage.getItem(KEPT_AS);
  } catch {
    return null;
  }
};
