/**
 * Jest runs what SWC has compiled (npm run build:test), without transforming anything itself: worker threads and
 * spawned processes need plain JavaScript files, and so one compiler setting serves all. test/lanes says when each of
 * these projects runs.
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

/** The end-to-end specs of `npm test`, for each kind of user. */
const JOURNEYS = [
  ...['http/plants', 'http/requests', 'http/head', 'http/openapi'], // clients
  ...['http/log', 'bundle', 'golden'], // auditors
  ...['http/operations'], // operators
  'readme', // who has just found it
];

/** The journeys over servers: one for each kind of user. */
const JOURNEYS_ON_SERVERS = ['http/plants', 'http/log', 'http/operations'];

/** End-to-end tests that are about SQLite files, or pass whatever the store is: they run on SQLite alone. */
const ON_SQLITE_ALONE = [
  ...['backup', 'bundle', 'cli', 'crash', 'foreign-verifier', 'garbage-collection', 'golden', 'hostile'],
  ...['packed', 'readme', 'rebuild-from-log', 'situations', 'terminal', 'tracing', 'http/auth', 'http/cors'],
  ...['http/generated-clients', 'http/generated-requests', 'http/head', 'http/requests'],
  ...['http/metrics-listen', 'http/slow-requests', 'http/open-files', 'http/openapi', 'http/problem-page'],
  ...['http/request-log', 'http/starting'],
];

const files = (names) => `/e2e/(${names.join('|')})\\.spec\\.js$`;
const patterns = (names) => names.map((name) => `**/e2e/${name}.spec.js`);
const EMBEDDED = { ...project, globals: { STORES: 'embedded' } };
const SERVERS = { ...project, globals: { STORES: 'servers' } };

export default {
  // Real processes, browsers and disks, beside whatever else the machine does: a condition that has not come true in
  // this time never will.
  testTimeout: 600_000,
  projects: [
    {
      ...project,
      displayName: 'unit + contract',
      testPathIgnorePatterns: ['/e2e/', '/simulation/(?!simulation\\.)', '/unit/audit/altered-files\\.'],
    },
    {
      ...project,
      displayName: 'simulation',
      testMatch: ['**/simulation/*.spec.js', '**/unit/audit/altered-files.spec.js'],
    },
    { ...EMBEDDED, displayName: 'journeys: sqlite + sqlite', testMatch: patterns(JOURNEYS) },
    {
      ...SERVERS,
      displayName: 'journeys: eventstoredb + redis',
      testMatch: patterns(JOURNEYS_ON_SERVERS),
    },
    {
      ...EMBEDDED,
      displayName: 'e2e: sqlite + sqlite',
      testMatch: ['**/e2e/**/*.spec.js'],
      testPathIgnorePatterns: ['/e2e/(servers|console)/', files(JOURNEYS)],
    },
    {
      ...SERVERS,
      displayName: 'e2e: eventstoredb + redis',
      testMatch: ['**/e2e/**/*.spec.js'],
      testPathIgnorePatterns: ['/e2e/console/', files([...ON_SQLITE_ALONE, ...JOURNEYS_ON_SERVERS])],
    },
    // The console depends on answers, not on stores: one of the two is enough.
    { ...EMBEDDED, displayName: 'browser', testMatch: ['**/e2e/console/*.spec.js'] },
  ],
};
