/* eslint-disable -- without their types, typed rules can say nothing */
// @ts-nocheck -- its packages are its own: bench/peers/package.json, installed by `npm run bench:peers` only
/**
 * The same API with Emmett, as its documentation and its sample for Express and PostgreSQL show it: a command handler
 * with evolve and initialState, one stream for each plant, and an inline projection, which writes the row of the list
 * in the transaction of the append. The projection is one of plain SQL into a table with the primary key (owner, id):
 * it does less than one that reads, changes and writes a Pongo document. No log of requests.
 */
import { createSecretKey } from 'node:crypto';
import { SQL } from '@event-driven-io/dumbo';
import { CommandHandler, projections } from '@event-driven-io/emmett';
import { HttpResponse, NoContent, OK, getApplication, on, startAPI } from '@event-driven-io/emmett-expressjs';
import { getPostgreSQLEventStore, postgreSQLRawSQLProjection } from '@event-driven-io/emmett-postgresql';
import jwt from 'jsonwebtoken';
import pg from 'pg';

const MAX_LIMIT = 1_000;
const connectionString = process.env.DATABASE_URL;

const rows = postgreSQLRawSQLProjection({
  name: 'plants',
  canHandle: ['PlantCreated', 'PlantDeleted'],
  evolve: ({ type, data: { owner, id, name, tag } }) =>
    type === 'PlantCreated'
      ? SQL`INSERT INTO plants (owner, id, name, tag) VALUES (${owner}, ${id}, ${name}, ${tag})`
      : SQL`DELETE FROM plants WHERE owner = ${owner} AND id = ${id}`,
  init: () =>
    SQL`CREATE TABLE IF NOT EXISTS plants (owner text, id bigint, name text NOT NULL, tag text NOT NULL, PRIMARY KEY (owner, id))`,
});

const pool = new pg.Pool({ connectionString, max: Number(process.env.POOL_SIZE) });
const eventStore = getPostgreSQLEventStore(connectionString, {
  projections: projections.inline([rows]),
  connectionOptions: { pool },
});
await eventStore.schema.migrate();

const handle = CommandHandler({
  evolve: (_state, { type }) => (type === 'PlantCreated' ? 'present' : 'absent'),
  initialState: () => 'absent',
});

/** An error that Express answers with this status. */
const refused = (status: number, message: string) => Object.assign(new Error(message), { status });

/** As a key, once: from a text, jsonwebtoken tries with each request to read a public key, which takes half of it. */
const SECRET = createSecretKey(Buffer.from(process.env.JWT_SECRET));

const authenticate = (request, _response, next) => {
  const [type, token] = request.headers.authorization?.split(' ') ?? [];
  try {
    if (type !== 'Bearer') throw new Error('no token');
    request.owner = jwt.verify(token, SECRET, { algorithms: ['HS256'] }).sub;
    next();
  } catch {
    next(refused(401, 'the token is missing or not good'));
  }
};

const isText = (value: unknown, least: number): boolean =>
  typeof value === 'string' && value.length >= least && value.length <= 200 && !/\p{Cc}/u.test(value);

const newPlant = ({ name, tag, id, ...others }) => {
  if (!isText(name, 1) || !isText(tag, 0) || !Number.isSafeInteger(id) || Object.keys(others).length > 0)
    throw refused(400, 'this is no plant');
  return { name, tag, id };
};

const streamOf = (owner: string, id: number): string => `plant-${encodeURIComponent(owner)}/${id}`;

const plants = (router) => {
  router.post(
    '/plants',
    authenticate,
    on(async ({ owner, body }) => {
      const plant = newPlant(body);
      await handle(eventStore, streamOf(owner, plant.id), (state) => {
        if (state === 'present') throw refused(409, 'you have that plant');
        return { type: 'PlantCreated', data: { owner, ...plant } };
      });
      return HttpResponse(201, {
        location: `/plants/${plant.id}`,
        body: { name: plant.name, tag: plant.tag },
      });
    }),
  );

  router.get(
    '/plants',
    authenticate,
    on(async ({ owner, query }) => {
      const limit = Number(query.limit ?? 100);
      if (!Number.isSafeInteger(limit) || limit < 1) throw refused(400, 'limit must be an integer from 1');
      const { rows: found } = await pool.query(
        'SELECT name, tag FROM plants WHERE owner = $1 ORDER BY id LIMIT $2',
        [owner, Math.min(limit, MAX_LIMIT)],
      );
      return OK({ body: found });
    }),
  );

  router.delete(
    '/plants/:id',
    authenticate,
    on(async ({ owner, params }) => {
      const id = Number(params.id);
      if (!Number.isSafeInteger(id)) throw refused(400, 'id must be an integer');
      await handle(eventStore, streamOf(owner, id), (state) => {
        if (state === 'absent') throw refused(404, 'there is no such plant');
        return { type: 'PlantDeleted', data: { owner, id } };
      });
      return NoContent();
    }),
  );
};

const application = getApplication({
  apis: [plants],
  mapError: (error) =>
    error.status ? { status: error.status, title: error.message, type: 'about:blank' } : undefined,
});
const server = startAPI(application, { port: Number(process.env.PORT) });
process.once('SIGTERM', () => {
  server.close(() => process.exit(0));
  server.closeAllConnections();
});
