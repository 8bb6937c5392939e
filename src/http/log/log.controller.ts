import { Controller, Inject } from '@nestjs/common';
import { type FastifyReply, type FastifyRequest } from 'fastify';
import { knownPosition } from '../../history/read.js';
import { ListProofs } from '../../audit/list-proofs.js';
import { type Hash } from '../../transparency/merkle.js';
import { keyName } from '../../transparency/note.js';
import { type Entry, NotSignedYet, PublishedTree } from '../../audit/published-tree.js';
import { receiptText, tlogProofText } from '../../transparency/receipt.js';
import { MAX_LISTED } from '../../transparency/list-proof.js';
import { parseTilePath, type Tile, TILE_WIDTH, TileRefused } from '../../transparency/tiles.js';
import { ERASED_STREAMS, ownedBy } from '../../domain/stream.js';
import { EventLog } from '../../log/event-log.js';
import { type GuardedRequest, principalOf } from '../auth/principal.js';
import { InFlightLimit } from '../in-flight-limit.js';
import { logRoutes } from './log-routes.js';
import { Problem } from '../problem.js';
import { Representations } from '../representation.js';
import { invalid, splitUrl } from '../requests.js';
import { type Asked, Handles, HandlesAndSends } from '../route.js';
import { DEFAULT_LIMIT } from '../schemas.js';

/** Longest wait of a receipt for its checkpoint: WRITE_WAIT_MS. */
export const RECEIPT_WAIT = Symbol('receipt wait');

/** Proofs of lists of one owner in progress at a time: each reads as many streams as it has plants. */
const LISTS_OF_AN_OWNER = 4;

/** A checkpoint holds for a moment only: the next may come in a second. */
const MOMENT = 'public, max-age=1';

/**
 * Full tiles never change. A partial tile or a proof does not either, but nobody asks for it for long: the tile is
 * another one, or full, as soon as something is written.
 */
const FOR_EVER = 'max-age=31536000, immutable';
const FOR_A_MINUTE = 'max-age=60';
const PROOF_FOR_AN_HOUR = 'public, max-age=3600';

const BYTES = 'application/octet-stream';

/**
 * The tree over all events, for auditors and their tools. What is public tells strangers how many events there are,
 * and nothing of what they are: each leaf holds a random id. It is all that a witness needs, who has no token.
 */
@Controller()
export class LogController {
  readonly #lists = new InFlightLimit(LISTS_OF_AN_OWNER);

  constructor(
    private readonly tree: PublishedTree,
    private readonly listProofs: ListProofs,
    private readonly log: EventLog,
    private readonly representations: Representations,
    @Inject(RECEIPT_WAIT) private readonly waitMs: number,
  ) {}

  @Handles(logRoutes.readCheckpoint)
  async checkpoint(_asked: Asked<typeof logRoutes.readCheckpoint>, reply: FastifyReply): Promise<string> {
    const { note } = await this.tree.cosignedCheckpoint();
    reply.header('cache-control', MOMENT).type('text/plain; charset=utf-8');
    return note;
  }

  @Handles(logRoutes.readState)
  async state(_asked: Asked<typeof logRoutes.readState>, reply: FastifyReply): Promise<string> {
    const note = await this.tree.stateNote();
    reply.header('cache-control', MOMENT).type('text/plain; charset=utf-8');
    return note;
  }

  @HandlesAndSends(logRoutes.readEntries)
  async entries({ request }: Asked<typeof logRoutes.readEntries>, reply: FastifyReply): Promise<void> {
    const tile = await this.#tile(request);
    // Only who has a token of this scope may have it: no cache that others share.
    await this.#send(request, reply, tile, 'private');
  }

  @HandlesAndSends(logRoutes.readTile)
  async hashes({ request }: Asked<typeof logRoutes.readTile>, reply: FastifyReply): Promise<void> {
    await this.#send(request, reply, await this.#tile(request), 'public');
  }

  @Handles(logRoutes.proveInclusion)
  async inclusion({ query: { index, position, size } }: Asked<typeof logRoutes.proveInclusion>) {
    if ((index === undefined) === (position === undefined))
      throw badQuery('?index', 'must be sent, or ?position, and not both');
    const leaf =
      position === undefined
        ? index
        : (await this.tree.entryAt(await knownPosition(this.log, position, '?position')))?.index;
    if (leaf === undefined) throw notThere();
    const signed = (await this.tree.checkpoint()).size;
    const of = size ?? signed;
    if (of > signed) throw badQuery('?size', tooLarge(signed));
    if (leaf >= of) {
      if (index !== undefined)
        throw badQuery('?index', `there is no leaf ${leaf} in a tree of ${of}: they count from 0`);
      if (size === undefined) throw new NotSignedYet('no checkpoint covers this position yet');
      throw badQuery('?size', `must be at least ${leaf + 1}: the event at this position is leaf ${leaf}`);
    }
    const proof = await this.tree.inclusion(leaf, of);
    return {
      index: leaf,
      size: proof.size,
      leafHash: base64(proof.leafHash),
      root: base64(proof.root),
      proof: proof.proof.map(base64),
    };
  }

