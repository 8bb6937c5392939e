/**
 * The same API without events, as somebody who knows these tools writes it in an hour: Fastify with compiled schemas of
 * bodies and answers, one table in SQLite that is written as durably as the log, prepared statements, and a cache of
 * verified tokens. No log of requests. Run by the benchmark, in a process of its own.
 */
import fastify, { type FastifyRequest } from 'fastify';
import { importJWK, type JWK, jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import { DatabaseSync } from '../src/sqlite/database.js';

const { PORT, DATABASE = '', PUBLIC_JWK = '', ISSUER = '', AUDIENCE = '' } = process.env;

const MAX_LIMIT = 1_000;

/** More than the tokens of any workload, so that it verifies each of them once. */
const KEPT_TOKENS = 200_000;

const object = (properties: Record<string, object>) =>
  ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false }) as const;
const text = (minLength: number) => ({ type: 'string', minLength, maxLength: 200, pattern: '^\\P{Cc}*$' });
const id = { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
const newPlant = object({ name: text(1), tag: text(0), id });
const plant = object({ name: { type: 'string' }, tag: { type: 'string' } });
const listQuery = { type: 'object', properties: { limit: { type: 'string', pattern: '^[1-9]\\d{0,9}$' } } };
const plantPath = object({ id: { type: 'string', pattern: '^(0|-?[1-9]\\d{0,15})$' } });

const db = new DatabaseSync(DATABASE);
db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000');
db.exec(
  'CREATE TABLE IF NOT EXISTS plants (owner TEXT, id INTEGER, name TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (owner, id)) STRICT, WITHOUT ROWID',
);
const insertPlant = db.prepare(
  'INSERT INTO plants (owner, id, name, tag) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
);
const selectPlants = db.prepare('SELECT name, tag FROM plants WHERE owner = ? ORDER BY id LIMIT ?');
const deletePlant = db.prepare('DELETE FROM plants WHERE owner = ? AND id = ?');

const key = await importJWK(JSON.parse(PUBLIC_JWK) as JWK, 'ES256');
const verified = new LRUCache<string, { readonly owner: string; readonly expires: number }>({
  max: KEPT_TOKENS,
});

/** The owner of a token. Throws where the token is not good. */
const ownerOfToken = async (token: string): Promise<string> => {
  const known = verified.get(token);
  if (known && known.expires > Date.now()) return known.owner;
  const { payload } = await jwtVerify(token, key, {
    issuer: ISSUER,
    audience: AUDIENCE,
    algorithms: ['ES256'],
    requiredClaims: ['sub', 'exp'],
  });
  const { sub: owner = '', exp = 0 } = payload;
  verified.set(token, { owner, expires: exp * 1_000 });
  return owner;
};

/** Fastify sends it with its status. */
const refusal = (statusCode: number, message: string): Error =>
  Object.assign(new Error(message), { statusCode });

const app = fastify({ ajv: { customOptions: { coerceTypes: false, removeAdditional: false } } });

const ownerOf = (request: FastifyRequest): string => request.getDecorator<string>('owner');
app.decorateRequest('owner', '');
app.addHook('onRequest', async (request, reply) => {
  const [scheme, token] = request.headers.authorization?.split(' ') ?? [];
  try {
    if (scheme !== 'Bearer' || token === undefined) throw new Error('no token');
    request.setDecorator('owner', await ownerOfToken(token));
  } catch {
    void reply.header('www-authenticate', 'Bearer');
    throw refusal(401, 'the token is missing or not good');
  }
});

app.post<{ Body: { readonly name: string; readonly tag: string; readonly id: number } }>(
  '/plants',
  { schema: { body: newPlant, response: { 201: plant } } },
  (request, reply) => {
    const { name, tag, id } = request.body;
    if (insertPlant.run(ownerOf(request), id, name, tag).changes === 0)
      throw refusal(409, 'you have that plant');
    return reply.code(201).header('location', `/plants/${id}`).send({ name, tag });
  },
);

app.get<{ Querystring: { limit?: string } }>(
  '/plants',
  { schema: { querystring: listQuery, response: { 200: { type: 'array', items: plant } } } },
  (request, reply) => {
    const limit = Math.min(Number(request.query.limit ?? 100), MAX_LIMIT);
    return reply.send(selectPlants.all(ownerOf(request), limit));
  },
);

app.delete<{ Params: { id: string } }>('/plants/:id', { schema: { params: plantPath } }, (request, reply) => {
  if (deletePlant.run(ownerOf(request), Number(request.params.id)).changes === 0)
    throw refusal(404, 'there is no such plant');
  return reply.code(204).send();
});

// Also keeps the database: the statements of Node 20's drop-in do not, and fail once it is collected.
app.addHook('onClose', () => {
  db.close();
});
process.once('SIGTERM', () => void app.close());
await app.listen({ host: '127.0.0.1', port: Number(PORT) });
