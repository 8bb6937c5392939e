/** Preloaded into a service (`node --import`): its projector does nothing. */
import { Projector } from '../../src/projection/projector.js';

Projector.prototype.run = (signal) =>
  new Promise((resolve) => {
    signal.addEventListener('abort', () => {
      resolve();
    });
  });
