import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  Delete,
  type ExceptionFilter,
  Get,
  Module,
  Post,
  Req,
  UseGuards,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { type FastifyReply } from 'fastify';
import { type AuthConfig, LOCAL_ISSUER } from '../../../src/service/auth-config.js';
import { AuthError } from '../../../src/http/auth/auth-error.js';
import { BearerGuard, Scopes } from '../../../src/http/auth/bearer.guard.js';
import { BearerStrategy } from '../../../src/http/auth/bearer.strategy.js';
import { type GuardedRequest, principalOf } from '../../../src/http/auth/principal.js';
import { CountedRateLimit } from '../../../src/http/auth/counted-rate-limit.js';
import { RateLimit, RateLimited } from '../../../src/http/auth/rate-limit.js';
import { IssuerKeys, KeysUnavailable } from '../../../src/http/auth/issuer-keys.js';
import { TokenVerifier } from '../../../src/http/auth/verify.js';
import { type Issuer, startIssuer } from '../../support/auth-issuer.js';
import { type BadTokens, TokenMint } from '../../support/auth-tokens.js';

@Controller('plants')
@UseGuards(BearerGuard)
class PlantsController {
  @Get()
  @Scopes('plants:read')
  list(@Req() request: GuardedRequest): object {
    return { owner: principalOf(request).owner };
  }

  @Post()
  @Scopes('plants:write')
  create(@Req() request: GuardedRequest): object {
    return { owner: principalOf(request).owner };
  }

  @Delete()
  @Scopes('plants:operate', 'plants:audit')
  both(): object {
    return {};
  }

  @Get('forgotten')
  forgotten(): object {
    return {};
  }
}

@Controller('open')
class OpenController {
  @Get()
  open(@Req() request: GuardedRequest): object {
    return { owner: principalOf(request).owner };
  }
}

@Catch()
class Answer implements ExceptionFilter {
  catch(error: unknown, host: ArgumentsHost): void {
    const reply = host.switchToHttp().getResponse<FastifyReply>();
    if (error instanceof AuthError) {
      const { code, message } = error;
      void reply.status(error.status).header('www-authenticate', error.challenge).send({ code, message });
    } else if (error instanceof RateLimited) {
      void reply.status(429).header('retry-after', error.quota.resetSeconds).send({ message: error.message });
    } else if (error instanceof KeysUnavailable) void reply.status(503).send({});
    else void reply.status(500).send({ message: String(error) });
  }
}

interface Service {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

const start = async (issuer: Issuer, rateLimit?: RateLimit): Promise<Service> => {
  const auth: AuthConfig = { kind: 'local', issuer: LOCAL_ISSUER, audiences: ['plants'], ownerClaim: 'sub' };
  @Module({
    controllers: [PlantsController, OpenController],
    providers: [
      BearerStrategy,
      { provide: TokenVerifier, useValue: new TokenVerifier(auth, new IssuerKeys(issuer.jwksUrl)) },
      ...(rateLimit ? [{ provide: RateLimit, useValue: rateLimit }] : []),
    ],
  })
  class ServiceModule {}
  const app = await NestFactory.create<NestFastifyApplication>(ServiceModule, new FastifyAdapter(), {
    logger: false,
  });
  app.useGlobalFilters(new Answer());
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return { url, port: Number(new URL(url).port), close: () => app.close() };
};

let mint: TokenMint;
let bad: BadTokens;
let issuer: Issuer;
let service: Service;

beforeAll(async () => {
  mint = await TokenMint.make('one');
  bad = await mint.bad();
  issuer = await startIssuer(mint.publicJwk);
  service = await start(issuer);
});

afterAll(async () => {
  await service.close();
  await issuer.stop();
});

interface Outcome {
  readonly status: number;
  readonly challenge: string | null;
  readonly body: Record<string, unknown>;
}

const ask = async (path: string, init: RequestInit = {}, of: Service = service): Promise<Outcome> => {
  const response = await fetch(`${of.url}${path}`, init);
  return {
    status: response.status,
    challenge: response.headers.get('www-authenticate'),
    body: (await response.json()) as Record<string, unknown>,
  };
};

const authorization = (value: string): RequestInit => ({ headers: { authorization: value } });

const bearer = (token: string): RequestInit => authorization(`Bearer ${token}`);

/** What a service answers to lines that no well-behaved client sends. */
const raw = (...lines: string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(service.port, '127.0.0.1')
      .on('data', (data) => (answer += data.toString()))
      .on('close', () => {
        resolve(answer);
      })
      .on('error', reject);
    socket.write([...lines, 'Host: x', 'Connection: close', '', ''].join('\r\n'));
  });

