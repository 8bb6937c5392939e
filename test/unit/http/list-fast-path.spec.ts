import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type AuthConfig } from '../../../src/service/auth-config.js';
import { type RequestOutcome } from '../../../src/http/request-log.js';
import { localKeys, TokenVerifier } from '../../../src/http/auth/verify.js';
import { failures } from '../../../src/http/auth/bearer.guard.js';
import { ListAnswers } from '../../../src/http/lists/list-answer.js';
import { answerListsFast } from '../../../src/http/lists/list-fast-path.js';
import { LongLists } from '../../../src/http/lists/long-lists.js';
import { Problem } from '../../../src/http/problem.js';
import { Representations } from '../../../src/http/representation.js';
import { PastLists } from '../../../src/history/as-of.js';
import { type EventLog } from '../../../src/log/event-log.js';
import { type Generation } from '../../../src/lists/read-model.js';
import { type ReadModelStore } from '../../../src/lists/read-model-store.js';
import { Freshness } from '../../../src/lists/freshness.js';
import { ListPlantsHandler } from '../../../src/lists/list-plants.js';
import { TokenMint } from '../../support/auth-tokens.js';
import { catchUp, run, Stores } from '../../support/domain-stores.js';
import { createPlant } from '../../support/given.js';

const AUTH: AuthConfig = {
  kind: 'local',
  issuer: 'urn:plants:local',
  audiences: ['plants'],
  ownerClaim: 'sub',
};
const mint = await TokenMint.make('one');
const bad = await mint.bad();
const LONG_WAY = 'the long way';

