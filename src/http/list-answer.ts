import { type Page } from '../ports/read-model.js';
import { cursorOf } from './schemas.js';

/** The header that carries a position, in both directions. */
export const POSITION = 'plants-position';

/** The answer to a list. */
export interface ListAnswer {
  readonly headers: Readonly<Record<string, string>>;
  /** The same: names and values in turn. */
  readonly fields: readonly string[];
  readonly body: string;
}

/** A page that has not changed is the same object, and is answered with the same text. */
const made = new WeakMap<Page, { readonly limit: number; readonly answer: ListAnswer }>();

/** The answer with a page; `limit` is what the client asked for. */
export const listAnswer = (page: Page, limit: number): ListAnswer => {
  const before = made.get(page);
  if (before?.limit === limit) return before.answer;
  const body = `[${page.rows.map(({ row }) => row).join(',')}]`;
  const last = page.more ? page.rows.at(-1) : undefined;
  const headers = {
    [POSITION]: page.position,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    ...(last && { link: `</plants?limit=${limit}&after=${cursorOf(last.id)}>; rel="next"` }),
  };
  const answer = { headers, fields: Object.entries(headers).flat(), body };
  made.set(page, { limit, answer });
  return answer;
};
