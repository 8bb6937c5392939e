import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type ArgumentsHost,
  Catch,
  Controller,
  Delete,
  type ExceptionFilter,
  Get,
  Module,
  Req,
  UseGuards,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { type FastifyReply } from 'fastify';
import { type AuthConfig, LOCAL_ISSUER } from '../../../src/service/auth-config.js';
import { InvalidToken } from '../../../src/http/auth/auth-error.js';
import { BearerGuard, Scopes } from '../../../src/http/auth/bearer.guard.js';
import { BearerStrategy } from '../../../src/http/auth/bearer.strategy.js';
import { type GuardedRequest, principalOf } from '../../../src/http/auth/principal.js';
import { IssuerKeys } from '../../../src/http/auth/issuer-keys.js';
import { TokenVerifier } from '../../../src/http/auth/verify.js';
import { Problem } from '../../../src/http/problem.js';
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
    const status = error instanceof Problem ? error.status : 500;
    void reply.status(status).send({ message: String(error) });
  }
}

interface Service {
  readonly url: string;
  close(): Promise<void>;
}

const start = async (issuer: Issuer): Promise<Service> => {
  const auth: AuthConfig = { kind: 'local', issuer: LOCAL_ISSUER, audiences: ['plants'], ownerClaim: 'sub' };
  @Module({
    controllers: [PlantsController, OpenController],
    providers: [
      BearerStrategy,
      { provide: TokenVerifier, useValue: new TokenVerifier(auth, new IssuerKeys(issuer.jwksUrl)) },
    ],
  })
  class ServiceModule {}
  const app = await NestFactory.create<NestFastifyApplication>(ServiceModule, new FastifyAdapter(), {
    logger: false,
  });
  app.useGlobalFilters(new Answer());
  await app.listen(0, '127.0.0.1');
  return { url: await app.getUrl(), close: () => app.close() };
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
  readonly body: Record<string, unknown>;
}

const ask = async (path: string, init: RequestInit = {}, of: Service = service): Promise<Outcome> => {
  const response = await fetch(`${of.url}${path}`, init);
  return {
    status: response.status,
    body: (await response.json()) as Record<string, unknown>,
  };
};

const bearer = (token: string): RequestInit => ({ headers: { authorization: `Bearer ${token}` } });

describe('a good token', () => {
  test('may nearly fill the header, as one with hundreds of groups does', async () => {
    const token = await mint.token({ sub: 'zoe', groups: 'x'.repeat(11_500) });
    expect(token.length).toBeGreaterThan(15_000);
    expect(await ask('/plants', bearer(token))).toMatchObject({ status: 200, body: { owner: 'zoe' } });
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

test('a challenge holds only what RFC 6750 allows in it', () => {
  expect(new InvalidToken('a claim ("tenänt\\")\r\n🌱').extra.headers?.['WWW-Authenticate']).toBe(
    'Bearer realm="plants", error="invalid_token", error_description="a claim (\'ten?nt?\')???"',
  );
});
