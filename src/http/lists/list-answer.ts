import { type IncomingMessage, type ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { PastLists, type PointInTime } from '../../history/as-of.js';
import { instantOf } from '../../history/instant.js';
import { knownPosition } from '../../history/read.js';
import { EventLog, type Position, START } from '../../log/event-log.js';
import { ListPlantsHandler, ListPlantsQuery, LONG_LIST } from '../../lists/list-plants.js';
import { type LongPage, type Page } from '../../lists/read-model.js';
import { goneSignal } from '../audit/event-streams.js';
import { type plantRoutes } from '../plants/plant-routes.js';
import { contentTag, entityTag, isNamed, Representations } from '../representation.js';
import { invalid, preferences, splitUrl } from '../requests.js';
import { type Asked } from '../route.js';
import { cursorOf, DEFAULT_LIMIT, MAX_FULL_LIMIT, MAX_LIMIT } from '../schemas.js';
import { LongLists } from './long-lists.js';

/** The header that carries a position, in both directions. */
export const POSITION = 'plants-position';

/** The answer to a list. */
export interface ListAnswer {
  readonly status: 200 | 304;
  /** Names and values of header fields in turn, the form that `writeHead` takes fastest. */
  readonly fields: readonly string[];
  /** Empty with 304. */
  readonly body: string | Uint8Array;
}

/** The query and header fields of a request for a list. */
export type AskedList = Pick<Asked<typeof plantRoutes.listPlants>, 'query' | 'headers'>;

export const JSON_TYPE = 'application/json; charset=utf-8';

/** Answers of every kind of list, for both of its doors: the fast path, and Nest's controller. */
@Injectable()
export class ListAnswers {
  constructor(
    private readonly lists: ListPlantsHandler,
    private readonly log: EventLog,
    private readonly past: PastLists,
    private readonly longLists: LongLists,
    private readonly representations: Representations,
  ) {}

  /** Throws Problem, and what `ListPlantsQuery` and `PastLists` throw. */
  async answer(owner: string, { query, headers }: AskedList, response: ServerResponse): Promise<ListAnswer> {
    const { req: request } = response;
    const { limit = DEFAULT_LIMIT, after, asOf, view } = query;
    const most = Math.min(limit, view === 'full' ? MAX_FULL_LIMIT : MAX_LIMIT);
    const full = view && { view };
    if (asOf) {
      const head = await this.log.head();
      const at = await pointOf(asOf, this.log);
      const gone = goneSignal(response);
      const page = await this.past.page(owner, at, { after, limit: most }, head, gone);
      const text = new URLSearchParams(splitUrl(request.url ?? '')[1]).get('asOf') ?? '';
      const shown = page.plants.map(({ id, name, tag }) => (full ? { id, name, tag } : { name, tag }));
      const fields = headersOf(page.position, page.more, limit, { ...full, asOf: text });
      return this.#represented(request, fields, JSON.stringify(shown));
    }
    const position = headers['Plants-Position'] as Position | undefined;
    const read = () => this.lists.execute(new ListPlantsQuery(owner, after, most, position));
    const page = await (most > LONG_LIST ? this.longLists.read(owner, response, read) : read());
    const answer = await this.#current(page, limit, full, request);
    if (!preferences(request).has('proof')) return answer;
    const proof = new URLSearchParams({
      limit: String(most),
      ...(after !== undefined && { after: cursorOf(after) }),
      ...(page.position !== START && { position: page.position }),
    });
    return { ...answer, fields: withProof(answer.fields, `<log/list?${proof.toString()}>; rel="proof"`) };
  }

  #current(
    page: Page | LongPage,
    limit: number,
    full: { readonly view: 'full' } | undefined,
    request: IncomingMessage,
  ): ListAnswer | Promise<ListAnswer> {
    if ('body' in page)
      return this.#represented(request, headersOf(page.position, nextOf(page), limit), page.body);
    if (!full) return shortListAnswer(page, limit, request.headers['if-none-match']);
    // Each row is the text of an object, so that the id goes behind its brace.
    const body = `[${page.rows.map(({ id, row }) => `{"id":${id},${row.slice(1)}`).join(',')}]`;
    return this.#represented(request, headersOf(page.position, nextOf(page), limit, full), body);
  }

  async #represented(
    request: IncomingMessage,
    headers: Readonly<Record<string, string>>,
    content: string | Uint8Array,
  ): Promise<ListAnswer> {
    const { status, fields, body } = await this.representations.of(request.headers, content);
    const ofBody = { 'content-type': JSON_TYPE, 'content-length': String(Buffer.byteLength(body)) };
    return {
      status,
      fields: Object.entries({ ...headers, ...(status === 200 && ofBody), ...fields }).flat(),
      body,
    };
  }
}

