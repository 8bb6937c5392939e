import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Writable } from 'node:stream';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type NestFastifyApplication } from '@nestjs/platform-fastify';
import { type FastifyInstance } from 'fastify';
import { type Docs, serveDocs } from '../../../src/http/openapi/docs.js';
import { ProblemFilter } from '../../../src/http/problem.filter.js';
import { KnownRoutes } from '../../../src/http/routes.js';
import { createHttpAdapter } from '../../../src/http/server.js';
import { Shutdown } from '../../../src/http/shutdown.js';
import { createLogger } from '../../../src/service/logging/logger.js';
import { until } from '../../support/waiting.js';

const ANSWER = { status: 200, headers: { 'content-type': 'text/plain' }, body: Buffer.from('the page') };
const PAGE: Docs = (request) => Promise.resolve(request.url === '/docs/nothing' ? undefined : ANSWER);

@Module({})
class Nothing {}

describe('the API document and its page', () => {
  let app: NestFastifyApplication;
  let url: string;
  let opening: { readonly succeed: (docs: Docs) => void; readonly fail: (error: Error) => void }[];
  let logged: string[];
  let arrived: number;

  beforeEach(async () => {
    opening = [];
    logged = [];
    arrived = 0;
    const routes = new KnownRoutes();
    const log = new Writable({
      write: (line: Buffer, _encoding, done) => {
        logged.push(line.toString());
        done();
      },
    });
    const adapter = createHttpAdapter(createLogger('warn', log), routes, () => undefined, new Shutdown(0));
    app = await NestFactory.create<NestFastifyApplication>(Nothing, adapter, {
      logger: false,
      abortOnError: false,
    });
    app.useGlobalFilters(new ProblemFilter(routes));
    adapter.getInstance<FastifyInstance>().addHook('preHandler', (_request, _reply, done) => {
      arrived += 1;
      done();
    });
    serveDocs(
      adapter.getInstance(),
      () => new Promise<Docs>((succeed, fail) => opening.push({ succeed, fail })),
    );
    await app.listen(0, '127.0.0.1');
    url = await app.getUrl();
  });
  afterEach(() => app.close());

  const ask = async (path: string): Promise<string> => {
    const answer = await fetch(new URL(path, url));
    const text = await answer.text();
    return answer.ok ? text : (JSON.parse(text) as { code: string }).code;
  };
  /** Asks, and returns when all have arrived, and as many openings were begun since the start. */
  const asking = async (begun: number, ...paths: string[]): Promise<Promise<string[]>[]> => {
    const awaited = arrived + paths.length;
    const asked = Promise.all(paths.map(ask));
    await until(() => arrived === awaited && opening.length === begun);
    return [asked];
  };

  it('are not opened before somebody asks', () => {
    expect(opening).toEqual([]);
  });

  it('are opened once, for all who ask meanwhile and later', async () => {
    const [answers] = await asking(1, '/docs', '/openapi.json', '/docs/some.css');
    opening[0]?.succeed(PAGE);
    expect(await answers).toEqual(['the page', 'the page', 'the page']);
    expect(await ask('/docs')).toBe('the page');
    expect(opening).toHaveLength(1);
  });

  it('that cannot be opened are a problem of ours, and the next who asks tries again', async () => {
    const [answers] = await asking(1, '/docs', '/openapi.json');
    opening[0]?.fail(new Error('no such module'));
    expect(await answers).toEqual(['internal_error', 'internal_error']);
    expect(logged).toEqual(Array(2).fill(expect.stringMatching(/"level":"error".*no such module/)));
    const [again] = await asking(2, '/docs');
    opening[1]?.succeed(PAGE);
    expect(await again).toEqual(['the page']);
  });

  it('that fail for one request fail for that one', async () => {
    const [answers] = await asking(1, '/docs');
    let failing = true;
    opening[0]?.succeed((request) => (failing ? Promise.reject(new Error('torn')) : PAGE(request)));
    expect(await answers).toEqual(['internal_error']);
    expect(logged).toEqual([expect.stringContaining('torn')]);
    failing = false;
    expect(await ask('/docs')).toBe('the page');
  });

  it('answer what they do not have as everything does that is not there', async () => {
    const [answers] = await asking(1, '/docs/nothing');
    opening[0]?.succeed(PAGE);
    expect(await answers).toEqual(['route_not_found']);
    expect(logged).toEqual([]);
  });
});
