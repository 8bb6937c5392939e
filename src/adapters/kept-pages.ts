import { LRUCache } from 'lru-cache';
import { type Page } from '../ports/read-model.js';

/** All pages that are kept, in bytes. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** What a row takes beside its text, in bytes. */
const ROW_BYTES = 100;

/** A page, and the copy of the read model that it was read from. */
export interface Kept<Copy> {
  readonly copy: Copy;
  readonly page: Page;
}

/**
 * Pages as they were read. A partition's position tells every state of its rows from every other, so that a page is
 * still right where its copy is the active one and stands at the page's position: that is quick to ask, and reading
 * 20 rows takes five times as long.
 */
export class KeptPages<Copy> {
  readonly #pages = new LRUCache<string, Kept<Copy>>({
    maxSize: KEPT_BYTES,
    sizeCalculation: ({ page: { rows } }, name) =>
      rows.reduce((bytes, { row }) => bytes + 2 * row.length + ROW_BYTES, 2 * name.length + ROW_BYTES),
  });

  get(owner: string, after: number | undefined, limit: number): Kept<Copy> | undefined {
    return this.#pages.get(nameOf(owner, after, limit));
  }

  keep(copy: Copy, owner: string, after: number | undefined, limit: number, page: Page): void {
    this.#pages.set(nameOf(owner, after, limit), { copy, page });
  }
}

const nameOf = (owner: string, after: number | undefined, limit: number): string =>
  `${limit} ${after ?? ''} ${owner}`;
