import { START } from '../../ports/event-log.js';
import { type LongPage, type Page } from '../../ports/read-model.js';
import { contentTag, entityTag } from '../representation.js';
import { cursorOf } from '../schemas.js';

/** The header that carries a position, in both directions. */
export const POSITION = 'plants-position';

/** The answer to a list. */
export interface ListAnswer {
  /** Header fields of 200 and 304. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** The answer to a short list, ready to be written. */
export interface ShortListAnswer extends ListAnswer {
  readonly body: string;
  readonly etag: string;
  /** Names and values of header fields in turn, of 304 and of 200. */
  readonly unchanged: readonly string[];
  readonly fields: readonly string[];
  /** The encoding of the body: latin1, which is faster to write, where each character is one byte. */
  readonly encoding: 'latin1' | 'utf8';
}

export const JSON_TYPE = 'application/json; charset=utf-8';

/** The answers of pages: the page cache returns the same object for an unchanged page. */
const made = new WeakMap<Page, { readonly limit: number; readonly answer: ShortListAnswer }>();

/** The answer with a page; `limit` is the client's. */
export const listAnswer = (page: Page, limit: number): ShortListAnswer => {
  const before = made.get(page);
  if (before?.limit === limit) return before.answer;
  const body = `[${page.rows.map(({ row }) => row).join(',')}]`;
  const bytes = Buffer.byteLength(body);
  const headers = headersOf(page, page.rows.at(-1)?.id, limit);
  const etag = entityTag(contentTag(body), 'identity');
  const unchanged = [...Object.entries(headers).flat(), 'etag', etag];
  const answer: ShortListAnswer = {
    headers,
    body,
    etag,
    unchanged,
    fields: [...unchanged, 'content-type', JSON_TYPE, 'content-length', String(bytes)],
    encoding: bytes === body.length ? 'latin1' : 'utf8',
  };
  made.set(page, { limit, answer });
  return answer;
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
      link: `</plants?limit=${limit}${view}&after=${cursorOf(lastId)}>; rel="next"`,
    }),
});
