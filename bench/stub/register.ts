/**
 * Preloaded into this service (`node --import`), it lets the service's own `stores` be imported from `stub/stores`
 * instead. The product has no switch for that, and everything else in it runs as it is.
 */
import { register } from 'node:module';

register('./resolve.js', import.meta.url);