/** Both answers with one page. */
interface Prepared {
  readonly limit: number;
  readonly etag: string;
  readonly whole: ListAnswer;
  readonly unchanged: ListAnswer;
}

/** The answers of pages: the page cache returns the same object for an unchanged page. */
const prepared = new WeakMap<Page, Prepared>();

/**
 * The answer with a page of at most LONG_LIST plants, to a client whose limit and If-None-Match these are. It is never
 * compressed: made once, it is sent to everybody.
 */
const shortListAnswer = (page: Page, limit: number, ifNoneMatch: string | undefined): ListAnswer => {
  const before = prepared.get(page);
  const { etag, whole, unchanged } = before?.limit === limit ? before : prepare(page, limit);
  return isNamed(ifNoneMatch, etag) ? unchanged : whole;
};

const prepare = (page: Page, limit: number): Prepared => {
  const body = `[${page.rows.map(({ row }) => row).join(',')}]`;
  const etag = entityTag(contentTag(body), 'identity');
  const fields = [...Object.entries(headersOf(page.position, nextOf(page), limit)).flat(), 'etag', etag];
  const both: Prepared = {
    limit,
    etag,
    whole: {
      status: 200,
      fields: [...fields, 'content-type', JSON_TYPE, 'content-length', String(Buffer.byteLength(body))],
      body,
    },
    unchanged: { status: 304, fields, body: '' },
  };
  prepared.set(page, both);
  return both;
};

/** After which id the next page begins; undefined where there is none. */
const nextOf = ({ more, ...page }: Page | LongPage): number | undefined =>
  more ? ('body' in page ? page.lastId : page.rows.at(-1)?.id) : undefined;

/** Header fields of a page: its position, and the link to the page after the id `next`, with these parameters. */
const headersOf = (
  position: Position,
  next: number | undefined,
  limit: number,
  others: Readonly<Record<string, string>> = {},
): Record<string, string> => {
  const query = { limit: String(limit), ...others, after: cursorOf(next ?? 0) };
  return {
    // Before the first event there is none, and clients could not send an empty one back.
    ...(position !== START && { [POSITION]: position }),
    ...(next !== undefined && { link: `<?${new URLSearchParams(query).toString()}>; rel="next"` }),
  };
};

/** Header fields with the link to the proof of a page too, and of at least the events that the page shows. */
const withProof = (fields: readonly string[], proof: string): string[] => {
  const next = fields.indexOf('link') + 1;
  const links = next === 0 ? [...fields, 'link', proof] : fields.with(next, `${fields[next]}, ${proof}`);
  return [...links, 'preference-applied', 'proof'];
};

/** Resolves asOf on this log. Throws UnknownPosition, and Problem for a moment that is still to come. */
const pointOf = async (
  asOf: NonNullable<AskedList['query']['asOf']>,
  log: EventLog,
): Promise<PointInTime> => {
  if ('position' in asOf) return { position: await knownPosition(log, asOf.position, '?asOf') };
  if (asOf.instant <= instantOf(new Date())) return asOf;
  throw invalid([{ pointer: '?asOf', detail: 'must not be in the future' }]);
};
