import 'reflect-metadata';
import { type DynamicModule } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { type Logger } from 'pino';
import { AppModule, MetricsModule, type Parts } from './app.module.js';
import { type ResponseObserver } from './request-log.js';
import { answerOptions } from './cors.js';
import { consoleFiles } from './console/files.js';
import { serveConsole } from './console/console.js';
import { serveDocs } from './openapi/docs.js';
import { keptDocuments } from './openapi/documents.js';
import { documentFiles } from './openapi/page.js';
import { limitStrangers } from './auth/stranger-limit.js';
import { HealthController } from './health/health.controller.js';
import { ListAnswers } from './lists/list-answer.js';
import { answerListsFast } from './lists/list-fast-path.js';
import { Pipelining } from './pipelining.js';
import { ProblemFilter } from './problem.filter.js';
import { serveProblems } from './problem-page.js';
import { KnownRoutes } from './routes.js';
import { createHttpAdapter } from './server.js';
import { refuseTooMuch, ResponseBackpressure } from './response-backpressure.js';
import { nestLogger } from '../service/logging/logger.js';
import { showConnections } from '../service/metrics/connections.js';
import { showReadiness } from '../service/metrics/readiness.js';
import { type Tracing } from '../service/tracing/tracing.js';

export interface Surroundings {
  readonly logger: Logger;
  readonly version: string;
  readonly tracing: Tracing | undefined;
  /** Called after each answer. */
  readonly onAnswered: ResponseObserver;
}

/** Puts the HTTP service together. It does not listen yet. */
export const createApp = async (
  parts: Omit<Parts, 'routes'>,
  { logger, version, tracing, onAnswered }: Surroundings,
): Promise<NestFastifyApplication> => {
  const routes = new KnownRoutes();
  const adapter = createHttpAdapter(logger, routes, onAnswered, parts.shutdown, parts.corsOrigins);
  const unsent = new ResponseBackpressure(adapter.getHttpServer());
  refuseTooMuch(adapter.getInstance(), unsent);
  answerOptions(adapter.getInstance(), routes, parts.corsOrigins);
  tracing?.requests(adapter.getInstance());
  const { strangerLimit: limit, verifier, clientAddressOf } = parts;
  if (limit) limitStrangers(adapter.getInstance(), { limit, verifier, clientAddressOf });
  const app = await createNest(AppModule.of({ ...parts, routes }), adapter, logger);
  showReadiness(parts.registry, () => app.get(HealthController).parts());
  serveProblems(adapter.getInstance());
  if (parts.docs) serveDocs(adapter.getInstance(), async () => keptDocuments(await documentFiles(version)));
  if (parts.console) {
    const { signIn } = parts.console;
    const about = { version, ...parts.console };
    serveConsole(adapter.getInstance(), signIn ? [new URL(signIn.issuer).origin] : [], () =>
      consoleFiles(about),
    );
  }
  // Spans and rate limits are Fastify's and Nest's.
  if (parts.roles.has('api') && !tracing && !parts.rateLimit)
    answerListsFast(adapter.getHttpServer(), {
      verifier,
      verifiesNewTokens: !limit,
      lists: app.get(ListAnswers),
      crossOrigin: parts.corsOrigins.length > 0,
      admits: (response, bytes) => unsent.admits(response, bytes),
      onAnswered,
      onError: (error) => {
        logger.error({ err: error }, 'a list failed');
      },
    });
  showConnections(parts.registry, unsent, Pipelining.before(adapter.getHttpServer()));
  return app;
};

/** The same for an address that has the figures and health alone, under the same limits. It does not listen yet. */
export const createMetricsApp = async (
  parts: Omit<Parts, 'routes'>,
  { logger, onAnswered }: Pick<Surroundings, 'logger' | 'onAnswered'>,
): Promise<NestFastifyApplication> => {
  const routes = new KnownRoutes();
  const adapter = createHttpAdapter(logger, routes, onAnswered, parts.shutdown);
  refuseTooMuch(adapter.getInstance(), new ResponseBackpressure(adapter.getHttpServer()));
  answerOptions(adapter.getInstance(), routes, []);
  const app = await createNest(MetricsModule.of({ ...parts, routes }), adapter, logger);
  Pipelining.before(adapter.getHttpServer());
  return app;
};

const createNest = async (
  module: DynamicModule,
  adapter: FastifyAdapter,
  logger: Logger,
): Promise<NestFastifyApplication> => {
  const app = await NestFactory.create<NestFastifyApplication>(module, adapter, {
    bodyParser: false,
    logger: nestLogger(logger),
    abortOnError: false,
  });
  app.useGlobalFilters(app.get(ProblemFilter));
  return app;
};
