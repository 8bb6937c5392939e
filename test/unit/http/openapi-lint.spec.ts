import { describe, expect, it } from '@jest/globals';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import spectralCore, { type RulesetDefinition } from '@stoplight/spectral-core';
import spectralRulesets from '@stoplight/spectral-rulesets';
import { apiDocument } from '../../../src/http/openapi/document.js';

/** Spectral: a document should name a contact. The project has no public address to name. */
const NO_CONTACT = 'info-contact';

const redocly = async (document: object): Promise<string[]> => {
  const found = await lintFromString({
    source: JSON.stringify(document),
    absoluteRef: 'openapi.json',
    config: await createConfig({ extends: ['recommended'] }),
  });
  return found.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer ?? ''}`);
};

const spectral = async (document: object): Promise<string[]> => {
  const linter = new spectralCore.Spectral();
  linter.setRuleset({ extends: [[spectralRulesets.oas as RulesetDefinition, 'recommended']] });
  const found = await linter.run(JSON.parse(JSON.stringify(document)) as Record<string, unknown>);
  return found
    .filter(({ code }) => code !== NO_CONTACT)
    .map(({ code, message, path }) => `${code}: ${message} ${path.join('/')}`);
};

describe('the OpenAPI document', () => {
  const document = apiDocument('1.2.3');
  const damaged = { ...document, info: { title: 'Plant store' } };

  it("keeps Redocly's recommended rules", async () => {
    expect(await redocly(document)).toEqual([]);
    expect(await redocly(damaged)).not.toEqual([]);
  });

  it("keeps Spectral's recommended rules for OpenAPI", async () => {
    expect(await spectral(document)).toEqual([]);
    expect(await spectral({ ...damaged, tags: [] })).not.toEqual([]);
  });
});
