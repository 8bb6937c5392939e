import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { Controller, Inject, Optional } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { type FastifyReply } from 'fastify';
import { Freshness } from '../../lists/freshness.js';
import { EnsurePlant } from '../../commands/plants.js';
import { EventStreams } from '../audit/event-streams.js';
import { type GuardedRequest } from '../auth/principal.js';
import { RateLimit } from '../auth/rate-limit.js';
import { requestLog } from '../correlation.js';
import { InFlightLimit } from '../in-flight-limit.js';
import { LINES_TYPES, linesIn, readWhole } from '../long-bodies.js';
import { Problem } from '../problem.js';
import { refuseMediaType } from '../requests.js';
import { type Asked, HandlesAndSends } from '../route.js';
import { Import } from './import.js';
import { MAX_IMPORT_BYTES, MAX_IMPORT_LINES } from './import-schemas.js';
import { plantRequestOf } from './plant-request.js';
import { plantRoutes } from './plant-routes.js';

/** Imports of all owners in progress: each keeps a body of a megabyte, and 32 of its plants are being written. */
export const IMPORTS_AT_ONCE = 20;

/** The answers to imports, for Nest: their number is their own. */
export const IMPORT_STREAMS = Symbol('IMPORT_STREAMS');

/** Imports of one owner in progress in this process: another one would only wait for the same disk. */
const IMPORTS_OF_AN_OWNER = 2;

/** Adds many plants with one request: a line of JSON each, and a line with its outcome for each. */
@Controller()
export class ImportController {
  readonly #imports = new InFlightLimit(IMPORTS_OF_AN_OWNER);
  /** Of all owners, those among them whose bodies are still arriving. */
  readonly #all = new InFlightLimit(IMPORTS_AT_ONCE, tooManyImports);

  constructor(
    private readonly commands: CommandBus,
    private readonly freshness: Freshness,
    @Inject(IMPORT_STREAMS) private readonly streams: EventStreams,
    @Optional() @Inject(RateLimit) private readonly rateLimit?: RateLimit,
  ) {}

  @HandlesAndSends(plantRoutes.importPlants)
  async import({ request, type }: Asked<typeof plantRoutes.importPlants>, reply: FastifyReply) {
    const { owner, context } = plantRequestOf(request);
    await this.#imports.run(owner, () =>
      this.#all.run('', async () => {
        const lines = await linesOf(request);
        const run = new Import(owner, {
          // The request itself was counted for the first line.
          count: async (line) => {
            if (line > 1) await this.rateLimit?.take(owner);
          },
          ensure: (plant) =>
            this.commands.execute(
              new EnsurePlant(
                { owner, key: undefined, context: { ...context, commandId: randomUUID() } },
                plant,
              ),
            ),
          freshness: this.freshness,
          onFailure: (error) => {
            requestLog(request).error({ err: error }, 'a line of an import failed');
          },
        });
        await this.streams.send(request, reply, type, ({ gone, over }) => run.answer(lines, gone, over));
      }),
    );
  }
}

const tooManyImports = (): Problem =>
  new Problem(
    'too_many_streams',
    `The limit of imports in progress (${IMPORTS_AT_ONCE}) is reached: try again in some seconds.`,
    { headers: { 'Retry-After': '5' } },
  );

/** The lines of the body, all of them: nothing is written before the whole request is known to be acceptable. */
const linesOf = async (request: GuardedRequest): Promise<readonly Buffer[]> => {
  const { body } = request;
  if (body !== undefined && body !== null) refuseMediaType(request, LINES_TYPES);
  const bytes = body instanceof Readable ? await readWhole(body, MAX_IMPORT_BYTES) : Buffer.alloc(0);
  if (bytes.length === 0)
    throw new Problem('malformed_json', 'The body is empty. Send a line of JSON for each plant.');
  const lines = [...linesIn(bytes)];
  if (lines.length > MAX_IMPORT_LINES)
    throw new Problem('body_too_large', `The body must have at most ${MAX_IMPORT_LINES} lines.`);
  return lines;
};
