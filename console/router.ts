/** The page is in the path, all of its state in the query, so that any view can be sent to others. */
import { signal } from '@preact/signals';

/** A page's path below /console, without slashes around it, and its query. */
export interface Place {
  readonly page: string;
  readonly query: URLSearchParams;
}

/** The path of /console/: this module is in a folder below it. */
export const ROOT = new URL('../', import.meta.url).pathname;

/** The address of the service's API, with a slash at its end: where /console is, whatever proxies put before it. */
export const API_ROOT = new URL('../../', import.meta.url).href;

const placeOf = ({ pathname, search }: Pick<Location, 'pathname' | 'search'>): Place => ({
  page: pathname.startsWith(ROOT) ? pathname.slice(ROOT.length).replace(/\/$/, '') : '',
  query: new URLSearchParams(search),
});

export const place = signal<Place>(placeOf(location));

/** Query parameters to set; those that are undefined or empty are left out. */
export type Query = Readonly<Record<string, string | number | undefined>>;

/** The address of a page. */
export const hrefOf = (page: string, query: Query = {}): string => {
  const set = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, String(value)]],
  );
  const search = new URLSearchParams(set).toString();
  return `${ROOT}${page}${search && `?${search}`}`;
};

/** Goes to a page; with `replace` the address before it is not kept for the browser's way back. */
export const navigate = (href: string, { replace = false } = {}): void => {
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  place.value = placeOf(location);
};

/** Changes parameters of this page's query, and keeps the others. */
export const changeQuery = (changes: Query, options?: { readonly replace?: boolean }): void => {
  const { page, query } = place.peek();
  navigate(hrefOf(page, { ...Object.fromEntries(query), ...changes }), options);
};

/** Follows the browser's ways forth and back, and links to pages, without loading the document again. */
export const followLinks = (): void => {
  addEventListener('popstate', () => {
    place.value = placeOf(location);
  });
  document.addEventListener('click', (event) => {
    const { target } = event;
    const link = target instanceof Element ? target.closest('a') : null;
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || event.defaultPrevented || link.target !== '' || link.hasAttribute('download'))
      return;
    if (link.origin !== location.origin || !`${link.pathname}/`.startsWith(ROOT) || link.hash !== '') return;
    event.preventDefault();
    navigate(link.href);
  });
};