describe('the fast path of lists', () => {
  let stores: Stores;
  let log: EventLog;
  let model: ReadModelStore;
  let generation: Generation;
  let freshness: Freshness;
  let verifier: TokenVerifier;
  let server: Server;
  let token: string;
  let admitted: boolean;
  let answered: [RequestOutcome, string | undefined][];
  let errors: unknown[];
  let defect: Error | undefined;

  beforeEach(async () => {
    stores = new Stores();
    log = await stores.log();
    model = await stores.model(log);
    generation = await model.createGeneration();
    await model.promote(generation);
    for (const id of [1, 2, 3]) await run(log, 'anne', createPlant(id, `plant ${id}`, ''));
    await catchUp(log, model, generation);
    freshness = await Freshness.from(log, model, 60_000);
    // The first list of a generation waits until the log was asked whether these lists are of it.
    await freshness.horizon(performance.now(), await model.list('anne', undefined, 1));
    verifier = new TokenVerifier(
      AUTH,
      localKeys({ publicJwk: mint.publicJwk } as Parameters<typeof localKeys>[0]),
    );
    token = await mint.token({ sub: 'anne' });
    await verifier.verify(token);
    admitted = true;
    answered = [];
    errors = [];
    defect = undefined;
    await serve({ verifiesNewTokens: true });
  });

  const serve = async ({ verifiesNewTokens }: { verifiesNewTokens: boolean }): Promise<void> => {
    server = createServer((request, response) => {
      const failure = failures.has(request) ? failures.get(request) : LONG_WAY;
      response.end(
        failure instanceof Problem ? failure.code : failure instanceof Error ? failure.name : failure,
      );
    });
    const handler = new ListPlantsHandler(model, freshness, log);
    answerListsFast(server, {
      crossOrigin: false,
      verifier,
      verifiesNewTokens,
      lists: new ListAnswers(handler, log, new PastLists(log), new LongLists(), new Representations()),
      onAnswered: (one, _request, owner) => {
        if (defect) throw defect;
        answered.push([one, owner]);
      },
      onError: (error) => errors.push(error),
      admits: () => admitted,
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  };

  afterEach(async () => {
    server.close();
    await stores.remove();
  });

  /** The body that a request is answered with; the lines of its head may be anything. */
  const ask = async (
    lines: readonly string[] = [`Authorization: Bearer ${token}`],
    target = 'GET /plants HTTP/1.1',
    host = 'here',
  ): Promise<string> => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.write([target, `Host: ${host}`, 'Connection: close', ...lines, '', ''].join('\r\n'));
    return (await text(socket)).split('\r\n\r\n').at(-1) ?? ''; // after a 100 there is a second head
  };
  const ANNES = '[{"name":"plant 1","tag":""},{"name":"plant 2","tag":""},{"name":"plant 3","tag":""}]';

  it('leaves a list for which there is no room to what can refuse it', async () => {
    admitted = false;
    expect(await ask()).toBe('overloaded');
    expect(answered).toEqual([]);
  });

  it('answers the first page for a token that is known, and tells of it', async () => {
    expect(await ask()).toBe(ANNES);
    expect(await ask()).toBe(ANNES);
    const one = { method: 'GET', route: '/plants', status: 200, problem: undefined };
    expect(answered).toMatchObject([
      [one, 'anne'],
      [one, 'anne'],
    ]);
  });

  it('answers so many plants as are asked for, and says where the next are', async () => {
    const first = '[{"name":"plant 1","tag":""}]';
    expect(await ask(undefined, 'GET /plants?limit=1 HTTP/1.1')).toBe(first);
    for (const query of ['limit=100', 'limit=101', `asOf=${await log.head()}`])
      expect(await ask(undefined, `GET /plants?${query} HTTP/1.1`)).toBe(ANNES);
    expect(await ask(['Accept: application/json', `AUTHORIZATION: Bearer ${token}`])).toBe(ANNES);
  });

  it.each([
    ['another method', 'HEAD /plants HTTP/1.1', []],
    ['another path', 'GET /plants/ HTTP/1.1', []],
    ['a long target', `GET /plants?${'x'.repeat(201)} HTTP/1.1`, []],
    ['two media types', undefined, ['Content-Type: application/json', 'Content-Type: text/plain']],
    ['a fragment', 'GET /plants#x HTTP/1.1', []],
    ['a target with a host', 'GET http://here/plants HTTP/1.1', []],
    ['another version', 'GET /plants HTTP/2.0', []],
    ['a second Host', undefined, ['Host: there']],
  ])('leaves a request with %s to the long way', async (_what, target, lines) => {
    const body = await ask([`Authorization: Bearer ${token}`, ...lines], target);
    expect(body).toBe(target?.startsWith('HEAD') ? '' : LONG_WAY);
    expect(answered).toEqual([]);
  });

  it.each([
    ['HTTP/1.0', 'GET /plants HTTP/1.0', []],
    ['a position to wait for', undefined, ['Plants-Position: 0000000000000001']],
    ['a body', undefined, ['Content-Length: 0', 'Content-Type: application/json']],
    ['several media types', undefined, ['Accept: text/html, application/json;q=0.1']],
  ])('answers a request with %s', async (_what, target, lines) => {
    expect(await ask([`Authorization: Bearer ${token}`, ...lines], target)).toBe(ANNES);
  });

  it.each([
    ['a limit that is none', 'GET /plants?limit=0 HTTP/1.1', [], 'invalid_request'],
    ['another media type', undefined, ['Accept: text/html'], 'not_acceptable'],
    ['a token in the query', 'GET /plants?access%5ftoken=x HTTP/1.1', [], 'token_misplaced'],
    ['a second token', undefined, ['Authorization: Bearer other'], 'token_repeated'],
    ['a position that there is not', undefined, ['Plants-Position: 9999999999999999'], 'UnknownPosition'],
  ])('leaves a request with %s to the long way with its error', async (_what, target, lines, error) => {
    expect(await ask([`Authorization: Bearer ${token}`, ...lines], target)).toBe(error);
    expect(answered).toEqual([]);
  });

  it('answers for a new token, and verifies it once', async () => {
    const unseen = await mint.token({ sub: 'anne', jti: 'unseen' });
    expect(await ask([`Authorization: Bearer ${unseen}`])).toBe(ANNES);
    expect(await ask([`Authorization: Bearer ${unseen}`])).toBe(ANNES);
    expect(verifier.cache).toMatchObject({ hits: 1, misses: 2 }); // the other one is of `token`
  });

  it('leaves new tokens to the long way where strangers are limited', async () => {
    server.close();
    await serve({ verifiesNewTokens: false });
    const unseen = `Authorization: Bearer ${await mint.token({ sub: 'anne', jti: 'unseen' })}`;
    expect(await ask([unseen])).toBe(LONG_WAY);
    expect(verifier.cache.misses).toBe(1);
    expect(await ask()).toBe(ANNES);
  });

  it('leaves a token that is refused to the long way, and verifies it once', async () => {
    expect(await ask([`Authorization: Bearer ${bad.otherKey}`])).toBe('token_invalid');
    expect([verifier.cache.misses, answered]).toEqual([2, []]); // the other one is of `token`
  });

  it('leaves who has no token, or may not read, to the long way', async () => {
    expect(await ask([])).toBe('token_missing');
    expect(await ask([`Authorization: Basic ${token}`])).toBe('token_missing');
    const writer = await mint.token({ sub: 'anne', scope: 'plants:write' });
    expect(await ask([`Authorization: Bearer ${writer}`])).toBe('scope_missing');
  });

  it('cuts the connection after an error that nobody thought of, and tells of it', async () => {
    defect = new Error('a defect');
    await ask();
    expect(errors).toEqual([defect]);
    defect = undefined;
    expect(await ask()).toBe(ANNES);
  });

  it('promises what it has shown: no later list is older', async () => {
    const before = freshness.floor('anne');
    await run(log, 'anne', createPlant(4, 'plant 4', ''));
    await catchUp(log, model, generation);
    await ask();
    expect(freshness.floor('anne') > before).toBe(true);
  });

  it('leaves everything to the long way when the store fails', async () => {
    await model.close();
    expect(await ask()).toBe('ReadModelUnavailable');
    expect(answered).toEqual([]);
  });
});
