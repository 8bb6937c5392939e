/** The hook of register.ts: whoever imports the service's `stores` gets the stub, but for the stub itself. */
import { type ResolveHook } from 'node:module';

const STORES = new URL('../../src/service/stores.js', import.meta.url).href;
const STUB = new URL('./stores.js', import.meta.url).href;

export const resolve: ResolveHook = async (specifier, context, next) => {
  const found = await next(specifier, context);
  return found.url === STORES && context.parentURL !== STUB ? { ...found, url: STUB } : found;
};