describe('a good token', () => {
  test('lets its owner in, the first time and again', async () => {
    const token = await mint.token({ sub: 'zoe' });
    const zoe = { status: 200, body: { owner: 'zoe' } };
    expect(await ask('/plants', bearer(token))).toMatchObject(zoe);
    expect(await ask('/plants', bearer(token))).toMatchObject(zoe);
  });

  test.each(['bearer', 'BEARER', 'Bearer  '])('may follow the word %j', async (word) => {
    expect((await ask('/plants', authorization(`${word} ${await mint.token()}`))).status).toBe(200);
  });

  test('may nearly fill the header, as one with hundreds of groups does', async () => {
    const token = await mint.token({ sub: 'zoe', groups: 'x'.repeat(11_500) });
    expect(token.length).toBeGreaterThan(15_000);
    expect(await ask('/plants', bearer(token))).toMatchObject({ status: 200, body: { owner: 'zoe' } });
  });

  test('does not mix up those who ask at the same time', async () => {
    const owners = Array.from({ length: 50 }, (_, index) => `owner ${index}`);
    const outcomes = await Promise.all(
      owners.map(async (sub) => ask('/plants', bearer(await mint.token({ sub })))),
    );
    expect(outcomes.map(({ body }) => body.owner)).toEqual(owners);
  });

  test('of another service in the same process is not good here', async () => {
    const others = await TokenMint.make('two');
    const elsewhere = await startIssuer(others.publicJwk);
    const other = await start(elsewhere);
    try {
      expect((await ask('/plants', bearer(await others.token()), other)).status).toBe(200);
      expect((await ask('/plants', bearer(await others.token()))).status).toBe(401);
      expect((await ask('/plants', bearer(await mint.token()))).status).toBe(200);
    } finally {
      await other.close();
      await elsewhere.stop();
    }
  });
});

describe('without a token', () => {
  const cases: [string, RequestInit][] = [
    ['no header', {}],
    ['an empty header', authorization('')],
    ['another scheme', authorization('Basic YWRhOnNlY3JldA==')],
    ['a scheme that begins alike', authorization('BearerX abc')],
  ];
  test.each(cases)('%s: a challenge that names no error', async (_name, init) => {
    expect(await ask('/plants', init)).toMatchObject({
      status: 401,
      challenge: 'Bearer realm="plants"',
      body: { code: 'token_missing' },
    });
  });

  test('what is not guarded is open, but names nobody', async () => {
    expect(await ask('/open')).toMatchObject({
      status: 500,
      body: { message: 'Error: this handler is not behind BearerGuard' },
    });
  });
});

describe('a header that is malformed', () => {
  test.each([
    'Bearer',
    'Bearer a b',
    'Bearer a, Bearer b',
    'Bearer "a"',
    'Bearer a=b',
    'Bearer, a',
    'Bearer ü',
  ])('%s', async (value) => {
    const outcome = await ask('/plants', authorization(value));
    expect(outcome).toMatchObject({ status: 400, body: { code: 'token_malformed' } });
    expect(outcome.challenge).toBe(
      'Bearer realm="plants", error="invalid_request", error_description="the Authorization header must be the word Bearer, a space and the token"',
    );
  });
});

describe('a token that does not hold', () => {
  const kinds: (keyof BadTokens)[] = [
    'expired',
    'otherAudience',
    'unsigned',
    'otherKey',
    'tamperedPayload',
    'noJwt',
  ];
  test.each(kinds)('%s', async (kind) => {
    const outcome = await ask('/plants', bearer(bad[kind]));
    expect(outcome).toMatchObject({ status: 401, body: { code: 'token_invalid' } });
    expect(outcome.challenge).toMatch(
      /^Bearer realm="plants", error="invalid_token", error_description="[^"]+"$/,
    );
    expect(JSON.stringify(outcome)).not.toContain(bad[kind].slice(0, 40) + '.');
  });

  test('says why', async () => {
    expect(await ask('/plants', bearer(bad.expired))).toMatchObject({
      challenge: 'Bearer realm="plants", error="invalid_token", error_description="the token has expired"',
      body: { message: 'The token has expired.' },
    });
  });
});

describe('two Authorization headers', () => {
  test.each([
    ['Authorization', 'authorization'],
    ['Authorization', 'Authorization'],
    ['AUTHORIZATION', 'aUTHORIZATION'],
  ])('%s and %s are refused, even if both hold the same good token', async (one, other) => {
    const token = await mint.token();
    const answer = await raw('GET /plants HTTP/1.1', `${one}: Bearer ${token}`, `${other}: Bearer ${token}`);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('"code":"token_repeated"');
    expect(answer).toContain('error="invalid_request"');
    expect(answer).not.toContain(token);
  });
});