  @Handles(logRoutes.proveConsistency)
  async consistency({ query }: Asked<typeof logRoutes.proveConsistency>, reply: FastifyReply) {
    const { from, to } = query;
    const signed = (await this.tree.checkpoint()).size;
    const until = to ?? signed;
    if (until > signed) throw badQuery('?to', tooLarge(signed));
    if (from < 1 || from > until)
      throw badQuery('?from', `must be from 1 to ${until}, the size of the greater tree`);
    const proof = await this.tree.consistency(from, until);
    reply.header('cache-control', to === undefined ? MOMENT : PROOF_FOR_AN_HOUR);
    return {
      from,
      to: until,
      fromRoot: base64(proof.fromRoot),
      toRoot: base64(proof.toRoot),
      proof: proof.proof.map(base64),
    };
  }

  @Handles(logRoutes.readAlarm)
  async alarm() {
    return { alarm: (await this.tree.alarm()) ?? null };
  }

  @Handles(logRoutes.readReceipt)
  async receipt(
    { request, type, query }: Asked<typeof logRoutes.readReceipt>,
    reply: FastifyReply,
  ): Promise<string> {
    const position = await knownPosition(this.log, query.position, '?position');
    const deadline = AbortSignal.timeout(this.waitMs);
    await this.tree.covers(position, deadline);
    const entry = await this.tree.entryAt(position);
    if (!entry || !mayRead(request, entry)) throw notThere();
    // A redacted event is not what its leaf is the hash of: only GET /log/proof/inclusion proves that hash.
    if (entry.event.stream.startsWith(ERASED_STREAMS)) throw notThere();
    const { note, size, by } = await this.tree.checkpointFor(entry.index, deadline);
    const { proof } = await this.tree.inclusion(entry.index, size);
    reply.type(`${type}; charset=utf-8`);
    const textOf = type === 'text/plain' ? tlogProofText : receiptText;
    return textOf(entry.leaf, {
      index: entry.index,
      proof: proof.map(base64),
      checkpoint: note,
      ...(by ? { witnesses: by.map(({ key }) => keyName(key)) } : {}),
    });
  }

  @Handles(logRoutes.proveList)
  async list({ request, query }: Asked<typeof logRoutes.proveList>, reply: FastifyReply) {
    const { limit = DEFAULT_LIMIT, after, position } = query;
    const { owner, scopes } = principalOf(request);
    const mayShowOthers = scopes.has('plants:audit');
    const from = position && (await knownPosition(this.log, position, '?position'));
    const text = await this.#lists.run(owner, async () => {
      const deadline = AbortSignal.timeout(this.waitMs);
      if (from) await this.tree.covers(from, deadline);
      return this.listProofs.of(
        { owner, after, limit: Math.min(limit, MAX_LISTED), mayShowOthers },
        deadline,
      );
    });
    if (text === undefined) throw nothingListed();
    reply.type('application/json; charset=utf-8');
    return this.representations.choose(request, reply, text);
  }

  /** The tile that a request names, with its bytes. */
  async #tile(request: FastifyRequest): Promise<Tile & { readonly bytes: Uint8Array }> {
    const tile = tileOf(request);
    const bytes = await this.tree.tile(tile);
    if (!bytes) throw noTile();
    return { ...tile, bytes };
  }

  /** Sends a tile, or 304 to who has it. */
  async #send(
    request: FastifyRequest,
    reply: FastifyReply,
    { level, bytes, width }: Tile & { readonly bytes: Uint8Array },
    caches: 'public' | 'private',
  ): Promise<void> {
    reply.header('cache-control', `${caches}, ${width === TILE_WIDTH ? FOR_EVER : FOR_A_MINUTE}`).type(BYTES);
    // Hashes are not compressible.
    const compressible = level === 'entries';
    await reply.send(await this.representations.choose(request, reply, Buffer.from(bytes), compressible));
  }
}

/**
 * The tile that a path names, in its one spelling, but that the slashes of `{path}` may be percent-encoded: clients that
 * are generated from the API's document encode them. The slash before it may not: the router took the path for one of
 * public hashes or of entries by that slash, and with it decided who may read it.
 */
const tileOf = ({ url }: FastifyRequest): Tile => {
  const [path] = splitUrl(url);
  const [, level = '', place = ''] = /^\/log\/tile\/([^/]*)\/(.*)$/.exec(path) ?? [];
  try {
    return parseTilePath(`tile/${level}/${place.replaceAll(/%2f/gi, '/')}`);
  } catch (error) {
    if (error instanceof TileRefused) throw noTile();
    throw error;
  }
};

const noTile = (): Problem =>
  new Problem('entry_not_found', 'The tree has no such tile, or the path is not its canonical one.');

const notThere = (): Problem =>
  new Problem('entry_not_found', 'There is no event of yours at this place of the log.');

/** A proof must not show that another owner has plants (invariant 9). */
const nothingListed = (): Problem =>
  new Problem(
    'entry_not_found',
    'You have no plant. The proof of that shows a hash of the name of another owner, and takes the scope plants:audit too.',
  );

const badQuery = (pointer: string, detail: string): Problem => invalid([{ pointer, detail }]);

const tooLarge = (signed: number): string => `must be at most ${signed}, the size of the last signed tree`;

/** Allows auditors, and the owner of the plant or of the request. */
const mayRead = (request: GuardedRequest, { event }: Entry): boolean => {
  const { owner, scopes } = principalOf(request);
  return scopes.has('plants:audit') || ownedBy(owner)(event.stream);
};

const base64 = (hash: Hash): string => Buffer.from(hash).toString('base64');
