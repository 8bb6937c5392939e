import { START } from '../../log/event-log.js';
import { type LongPage, type Page } from '../../lists/read-model.js';
import { contentTag, entityTag, isNamed } from '../representation.js';
import { cursorOf } from '../schemas.js';

/** The header that carries a position, in both directions. */
export const POSITION = 'plants-position';

/** The answer to a list before its representation is chosen. */
export interface ListAnswer {
  /** Header fields of 200 and 304. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** The answer to a short list. */
export interface ShortListAnswer {
  readonly status: 200 | 304;
  /** Names and values of header fields in turn, the form that `writeHead` takes fastest. */
  readonly fields: readonly string[];
  /** Empty with 304. */
  readonly body: string;
}

export const JSON_TYPE = 'application/json; charset=utf-8';

/** Both answers with one page. */
interface Prepared {
  readonly limit: number;
  readonly etag: string;
  readonly whole: ShortListAnswer;
  readonly unchanged: ShortListAnswer;
}

/** The answers of pages: the page cache returns the same object for an unchanged page. */
const prepared = new WeakMap<Page, Prepared>();

/**
 * The answer with a page of at most LONG_LIST plants, to a client whose limit and If-None-Match these are. The fast path
 * and the controller send it as it is; it is never compressed, so that its entity tag does not depend on which one does.
 */
export const shortListAnswer = (
  page: Page,
  limit: number,
  ifNoneMatch: string | undefined,
): ShortListAnswer => {
  const before = prepared.get(page);
  const { etag, whole, unchanged } = before?.limit === limit ? before : prepare(page, limit);
  return isNamed(ifNoneMatch, etag) ? unchanged : whole;
};

const prepare = (page: Page, limit: number): Prepared => {
  const body = `[${page.rows.map(({ row }) => row).join(',')}]`;
  const etag = entityTag(contentTag(body), 'identity');
  const fields = [...Object.entries(headersOf(page, page.rows.at(-1)?.id, limit)).flat(), 'etag', etag];
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

/** The answer with a page that shows the id of each plant. */
export const fullListAnswer = (page: Page, limit: number): ListAnswer => ({
  headers: headersOf(page, page.rows.at(-1)?.id, limit, '&view=full'),
  // Each row is the text of an object, so that the id goes behind its brace.
  body: `[${page.rows.map(({ id, row }) => `{"id":${id},${row.slice(1)}`).join(',')}]`,
});

/** The answer with a long page. */
export const longListAnswer = (page: LongPage, limit: number): ListAnswer => ({
  headers: headersOf(page, page.lastId, limit),
  body: page.body,
});

const headersOf = (
  { more, position }: Pick<Page, 'more' | 'position'>,
  lastId: number | undefined,
  limit: number,
  view = '',
): Record<string, string> => ({
  // Before the first event there is none, and clients could not send an empty one back.
  ...(position !== START && { [POSITION]: position }),
  ...(more &&
    lastId !== undefined && {
      link: `<?limit=${limit}${view}&after=${cursorOf(lastId)}>; rel="next"`,
    }),
});
