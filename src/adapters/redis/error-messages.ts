import { ReadModelUnavailable } from '../../ports/read-model.js';
import { type RedisNode } from './connection-string.js';

/** Waiting does not help: a person has to change something. A running service keeps trying all the same. */
export class RedisRefused extends ReadModelUnavailable {}

export const serverAddress = ({ host, port }: RedisNode): string =>
  `redis at ${host.includes(':') ? `[${host}]` : host}:${port}`;

interface ErrorMeaning {
  /** Matched with the server's answer, or the code or message of a connection's error. */
  readonly sign: RegExp;
  /** Follows the server's address; $1 is the first group. */
  readonly meaning: string;
  readonly definite?: true;
}

/** The first match counts. */
const ERROR_MEANINGS: readonly ErrorMeaning[] = [
  {
    sign: /WRONGPASS|invalid username-password|invalid password/,
    meaning: `refuses the user name or password in READ_MODEL`,
    definite: true,
  },
  {
    sign: /NOAUTH|Authentication required/,
    meaning: 'asks for a password: put user:password@ into READ_MODEL',
    definite: true,
  },
  {
    sign: /without any password configured/,
    meaning: 'has no password for the default user: leave it out of READ_MODEL',
    definite: true,
  },
  {
    sign: /permissions? to run the '([^']+)' command/,
    meaning: `does not allow the command $1: ACL SETUSER … +$1 for the user in READ_MODEL`,
    definite: true,
  },
  {
    sign: /permissions? to access (?:a|the|one of the) channel/,
    meaning: `does not allow our channel: ACL SETUSER … &plants:* for the user in READ_MODEL`,
    definite: true,
  },
  {
    sign: /permissions? to access (?:a|one of the) keys?|can't access at least one of the keys/,
    meaning: `does not allow our keys: ACL SETUSER … ~plants:* for the user in READ_MODEL`,
    definite: true,
  },
  {
    sign: /NOPERM|can't run this command/,
    meaning: 'has taken a permission from the user in READ_MODEL: see its ACL LOG',
    definite: true,
  },
  {
    sign: /SELECT is not allowed in cluster mode/,
    meaning: 'belongs to a Redis Cluster: write redis+cluster:// in READ_MODEL',
    definite: true,
  },
  {
    sign: /DB index is out of range/,
    meaning: 'has no database of that number: change it in READ_MODEL, or databases in redis.conf',
    definite: true,
  },
  {
    sign: /unknown command '?`?(\w+)/,
    meaning: 'does not know $1: it is too old, or has it renamed',
    definite: true,
  },
  {
    sign: /cluster support disabled/,
    meaning: 'belongs to no Redis Cluster: write redis:// in READ_MODEL',
    definite: true,
  },
  { sign: /LOADING/, meaning: 'is still loading its data' },
  { sign: /READONLY/, meaning: 'is a read-only replica now: looking for the master' },
  { sign: /MASTERDOWN/, meaning: 'has lost its master' },
  { sign: /CLUSTERDOWN/, meaning: 'says that the cluster is down: some of its slots are not served' },
  { sign: /TRYAGAIN|MOVED|ASK/, meaning: 'is moving slots to another server of the cluster' },
  { sign: /OOM/, meaning: 'has reached maxmemory: raise it (CONFIG SET maxmemory), or give it less to hold' },
  { sign: /MISCONF/, meaning: 'cannot save to its disk, and so refuses to write: see its log' },
  { sign: /NOREPLICAS/, meaning: 'has fewer replicas than min-replicas-to-write asks for' },
  { sign: /BUSY/, meaning: 'is busy with a script' },
  {
    sign: /(ERR_TLS_CERT_ALTNAME_INVALID)/,
    meaning: 'has a certificate for another name: READ_MODEL must name the host as the certificate does ($1)',
    definite: true,
  },
  {
    sign: /(CERT_HAS_EXPIRED|CERT_NOT_YET_VALID)/,
    meaning: 'has a certificate that is not valid now ($1)',
    definite: true,
  },
  {
    sign: /(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+|CERT_\w+)/,
    meaning: 'has a certificate that is not trusted ($1): name its authority by ?tlsCAFile=… in READ_MODEL',
    definite: true,
  },
  {
    sign: /certificate required|ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED|(?:sslv3|tlsv1)[ _\w]*alert[ _]\w*/i,
    meaning: 'wants another certificate of ours: userCertFile and userKeyFile in READ_MODEL',
    definite: true,
  },
  {
    sign: /EPROTO|ERR_SSL_\w+/,
    meaning: 'does not speak TLS: write redis instead of rediss',
    definite: true,
  },
  { sign: /ECONNREFUSED/, meaning: 'refuses connections: is it running, and is this its port?' },
  { sign: /(ENOTFOUND|EAI_AGAIN)/, meaning: 'cannot be found by its name ($1)' },
  { sign: /(EHOSTUNREACH|ENETUNREACH)/, meaning: 'cannot be reached ($1)' },
  { sign: /ETIMEDOUT/, meaning: 'cannot be reached (ETIMEDOUT)' },
  { sign: /The queue is full/, meaning: 'is too slow for what is asked of it: the queue is full' },
  {
    sign: /ECONNRESET|EPIPE|closed|Disconnects client/i,
    meaning:
      'lost the connection; if it always does, it may expect TLS (rediss) or a certificate of ours (userCertFile, userKeyFile)',
  },
];

/** The port's error for a client's error, in one line that says what it means. */
export const redisError = (thrown: unknown, node: RedisNode): ReadModelUnavailable => {
  if (thrown instanceof ReadModelUnavailable) return thrown;
  const { code = '', message } = thrown as Error & { code?: string };
  for (const { sign, meaning, definite } of ERROR_MEANINGS) {
    const found = sign.exec(code) ?? sign.exec(message);
    if (!found) continue;
    const Kind = definite ? RedisRefused : ReadModelUnavailable;
    return new Kind(`${serverAddress(node)} ${meaning.replaceAll('$1', found[1] ?? '')}`, { cause: thrown });
  }
  return new ReadModelUnavailable(`${serverAddress(node)}: ${(message || code).replace(/\n[^]*/, '')}`, {
    cause: thrown,
  });
};

/** Whether a server answered with this error: the first word of its answer, or of that of a script. */
export const isReply = (
  error: unknown,
  word: string,
): error is ReadModelUnavailable & { readonly cause: Error } =>
  error instanceof ReadModelUnavailable &&
  error.cause instanceof Error &&
  new RegExp(`(^|[-\\s])${word}\\b`).test(error.cause.message);
