import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import { type KeyFetches } from '../../http/auth/issuer-keys.js';
import { type TokenCache } from '../../http/auth/verify.js';
import { showCounter, showGauge } from './gauge.js';

/** The longest time of a timer, in milliseconds. */
const NEVER_MS = 2 ** 31 - 1;

/** The figures of one process, with those about the process itself: memory, CPU, event loop, garbage collection. */
export const createRegistry = (version: string): Registry => {
  const registry = new Registry();
  // Its own measurement of the event loop never ticks: `showEventLoop` replaces it.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS });
  new Gauge({
    name: 'plants_build_info',
    help: 'Always 1. Which version this is, and on which Node.js it runs.',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version, node: process.versions.node }, 1);
  return registry;
};

/** Adds figures about the token cache; `cache` gives them as they are now. */
export const showTokenCache = (registry: Registry, cache: () => TokenCache): void => {
  showCounter(
    registry,
    'plants_token_cache_lookups_total',
    'Tokens looked up among those that were verified before. A miss costs the check of a signature.',
    'result',
    () => ({ hit: cache().hits, miss: cache().misses }),
  );
  new Counter({
    name: 'plants_token_cache_evictions_total',
    help: 'Verified tokens that were forgotten for want of room.',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(cache().evictions);
    },
  });
  showGauge(
    registry,
    'plants_token_cache_entries',
    'Verified tokens that are remembered. The least recently used is forgotten for a new one where there is no room.',
    () => cache().entries,
  );
  showGauge(
    registry,
    'plants_token_cache_bytes',
    'About what remembered tokens take of memory, at most TOKEN_CACHE_MB.',
    () => cache().bytes,
  );
};

/** Adds figures about the keys of the issuer; `fetches` gives them as they are now. */
export const showIssuerKeys = (registry: Registry, fetches: () => KeyFetches): void => {
  showCounter(
    registry,
    'plants_issuer_key_fetches_total',
    "Fetches of the issuer's keys, by their outcome.",
    'outcome',
    () => ({ fetched: fetches().fetched, failed: fetches().failed }),
  );
  showGauge(
    registry,
    'plants_issuer_keys_age_seconds',
    "How long ago the issuer's keys were last fetched.",
    () => fetches().ageSeconds,
  );
};
