/** The boundaries of docs/architecture.md, each with its reason. */
module.exports = {
  forbidden: [
    {
      name: 'domain-imports-nothing',
      comment:
        'domain is what auditors read to know the rules: pure functions over plain data, no I/O, no library.',
      severity: 'error',
      from: { path: '^src/domain/' },
      to: { pathNot: '^src/domain/' },
    },
    {
      name: 'log-knows-the-domain-only',
      comment: 'The port is a promise in words of the domain; an adapter in it would bind every implementer.',
      severity: 'error',
      from: { path: '^src/log/[^/]+$' },
      to: { path: '^src/', pathNot: '^src/(domain|runtime)/|^src/log/[^/]+$' },
    },
    {
      name: 'lists-know-the-log-only',
      comment: 'Lists are what the log says: they are filled by the projection, and know no command.',
      severity: 'error',
      from: { path: '^src/lists/[^/]+$', pathNot: '^src/lists/temporary-lists\\.ts$' },
      to: { path: '^src/', pathNot: '^src/(domain|runtime)/|^src/(log|lists)/[^/]+$' },
    },
    {
      name: 'adapters-implement-ports-only',
      comment: 'An adapter that knew its callers, or another adapter, could not be replaced by another.',
      severity: 'error',
      from: { path: '^src/([^/]+)/(sqlite|eventstoredb|redis)/' },
      to: {
        path: '^src/',
        pathNot:
          '^src/(domain|runtime|sqlite|transparency)/|^src/(log|lists|audit)/[^/]+$|^src/$1/$2/|^src/log/sqlite/upkeep\\.ts$',
      },
    },
    {
      name: 'transparency-imports-nothing',
      comment:
        'It is a library that strangers verify with, and browsers: nothing of ours, no module of Node, and no package where there is another way.',
      severity: 'error',
      from: { path: '^src/transparency/' },
      to: { pathNot: '^src/transparency/|node_modules/@noble/post-quantum/ml-dsa' },
    },
    {
      name: 'sqlite-and-runtime-import-nothing',
      comment: 'They are what SQLite, the file system and the event loop lack, for every room.',
      severity: 'error',
      from: { path: '^src/(sqlite|runtime)/' },
      to: { path: '^src/', pathNot: '^src/($1|runtime)/' },
    },
    {
      name: 'core-knows-no-adapter',
      comment:
        'Commands, projection, history, audit and erasure work on any log and any lists, so they know only the ports.',
      severity: 'error',
      from: { path: '^src/(commands|projection|history|audit|erasure)/[^/]+$' },
      to: { path: '^src/[^/]+/(sqlite|eventstoredb|redis)/|^src/(sqlite|http|cli|service|operations)/' },
    },
    {
      name: 'core-parts-are-apart',
      comment:
        'Commands, projection and lists are scaled and reasoned about separately; they meet in the log and the lists. The audit reads history, and the projection records what a rebuild does.',
      severity: 'error',
      from: { path: '^src/(commands|projection|history|audit)/' },
      to: {
        path: '^src/(commands|projection|history|audit)/',
        pathNot: ['^src/$1/', '^src/history/', '^src/commands/(read-|record-)?rebuilds\\.ts$'],
      },
    },
    {
      name: 'history-stands-alone',
      comment: 'History is what the log says, without a projection and without proofs.',
      severity: 'error',
      from: { path: '^src/history/' },
      to: { path: '^src/(commands/(?!read-rebuilds\\.)|projection|audit)' },
    },
    {
      name: 'witness-knows-audit-only',
      comment:
        'A witness follows logs of others: it needs their formats, and nothing of a service but a file.',
      severity: 'error',
      from: { path: '^src/witness/' },
      to: { path: '^src/', pathNot: '^src/(witness|audit|transparency|runtime|sqlite)/' },
    },
    {
      name: 'http-knows-no-adapter',
      comment:
        'Only the wiring (service/stores.ts, cli/) opens stores; HTTP speaks to the buses and the ports.',
      severity: 'error',
      from: { path: '^src/http/' },
      to: { path: '^src/[^/]+/(sqlite|eventstoredb|redis)/|^src/(sqlite|cli)/' },
    },
    {
      name: 'commands-of-the-line-know-no-adapter',
      comment:
        'A command does the same work on every log and all lists; cli/commands/ and these files open them.',
      severity: 'error',
      from: {
        path: '^src/cli/[^/]+$',
        pathNot: '^src/cli/(operations-here|with-operations|with-stores)\\.ts$',
      },
      to: { path: '^src/[^/]+/(sqlite|eventstoredb|redis)/|^src/sqlite/|^src/service/stores\\.ts$' },
    },
    {
      name: 'operations-knows-no-surface',
      comment: 'The command line, HTTP and metrics all show what operations knows.',
      severity: 'error',
      from: { path: '^src/operations/' },
      to: { path: '^src/[^/]+/(sqlite|eventstoredb|redis)/|^src/(sqlite|http|cli|service)/' },
    },
    {
      name: 'database-clients-in-adapters-only',
      comment: 'A database client that is used elsewhere cannot be replaced by choosing another URL.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/[^/]+/(sqlite|eventstoredb|redis)/|^src/sqlite/' },
      to: { path: 'node_modules/(@photostructure/sqlite|redis|@redis|@eventstore)|^(node:)?sqlite$' },
    },
    {
      name: 'opentelemetry-in-tracing-only',
      comment: 'Spans are made around the ports and the requests; the traced code is not changed for it.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/service/tracing/' },
      to: { path: 'node_modules/@opentelemetry' },
    },
    {
      name: 'tracing-is-loaded-when-wanted',
      comment: 'Tracing that is off costs nothing, so nothing of it may be loaded by an ordinary import.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/service/tracing/' },
      to: { path: '^src/service/tracing/', dynamic: false, dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'loaded-when-wanted',
      comment: 'Who imports one of these in the ordinary way makes every start wait for it.',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        path: '^src/(http/auth/counted-rate-limit|service/logging/readable-lines)\\.ts$',
        dynamic: false,
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'console-knows-the-api-only',
      comment:
        'What the console can do a script can do as well: it is a client, and has nothing of the service but the verifier, which is a library.',
      severity: 'error',
      from: { path: '^console/' },
      to: { pathNot: '^(console|src/transparency)/|node_modules/(preact|@preact|oauth4webapi)/' },
    },
    {
      name: 'nobody-imports-the-console',
      comment: 'The service sends its files, and runs none of them.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^console/' },
    },
    {
      name: 'no-cycles',
      comment: 'A cycle means that two files are one thing with two names.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'no-orphans',
      comment: 'A file that nothing imports is dead.',
      severity: 'error',
      from: { orphan: true, pathNot: '^src/cli/plants\\.ts$|^console/main\\.tsx$|worker\\.ts$' },
      to: {},
    },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'default'] },
  },
};
