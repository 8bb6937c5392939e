import { describe, expect, it } from '@jest/globals';
import { startIssuer } from '../../support/auth-issuer.js';
import { TokenMint } from '../../support/auth-tokens.js';
import { type Sent, ofThisTest } from '../../support/http-client.js';
import { TestService } from '../../support/service.js';

const CREATE: Sent = {
  method: 'POST',
  body: '{"name":"n","tag":"t","id":1}',
  headers: { 'content-type': 'application/json' },
};

describe('tokens of an issuer', () => {
  it('are verified by its keys, and 503 while those cannot be had', async () => {
    const theirs = await TokenMint.make('theirs', { iss: 'https://issuer.example', aud: 'garden' });
    const issuer = await startIssuer(theirs.publicJwk);
    issuer.answer(500, 'down');
    const service = await TestService.start({
      AUTH_ISSUER: 'https://issuer.example',
      AUTH_AUDIENCE: 'garden',
      AUTH_JWKS_URL: issuer.jwksUrl.href,
      AUTH_OWNER_CLAIM: 'org',
    });
    const client = ofThisTest(service);
    await service.ready();
    expect(service.stderr).toBe(''); // no local key, so nothing to tell of one
    const token = client.keepSecret(await theirs.token({ org: 'kew', sub: 'ada' }));
    await client.refused(client.send({ ...CREATE, token }), 503, 'keys_unavailable');
    expect(await client.logged({ level: 'warn', reason: 'it answers 500' })).toMatchObject({
      msg: "the issuer's keys cannot be fetched; known keys are used for an hour",
    });

    issuer.publish(theirs.publicJwk);
    issuer.answer(200, JSON.stringify({ keys: [theirs.publicJwk] }));
    // It is asked again after a second, as Retry-After says.
    let created = await client.send({ ...CREATE, token });
    while (created.status === 503) created = await client.send({ ...CREATE, token });
    expect(created.status).toBe(201);
    const colleague = client.keepSecret(await theirs.token({ org: 'kew', sub: 'bob' }));
    expect((await client.list('', { token: colleague })).text).toBe('[{"name":"n","tag":"t"}]');

    const local = await TokenMint.local(service.dataDir);
    const foreign = client.keepSecret(await local.token({ org: 'kew' }));
    await client.refused(client.list('', { token: foreign }), 401, 'token_invalid');
    await issuer.stop();
  });
});
