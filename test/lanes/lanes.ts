import { availableParallelism } from 'node:os';

/** A part of `npm run test:all`. */
export interface Lane {
  readonly name: string;
  /** The faults that it looks for, in a line. */
  readonly what: string;
  /** Its duration on two quiet cores, in minutes. */
  readonly minutes: number;
  /** It measures beside a control, and wants a machine with nothing else to do: `--within` leaves it out. */
  readonly measures?: true;
  /** The arguments of Node. */
  readonly run: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const JEST = ['--experimental-vm-modules', '--no-warnings', 'node_modules/jest/bin/jest.js'];

/** Jest's processes at a time: more than cores, since tests now and then wait for other processes and disks. */
export const workers = (more: number): string => `--maxWorkers=${availableParallelism() + more}`;
/** For end-to-end tests, which have processes of their own. */
const WORKERS = workers(1);

/** The arguments of Node for Jest, which tells what it does by our reporter. */
export const jest = (projects: readonly string[], ...more: readonly string[]): string[] => [
  ...JEST,
  ...['--reporters', './build/test/lanes/reporter.js', ...more],
  ...['--selectProjects', ...projects],
];

/**
 * A spec file alone. Forced to exit: after thousands of connections that were cut, Node 20 waits in
 * `Environment::CleanupHandles` for a request that it has forgotten, and takes a whole core meanwhile.
 */
const spec = (project: string, file: string): string[] =>
  jest([project], '--runInBand', '--forceExit', '--testPathPatterns', `/${file}\\.spec\\.js$`);

const main = (file: string, ...more: readonly string[]): string[] => [
  '--no-warnings',
  `build/test/${file}.js`,
  ...more,
];

const EMBEDDED = 'e2e: sqlite + sqlite';
const SERVERS = 'e2e: eventstoredb + redis';

/** Jest's projects that are part of `npm test`. */
export const QUICK = ['unit + contract', 'journeys: sqlite + sqlite', 'journeys: eventstoredb + redis'];

/** The arguments of Node for them. */
export const QUICK_TESTS = jest(QUICK, workers(2));

/** The quickest first: `--within` takes them in this order. */
export const LANES: readonly Lane[] = [
  {
    name: 'simulation',
    what: 'simulated worlds that failed once, second opinions on histories, states after a power cut, altered logs',
    minutes: 1,
    run: jest(['simulation'], WORKERS),
  },
  {
    name: 'checkers',
    what: 'what the three checkers of bundles and list proofs say to the same forgeries',
    minutes: 1,
    run: jest(['unit + contract'], WORKERS, '--testPathPatterns', '/audit/(check|list-proofs)\\.spec'),
    env: { ALL_CHECKED: '1' },
  },
  {
    name: 'foreign',
    what: "signatures, cosignatures, proofs and tiles verified by Go's libraries",
    minutes: 1,
    run: spec(EMBEDDED, 'foreign-verifier'),
    env: { TEST_FOREIGN: 'required' },
  },
  {
    name: 'requests',
    what: '5,000 requests made from the OpenAPI document',
    minutes: 1,
    run: spec(EMBEDDED, 'generated-requests'),
    env: { GENERATED_REQUESTS: '5000' },
  },
  {
    name: 'bench',
    what: 'the benchmark in its shortest form: for its working, not for its figures',
    minutes: 3,
    run: ['--no-warnings', 'build/bench/main.js', '--quick'],
  },
  {
    name: 'browser',
    what: 'the console in Chromium',
    minutes: 6,
    run: jest(['browser'], WORKERS),
  },
  {
    name: 'servers',
    what: 'the end-to-end tests over EventStoreDB and Redis',
    minutes: 8,
    run: jest([SERVERS], WORKERS),
  },
  {
    name: 'embedded',
    what: 'all end-to-end tests over SQLite',
    minutes: 9,
    run: jest([EMBEDDED], WORKERS),
  },
  ...['22', '24', '26'].map((version) => ({
    name: `node-${version}`,
    what: `the tests of npm test on Node ${version}, which npm brings`,
    minutes: 8,
    run: main('lanes/node-version', version),
  })),
  {
    name: 'coverage',
    what: 'how much of src the unit and contract suites run, in one process',
    minutes: 8,
    run: ['node_modules/c8/bin/c8.js', 'node', ...jest(['unit + contract'], '--runInBand')],
  },
  {
    name: 'restarts',
    what: '100 processes restarted one after the other under load, without a failed request',
    minutes: 10,
    run: spec(SERVERS, 'rolling-restart'),
    env: { ROLLING_RESTARTS: '100', ROLLING_CLIENTS: '8' },
  },
  {
    name: 'crash',
    what: '40 kills during 20,000 requests of 64 clients',
    minutes: 4,
    run: spec(EMBEDDED, 'crash'),
    env: { CRASH_OPERATIONS: '20000', CRASH_KILLS: '40' },
  },
  {
    name: 'chaos',
    what: '60 faults of four processes, the log and Redis under load',
    minutes: 5,
    run: spec(SERVERS, 'servers/chaos'),
    env: { CHAOS_FAULTS: '60' },
  },
  {
    name: 'rebuild',
    what: 'lists while 200,000 events are rebuilt; wants a machine with nothing else to do',
    minutes: 5,
    measures: true,
    run: spec(EMBEDDED, 'rebuild-load'),
    env: { REBUILD_EVENTS: '200000' },
  },
  {
    name: 'files',
    what: 'each file of the embedded stores taken away in every way, 20 times each',
    minutes: 20,
    run: spec(EMBEDDED, 'files-taken'),
    env: { FILES_ROUNDS: '20' },
  },
  {
    name: 'worlds',
    what: 'ten minutes of simulated worlds',
    minutes: 10,
    run: main('simulation/world/main', '--minutes', '10'),
  },
  {
    name: 'hostile',
    what: 'thirteen kinds of hostile clients, a minute each; wants a machine with nothing else to do',
    minutes: 21,
    measures: true,
    run: spec(EMBEDDED, 'hostile'),
    env: { HOSTILE_SECONDS: '60' },
  },
  {
    name: 'mutants',
    what: 'planted faults, which simulated worlds have to find',
    minutes: 30,
    run: main('simulation/mutants/main'),
  },
  {
    name: 'altered',
    what: '340 alterations of the files of a signed log: who finds each, and how soon',
    minutes: 15,
    run: main('support/altered/main', '3', '20000', String(availableParallelism())),
  },
  {
    name: 'crash-states',
    what: '3,000 states that a power cut could leave of the files',
    minutes: 20,
    run: spec('simulation', 'crash-states'),
    env: { CRASH_STATES: '3000' },
  },
];
