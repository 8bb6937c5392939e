export { tearDown as default } from './servers.js';
