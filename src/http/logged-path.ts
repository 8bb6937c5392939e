/** A segment that a log may show: a short one, or a UUID. Ids, tiles and route names are that, and tokens are not. */
const SHOWN =
  /^(?:[\w.~@:+=%,-]{0,20}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z]{1,20}(?:[-._][a-z]{1,20}){1,5})$/i;

/** More segments than any path of ours has: a tile deep in the tree. */
const MAX_SEGMENTS = 8;

/** In place of the rest of a path. */
const REST = '…';

/**
 * The path of a request as a log may show it: bounded, without query, and cut before the first segment that may be a
 * token. What follows such a segment may be the rest of it, since base64 has slashes.
 */
export const loggedPath = (url: string): string => {
  // The authority of the absolute form may hold a password.
  const target = /^https?:\/\//i.test(url) ? url.slice(schemeless(url)) : url;
  const [path = ''] = target.slice(0, MAX_LOOKED_AT).split(/[?#]/, 1);
  if (path === '*') return path;
  if (!path.startsWith('/')) return REST;
  const segments = path.slice(1).split('/', MAX_SEGMENTS + 1);
  const shown = segments.findIndex((segment, index) => index === MAX_SEGMENTS || !SHOWN.test(segment));
  return shown === -1 ? path : `/${[...segments.slice(0, shown), REST].join('/')}`;
};

/** Longer than every path that is shown whole. */
const MAX_LOOKED_AT = 1_024;

/** Index at which the path of an absolute URL begins. */
const schemeless = (url: string): number => {
  const slash = url.indexOf('/', url.indexOf('://') + 3);
  return slash === -1 ? url.length : slash;
};
