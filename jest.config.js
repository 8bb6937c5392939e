/**
 * Jest runs what SWC has compiled (npm run build:test), without transforming anything itself: worker threads and
 * spawned processes need plain JavaScript files, and so one compiler setting serves all.
 */
const build = `<rootDir>/${process.env.TEST_BUILD ?? 'build'}/test`;

const project = {
  testEnvironment: `${build}/support/tidy-environment.js`,
  roots: [build],
  testMatch: ['**/*.spec.js'],
  transform: {},
  injectGlobals: false,
  globalSetup: `${build}/support/servers.js`,
  globalTeardown: `${build}/support/servers-stop.js`,
};

/** End-to-end tests that are about SQLite files, or pass whatever the store is: they run on SQLite alone. */
const ON_SQLITE_ALONE = [
  'auth',
  'bad-body',
  'bad-request',
  'cors',
  'problem-page',
  'request-log',
  'golden',
  'terminal',
  'foreign-verifier',
  'backup',
  'bundle',
  'cli',
  'crash',
  'readme',
  'rebuild-from-log',
  'starting',
  'odd-requests',
  'openapi',
  'generated-clients',
  'generated-requests',
  'metrics-listen',
  'open-files',
  'packed',
  'hostile',
  'tracing',
  'garbage-collection',
];

export default {
  // Real processes, browsers and disks, on two cores of which some are three times slower than others: a condition that
  // has not come true in this time never will.
  testTimeout: 300_000,
  // No workers: Jest ends them before they have written what they covered, and the gate would miss it. For the other
  // cores, `npm test` runs the projects as processes of their own.
  maxWorkers: 1,
  projects: [
    { ...project, displayName: 'unit + contract', testPathIgnorePatterns: ['/e2e/'] },
    {
      ...project,
      displayName: 'e2e: sqlite + sqlite',
      globals: { STORES: 'embedded' },
      testMatch: ['**/e2e/**/*.spec.js'],
      testPathIgnorePatterns: ['/e2e/servers/'],
    },
    {
      ...project,
      displayName: 'e2e: eventstoredb + redis',
      globals: { STORES: 'servers' },
      testMatch: ['**/e2e/**/*.spec.js'],
      testPathIgnorePatterns: [
        `/e2e/(http/)?(${ON_SQLITE_ALONE.join('|')})\\.spec\\.js$`,
        // What a browser does with answers is the same whatever the stores: one file is enough.
        '/e2e/console/(?!owner)',
      ],
    },
  ],
};
