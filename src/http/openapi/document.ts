import { auditRoutes } from '../audit/audit-routes.js';
import { healthRoutes } from '../health/health-routes.js';
import { logRoutes } from '../log/log-routes.js';
import { erasureRoutes } from '../operations/erasure-routes.js';
import { operationRoutes } from '../operations/operation-routes.js';
import { plantRoutes } from '../plants/plant-routes.js';
import { type Route, type Routes } from '../route.js';
import { operationOf } from './operation.js';

const ROUTE_NOT_FOUND = 'A process without it answers 404 `route_not_found`.';

/** The routes of each area. */
const AREAS: Readonly<Record<string, Routes>> = {
  plants: plantRoutes,
  audit: auditRoutes,
  log: logRoutes,
  operations: { ...operationRoutes, ...erasureRoutes },
  health: healthRoutes,
};

/**
 * The API's document (OpenAPI 3.1). It is the same from every process, whatever its roles: clients that are generated
 * from it go to all of them, behind one address.
 */
export const apiDocument = (version: string) => {
  const paths: Record<string, Record<string, object>> = {};
  const schemas: Record<string, unknown> = {};
  for (const [area, routes] of Object.entries(AREAS))
    for (const [id, route] of Object.entries<Route>(routes))
      (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(id, area, route, schemas);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Plant store',
      description:
        'Add, list and delete your plants. Every error is a problem document (RFC 9457) with a `code`.',
      version,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '.', description: 'Where this document comes from.' }],
    tags: [
      { name: 'plants', description: `Your plants. Served by the role \`api\`. ${ROUTE_NOT_FOUND}` },
      {
        name: 'audit',
        description: `All events, for auditors. Served by the role \`api\`. ${ROUTE_NOT_FOUND}`,
      },
      {
        name: 'log',
        description: `The signed tree over all events, for auditors and witnesses. Served by the role \`auditor\`. ${ROUTE_NOT_FOUND}`,
      },
      { name: 'operations', description: `For operators. Served by the role \`api\`. ${ROUTE_NOT_FOUND}` },
      { name: 'health', description: 'Served by every process.' },
    ],
    paths,
    components: {
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description: 'From `plants token`, or from the issuer.',
        },
      },
      schemas,
    },
  };
};