describe('a token elsewhere', () => {
  test.each([
    '?access_token=',
    '?limit=1&access_token=',
    '?access%5Ftoken=',
    '?access%5ftoken=',
    '?%61ccess_tok%65n=',
    '?x=%&access_token=',
    '??access_token=&access_token=',
  ])('in the query %s is refused, with a good header and without', async (query) => {
    const token = await mint.token();
    for (const init of [{}, bearer(token)]) {
      const outcome = await ask(`/plants${query}${token}`, init);
      expect(outcome).toMatchObject({ status: 400, body: { code: 'token_misplaced' } });
      expect(outcome.challenge).toContain('error="invalid_request"');
      expect(JSON.stringify(outcome)).not.toContain(token);
    }
  });

  test.each(['application/x-www-form-urlencoded', 'application/json'])(
    'in a body of the type %s is not even looked at',
    async (type) => {
      const token = await mint.token();
      const body = type.endsWith('json') ? JSON.stringify({ access_token: token }) : `access_token=${token}`;
      const outcome = await ask('/plants', { method: 'POST', headers: { 'content-type': type }, body });
      expect(outcome).toMatchObject({ status: 401, body: { code: 'token_missing' } });
    },
  );

  test('in a body does not replace the one in the header', async () => {
    const outcome = await ask('/plants', {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        authorization: `Bearer ${await mint.token({ sub: 'ada' })}`,
      },
      body: `access_token=${await mint.token({ sub: 'eve' })}`,
    });
    expect(outcome).toMatchObject({ status: 201, body: { owner: 'ada' } });
  });
});

describe('scopes', () => {
  test('that the token lacks are named', async () => {
    const token = await mint.token({ scope: 'plants:read' });
    expect((await ask('/plants', bearer(token))).status).toBe(200);
    expect(await ask('/plants', { ...bearer(token), method: 'POST' })).toMatchObject({
      status: 403,
      challenge:
        'Bearer realm="plants", error="insufficient_scope", error_description="this needs a token with the scope plants:write", scope="plants:write"',
      body: { code: 'scope_missing', message: 'This needs a token with the scope plants:write.' },
    });
  });

  test('are all needed', async () => {
    const status = async (scope: string): Promise<number> =>
      (await ask('/plants', { ...bearer(await mint.token({ scope })), method: 'DELETE' })).status;
    expect(await status('plants:operate')).toBe(403);
    expect(await status('plants:audit plants:operate')).toBe(200);
  });

  test('an empty scope claim allows nothing, none at all reading and writing only', async () => {
    const status = async (claims: object, method: string): Promise<number> =>
      (await ask('/plants', { ...bearer(await mint.token({ ...claims })), method })).status;
    expect(await status({ scope: '' }, 'GET')).toBe(403);
    expect(await status({}, 'GET')).toBe(200);
    expect(await status({}, 'POST')).toBe(201);
    expect(await status({}, 'DELETE')).toBe(403);
  });

  test('that we forgot to state do not open a handler', async () => {
    expect(await ask('/plants/forgotten', bearer(await mint.token()))).toMatchObject({
      status: 500,
      body: { message: 'Error: PlantsController.forgotten has no @Scopes' },
    });
  });
});

test('when the keys cannot be had, nobody is told that their token is bad', async () => {
  const silent = await startIssuer(mint.publicJwk);
  const other = await start(silent);
  try {
    silent.answer(500, '');
    expect((await ask('/plants', bearer(await mint.token()), other)).status).toBe(503);
  } finally {
    await other.close();
    await silent.stop();
  }
});

describe('a rate limit', () => {
  test('holds for each owner, over all of their tokens, and for refused requests too', async () => {
    const limited = await start(issuer, new CountedRateLimit('owner', 2));
    try {
      const status = async (sub: string, claims: object = {}): Promise<number> =>
        (await ask('/plants', bearer(await mint.token({ sub, ...claims })), limited)).status;
      expect(await status('ada')).toBe(200);
      expect(await status('ada', { scope: '' })).toBe(403);
      expect(await status('ada', { client_id: 'other' })).toBe(429);
      expect(await status('bob')).toBe(200);
    } finally {
      await limited.close();
    }
  });

  test('says when to come back', async () => {
    const limit = new CountedRateLimit('owner', 1);
    await limit.take('ada');
    const failure = await limit.take('ada').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RateLimited);
    const { perMinute, remaining, resetSeconds } = (failure as RateLimited).quota;
    expect([perMinute, remaining]).toEqual([1, 0]);
    expect(resetSeconds).toBeGreaterThan(50);
    expect(resetSeconds).toBeLessThanOrEqual(60);
  });
});

test('a challenge holds only what RFC 6750 allows in it', () => {
  expect(AuthError.invalid('a claim ("tenänt\\")\r\n🌱').challenge).toBe(
    'Bearer realm="plants", error="invalid_token", error_description="a claim (\'ten?nt?\')???"',
  );
});
