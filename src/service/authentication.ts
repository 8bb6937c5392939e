import { type Logger } from 'pino';
import { openSharedCounters } from './stores.js';
import { IssuerKeys, NO_FETCHES } from '../http/auth/issuer-keys.js';
import { openLocalKey } from '../http/auth/local-key.js';
import { type RateLimit, type RatePolicy } from '../http/auth/rate-limit.js';
import { localKeys } from '../http/auth/verify.js';
import { type Config } from './config.js';
import { type Resources } from './resources.js';

/** The keys that tokens are verified with: of the issuer, or of this folder. */
export const signingKeys = async ({ auth, dataDir }: Config, logger: Logger) => {
  if (auth.kind === 'issuer') {
    const issuer = new IssuerKeys(auth.jwksUrl, (reason) => {
      if (reason === undefined) logger.info("the issuer's keys can be fetched again");
      else logger.warn({ reason }, "the issuer's keys cannot be fetched; known keys are used for an hour");
    });
    return { keys: issuer, keyFetches: () => issuer.fetches, created: false };
  }
  const key = await openLocalKey(dataDir);
  return { keys: localKeys(key), keyFetches: () => NO_FETCHES, created: key.created };
};

/** The rate limits of the settings, shared with other processes where the read model is. */
export const rateLimitsOf = async (
  { rateLimit, strangerLimit, readModel }: Config,
  logIdentity: string,
  logger: Logger,
  resources: Resources,
): Promise<{ rateLimit: RateLimit | undefined; strangerLimit: RateLimit | undefined }> => {
  if (rateLimit === 'off' && strangerLimit === 'off')
    return { rateLimit: undefined, strangerLimit: undefined };
  const { CountedRateLimit } = await import('../http/auth/counted-rate-limit.js');
  const counters = await openSharedCounters(readModel, logIdentity);
  if (counters) resources.add(() => counters.close());
  const limitOf = (policy: RatePolicy, perMinute: number | 'off'): RateLimit | undefined => {
    if (perMinute === 'off') return undefined;
    const onState = (reason: string | undefined): void => {
      if (reason === undefined) logger.info({ policy }, 'rate limits hold across processes again');
      else
        logger.warn(
          { policy, reason },
          'the shared rate limits cannot be reached; until they can, each process counts alone',
        );
    };
    return new CountedRateLimit(policy, perMinute, counters && { counters, onState });
  };
  return { rateLimit: limitOf('owner', rateLimit), strangerLimit: limitOf('stranger', strangerLimit) };
};
