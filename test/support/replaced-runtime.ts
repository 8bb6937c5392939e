import { MACHINE, replaceRuntime, type Runtime } from '../../src/runtime/runtime.js';

const replaced: Partial<Runtime> = {};

/** Replaces parts of src/runtime/runtime.ts until the file of tests ends; those that were replaced before stay so. */
export const replaceParts = (parts: Partial<Runtime>): void => {
  replaceRuntime({ ...MACHINE, ...Object.assign(replaced, parts) });
};
