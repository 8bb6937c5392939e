import { type LongPage, type Page } from '../ports/read-model.js';
import { cursorOf } from './schemas.js';

/** The header that carries a position, in both directions. */
export const POSITION = 'plants-position';

/** The answer to a list. */
export interface ListAnswer {
  readonly headers: Readonly<Record<string, string>>;
  /** The same: names and values in turn. */
  readonly fields: readonly string[];
  readonly body: string;
  /** How the body becomes bytes: most are of one byte for each character, which is quicker to write so. */
  readonly encoding: 'latin1' | 'utf8';
}

/** A page that has not changed is the same object, and is answered with the same text. */
const made = new WeakMap<Page, { readonly limit: number; readonly answer: ListAnswer }>();

/** The answer with a page; `limit` is what the client asked for. */
export const listAnswer = (page: Page, limit: number): ListAnswer => {
  const before = made.get(page);
  if (before?.limit === limit) return before.answer;
  const body = `[${page.rows.map(({ row }) => row).join(',')}]`;
  const bytes = Buffer.byteLength(body);
  const headers = headersOf(page, page.rows.at(-1)?.id, bytes, limit);
  const encoding = bytes === body.length ? 'latin1' : 'utf8';
  const answer: ListAnswer = { headers, fields: Object.entries(headers).flat(), body, encoding };
  made.set(page, { limit, answer });
  return answer;
};

/** The answer with a page that shows the id of each plant. */
export const fullListAnswer = (page: Page, limit: number): Pick<ListAnswer, 'headers' | 'body'> => {
  // Each row is the text of an object, so that the id goes behind its brace.
  const body = `[${page.rows.map(({ id, row }) => `{"id":${id},${row.slice(1)}`).join(',')}]`;
  return {
    headers: headersOf(page, page.rows.at(-1)?.id, Buffer.byteLength(body), limit, '&view=full'),
    body,
  };
};

/** The answer with a long page. */
export const longListAnswer = (page: LongPage, limit: number) => ({
  headers: headersOf(page, page.lastId, page.body.length, limit),
  body: page.body,
});

const headersOf = (
  { more, position }: Pick<Page, 'more' | 'position'>,
  lastId: number | undefined,
  bytes: number,
  limit: number,
  view = '',
): Record<string, string> => ({
  [POSITION]: position,
  'content-type': 'application/json; charset=utf-8',
  'content-length': String(bytes),
  ...(more &&
    lastId !== undefined && {
      link: `</plants?limit=${limit}${view}&after=${cursorOf(lastId)}>; rel="next"`,
    }),
});
