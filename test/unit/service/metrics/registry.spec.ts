import { expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { NO_FETCHES } from '../../../../src/http/auth/issuer-keys.js';
import { showIssuerKeys } from '../../../../src/service/metrics/registry.js';

it("shows how old the issuer's keys are once they were fetched, and nothing before", async () => {
  const registry = new Registry();
  let fetches = NO_FETCHES;
  showIssuerKeys(registry, () => fetches);
  expect(await registry.metrics()).not.toMatch(/^plants_issuer_keys_age_seconds /m);
  fetches = { fetched: 3, failed: 1, ageSeconds: 42 };
  const shown = await registry.metrics();
  expect(shown).toContain('plants_issuer_keys_age_seconds 42\n');
  expect(shown).toContain('plants_issuer_key_fetches_total{outcome="fetched"} 3\n');
  expect(shown).toContain('plants_issuer_key_fetches_total{outcome="failed"} 1\n');
});
