import { type RouteOptions } from 'fastify';
import createRouter, { type HTTPMethod } from 'find-my-way';

/** The methods of the API. */
export const METHODS = ['GET', 'HEAD', 'POST', 'DELETE'] as const;

/** The methods of each path, so that other methods are answered with 405 and `Allow`, not with 404. */
export class KnownRoutes {
  readonly #router = createRouter({ maxParamLength: Infinity });
  readonly #methods = new Set<HTTPMethod>();

  /** Takes note of a route, as Fastify's onRoute hook shows it. */
  add({ method, url }: Pick<RouteOptions, 'method' | 'url'>): void {
    for (const known of [method].flat() as HTTPMethod[]) {
      if (known === 'OPTIONS') continue; // on every path, cors.ts
      if (this.#router.hasRoute(known, url)) continue;
      this.#router.on(known, url, () => undefined);
      this.#methods.add(known);
    }
  }

  /** The methods of a path, OPTIONS among them; none where nothing is there. */
  methodsOf(path: string): HTTPMethod[] {
    const known = [...this.#methods].filter((method) => this.#knows(method, path));
    // A path of its own, such as /plants/import, is no plant's.
    const own = known.filter((method) => this.#router.hasRoute(method, path));
    const methods = own.length > 0 ? own : known;
    return methods.length === 0 ? [] : [...methods, 'OPTIONS' as const].sort();
  }

  #knows(method: HTTPMethod, path: string): boolean {
    const found = this.#router.find(method, path);
    return found !== null && found.params.id !== ''; // find-my-way takes /plants/ for a plant without an id
  }
}
