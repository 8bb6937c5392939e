import { expect, it } from '@jest/globals';
import { KnownRoutes } from '../../../src/http/routes.js';

const routes = new KnownRoutes();
routes.add({ method: ['GET', 'HEAD'], url: '/plants' });
routes.add({ method: 'POST', url: '/plants' });
routes.add({ method: 'POST', url: '/plants' }); // Fastify may show a route again
routes.add({ method: 'DELETE', url: '/plants/:id' });
routes.add({ method: 'POST', url: '/plants/import' });
routes.add({ method: 'GET', url: '/docs/*' });

it.each<[path: string, methods: string[]]>([
  ['/plants', ['GET', 'HEAD', 'OPTIONS', 'POST']],
  ['/plants/7', ['DELETE', 'OPTIONS']],
  [`/plants/${'7'.repeat(5000)}`, ['DELETE', 'OPTIONS']],
  ['/plants/%37', ['DELETE', 'OPTIONS']],
  ['/plants/import', ['OPTIONS', 'POST']],
  ['/docs/a/b.css', ['GET', 'OPTIONS']],
  ['/plants/', []],
  ['/plants/7/name', []],
  ['/Plants', []],
  ['/', []],
  ['', []],
  ['*', []],
])('%s knows %j', (path, methods) => {
  expect(routes.methodsOf(path)).toEqual(methods);
});
