/**
 * Jest runs what SWC has compiled into build/ (npm run build:test), without transforming anything itself:
 * worker threads and spawned processes need plain JavaScript files, and so one compiler setting serves all.
 */
export default {
  testEnvironment: 'node',
  roots: ['<rootDir>/build/test'],
  testMatch: ['**/*.spec.js'],
  transform: {},
  injectGlobals: false,
  // Real processes, real disks, two cores: a condition that has not come true in this time never will.
  testTimeout: 60_000,
};
