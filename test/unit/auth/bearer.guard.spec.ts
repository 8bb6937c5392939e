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
import { TokenMint } from '../../support/auth-tokens.js';

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
let issuer: Issuer;
let service: Service;

beforeAll(async () => {
  mint = await TokenMint.make('one');
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

describe('a good token', () => {
  test('lets its owner in, the first time and again', async () => {
    const token = await mint.token({ sub: 'zoe' });
    const zoe = { status: 200, body: { owner: 'zoe' } };
    expect(await ask('/plants', bearer(token))).toMatchObject(zoe);
    expect(await ask('/plants', bearer(token))).toMatchObject(zoe);
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

test('what is not guarded is open, but names nobody', async () => {
  expect(await ask('/open')).toMatchObject({
    status: 500,
    body: { message: 'Error: this handler is not behind BearerGuard' },
  });
});

describe('scopes', () => {
  test('are all needed', async () => {
    const status = async (scope: string): Promise<number> =>
      (await ask('/plants', { ...bearer(await mint.token({ scope })), method: 'DELETE' })).status;
    expect(await status('plants:operate')).toBe(403);
    expect(await status('plants:audit plants:operate')).toBe(200);
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
