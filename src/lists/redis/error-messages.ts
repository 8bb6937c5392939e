import { ReadModelUnavailable } from '../read-model.js';
import { type RedisNode } from './connection-string.js';

/** Waiting does not help: a person has to change something. A running service keeps trying all the same. */
export class RedisRefused extends ReadModelUnavailable {}

export const serverAddress = ({ host, port }: RedisNode): string =>
  `redis at ${host.includes(':') ? `[${host}]` : host}:${port}`;

/**
 * A pattern for the server's answer, or for the code or message of a connection's error; the words that follow the
 * server's address ($1 is the first group); and the error, where it is not ReadModelUnavailable.
 */
type ErrorMeaning = readonly [sign: RegExp, meaning: string, kind?: typeof RedisRefused];

/** The first match counts. */
const ERROR_MEANINGS: readonly ErrorMeaning[] = [
  [
    /WRONGPASS|invalid username-password|invalid password/,
    `refuses the user name or password in READ_MODEL`,
    RedisRefused,
  ],
  [/NOAUTH|Authentication required/, 'asks for a password: put user:password@ into READ_MODEL', RedisRefused],
  [
    /without any password configured/,
    'has no password for the default user: leave it out of READ_MODEL',
    RedisRefused,
  ],
  [
    /permissions? to run the '([^']+)' command/,
    `does not allow the command $1: ACL SETUSER … +$1 for the user in READ_MODEL`,
    RedisRefused,
  ],
  [
    /permissions? to access (?:a|the|one of the) channel/,
    `does not allow the channel of this service: ACL SETUSER … &plants:* for the user in READ_MODEL`,
    RedisRefused,
  ],
  [
    /permissions? to access (?:a|one of the) keys?|can't access at least one of the keys/,
    `does not allow the keys of this service: ACL SETUSER … ~plants:* for the user in READ_MODEL`,
    RedisRefused,
  ],
  [
    /NOPERM|can't run this command/,
    'has taken a permission from the user in READ_MODEL: see its ACL LOG',
    RedisRefused,
  ],
  [
    /SELECT is not allowed in cluster mode/,
    'belongs to a Redis Cluster: write redis+cluster:// in READ_MODEL',
    RedisRefused,
  ],
  [
    /DB index is out of range/,
    'has no database of that number: change it in READ_MODEL, or databases in redis.conf',
    RedisRefused,
  ],
  [/unknown command '?`?(\w+)/, 'does not know $1: it is too old, or has it renamed', RedisRefused],
  [/cluster support disabled/, 'belongs to no Redis Cluster: write redis:// in READ_MODEL', RedisRefused],
  [/LOADING/, 'is still loading its data'],
  [/READONLY/, 'is a read-only replica now: looking for the master'],
  [/MASTERDOWN/, 'has lost its master'],
  [/CLUSTERDOWN/, 'says that the cluster is down: some of its slots are not served'],
  [/TRYAGAIN|MOVED|ASK/, 'is moving slots to another server of the cluster'],
  [/OOM/, 'has reached maxmemory: raise it (CONFIG SET maxmemory), or give it less to hold'],
  [/MISCONF/, 'cannot save to its disk, and so refuses to write: see its log'],
  [/NOREPLICAS/, 'has fewer replicas than min-replicas-to-write asks for'],
  [/BUSY/, 'is busy with a script'],
  [
    /(ERR_TLS_CERT_ALTNAME_INVALID)/,
    'has a certificate for another name: READ_MODEL must name the host as the certificate does ($1)',
    RedisRefused,
  ],
  [/(CERT_HAS_EXPIRED|CERT_NOT_YET_VALID)/, 'has a certificate that is not valid now ($1)', RedisRefused],
  [
    /(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+|CERT_\w+)/,
    'has a certificate that is not trusted ($1): name its authority by ?tlsCAFile=… in READ_MODEL',
    RedisRefused,
  ],
  [
    /certificate required|ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED|(?:sslv3|tlsv1)[ _\w]*alert[ _]\w*/i,
    'wants another client certificate: userCertFile and userKeyFile in READ_MODEL',
    RedisRefused,
  ],
  [/EPROTO|ERR_SSL_\w+/, 'does not speak TLS: write redis instead of rediss', RedisRefused],
  [/ECONNREFUSED/, 'refuses connections: is it running, and is this its port?'],
  [/(ENOTFOUND|EAI_AGAIN)/, 'cannot be found by its name ($1)'],
  [/(EHOSTUNREACH|ENETUNREACH)/, 'cannot be reached ($1)'],
  [/ETIMEDOUT/, 'cannot be reached (ETIMEDOUT)'],
  [/The queue is full/, 'is too slow for what is asked of it: the queue is full'],
  [
    /ECONNRESET|EPIPE|closed|Disconnects client/i,
    'lost the connection; if it always does, it may expect TLS (rediss) or a client certificate (userCertFile, userKeyFile)',
  ],
];

/** The port's error for a client's error, in one line that says what it means. */
export const redisError = (thrown: unknown, node: RedisNode): ReadModelUnavailable => {
  if (thrown instanceof ReadModelUnavailable) return thrown;
  const { code = '', message } = thrown as Error & { code?: string };
  for (const [sign, meaning, Kind = ReadModelUnavailable] of ERROR_MEANINGS) {
    const found = sign.exec(code) ?? sign.exec(message);
    if (!found) continue;
    return new Kind(`${serverAddress(node)} ${meaning.replaceAll('$1', found[1] ?? '')}`, { cause: thrown });
  }
  return new ReadModelUnavailable(`${serverAddress(node)}: ${(message || code).replace(/\n[^]*/, '')}`, {
    cause: thrown,
  });
};

/** True if a server answered with this error: the first word of its answer, or of that of a script. */
export const isReply = (
  error: unknown,
  word: string,
): error is ReadModelUnavailable & { readonly cause: Error } =>
  error instanceof ReadModelUnavailable &&
  error.cause instanceof Error &&
  new RegExp(`(^|[-\\s])${word}\\b`).test(error.cause.message);
