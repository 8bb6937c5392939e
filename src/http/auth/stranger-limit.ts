import { isIPv6 } from 'node:net';
import { type FastifyInstance } from 'fastify';
import { type ClientAddressOf } from '../client-address.js';
import { splitUrl } from '../requests.js';
import { CREDENTIALS } from './bearer.guard.js';
import { type GuardedRequest } from './principal.js';
import { type RateLimit, rateLimitFields } from './rate-limit.js';
import { type TokenVerifier } from './verify.js';

export interface StrangerLimit {
  readonly limit: RateLimit;
  readonly verifier: TokenVerifier;
  readonly clientAddressOf: ClientAddressOf;
}

/**
 * Counts requests that bring no token which was verified before, by the address of their client, and refuses those beyond
 * the limit before anything is verified. One whose token proves to be good is not counted after all (BearerGuard). Probes
 * and scrapes are never counted: a balancer's may come from one address for many processes.
 */
export const limitStrangers = (
  fastify: FastifyInstance,
  { limit, verifier, clientAddressOf }: StrangerLimit,
): void => {
  fastify.addHook('onRequest', async (request: GuardedRequest, reply) => {
    const [path] = splitUrl(request.url);
    if (path.startsWith('/health/') || path === '/metrics') return;
    const token = CREDENTIALS.exec(request.headers.authorization ?? '')?.[1];
    if (token !== undefined && verifier.known(token)) return;
    const key = networkOf(clientAddressOf(request.raw));
    const quota = await limit.take(key);
    reply.headers(rateLimitFields(quota));
    request.refundAnonymousQuota = () => limit.giveBack(key);
  });
};

/**
 * The part of an address that one client has at least: an IPv4 address, or the /64 of an IPv6 address, in which it
 * may choose any.
 */
export const networkOf = (address: string): string => {
  const [plain = ''] = address.split('%');
  if (!isIPv6(plain)) return address;
  const [head = [], tail] = plain.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const groups = (part: readonly string[]): number => part.length + (part.at(-1)?.includes('.') ? 1 : 0);
  const zeros = tail ? Array<string>(8 - groups(head) - groups(tail)).fill('0') : [];
  const first = [...head, ...zeros, ...(tail ?? [])].slice(0, 4);
  return `${first.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
};
