/** Preloaded into a service (`node --import`): ends it as kill -9 would, at the step of a rebuild that DIE_AT_STEP names. */
import { subscribe } from 'node:diagnostics_channel';

subscribe('plants.rebuild.step', (step) => {
  if (step === process.env.DIE_AT_STEP) process.kill(process.pid, 'SIGKILL');
});
