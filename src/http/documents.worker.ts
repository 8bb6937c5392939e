import 'reflect-metadata';
import { parentPort, workerData } from 'node:worker_threads';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Registry } from 'prom-client';
import { AppModule, type Parts } from '../app.module.js';
import { type DocumentFile, type Documented } from './documents.js';
import { openDocs } from './openapi.js';
import { KnownRoutes } from './routes.js';

/** What the page needs; its source maps are for those who develop it. */
const PATHS = [
  ...['/openapi.json', '/docs', '/docs/swagger-ui-init.js', '/docs/swagger-ui-bundle.js'],
  ...['/docs/swagger-ui-standalone-preset.js', '/docs/swagger-ui.css'],
  ...['/docs/favicon-16x16.png', '/docs/favicon-32x32.png'],
];

const { version, roles, audited } = workerData as Documented;

/** The service as it is put together, without stores: only its handlers are looked at, and none is called. */
const parts = {
  roles: new Set(roles),
  tree: audited ? {} : undefined,
  registry: new Registry(),
  routes: new KnownRoutes(),
} as unknown as Parts;

const app = await NestFactory.create(AppModule.of(parts), new FastifyAdapter(), {
  logger: false,
  abortOnError: false,
});
const docs = await openDocs(app, version);
const files: DocumentFile[] = [];
for (const path of PATHS) {
  const answer = await docs({ url: path, headers: {} });
  if (answer?.status !== 200 || !answer.body) throw new Error(`there is no ${path}`);
  files.push({ path, type: answer.headers['content-type'] ?? '', body: answer.body });
}
parentPort?.postMessage(files);
