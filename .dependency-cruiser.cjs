/** The boundaries of docs/architecture.md, each with its reason. */
module.exports = {
  forbidden: [
    {
      name: 'plants-imports-nothing',
      comment:
        'plants is what auditors read to know the rules: pure functions over plain data, no I/O, no library.',
      severity: 'error',
      from: { path: '^src/plants/' },
      to: { pathNot: '^src/plants/' },
    },
    {
      name: 'rebuilds-decides-only',
      comment: 'What may be done about a rebuild follows from its stream alone; write/ appends it.',
      severity: 'error',
      from: { path: '^src/rebuilds/' },
      to: { path: '^src/', pathNot: '^src/(plants|ports|rebuilds)/' },
    },
    {
      name: 'ports-import-plants-only',
      comment:
        'A port is a promise in words of the domain; an adapter or a framework in it would bind every implementer.',
      severity: 'error',
      from: { path: '^src/ports/' },
      to: { pathNot: '^src/(plants|ports|transparency)/' },
    },
    {
      name: 'core-knows-no-adapter',
      comment:
        'write, read, projector, history and audit work on any log and any read model, so they know only the ports.',
      severity: 'error',
      from: { path: '^src/(write|read|projector|history|audit)/' },
      to: { path: '^src/(adapters|http|cli|service|operations|metrics)/' },
    },
    {
      name: 'core-parts-are-apart',
      comment:
        'Writing, reading and projecting are scaled and reasoned about separately; they meet in the log and the read model. The audit reads history, and the projector records what a rebuild does.',
      severity: 'error',
      from: { path: '^src/(write|read|projector|history|audit)/' },
      to: {
        path: '^src/(write|read|projector|history|audit)/',
        pathNot: ['^src/$1/', '^src/history/', '^src/write/rebuilds\\.ts$'],
      },
    },
    {
      name: 'erasure-knows-no-surface',
      comment:
        'An erasure writes, waits for lists and tree, and replaces events: by the ports, as a command and an auditor do.',
      severity: 'error',
      from: { path: '^src/erasure/' },
      to: { path: '^src/', pathNot: '^src/(erasure|plants|ports|async|rebuilds|write|audit|transparency)/' },
    },
    {
      name: 'witness-knows-audit-only',
      comment:
        'A witness follows logs of others: it needs their formats, and no store or setting of a service.',
      severity: 'error',
      from: { path: '^src/witness/' },
      to: { path: '^src/', pathNot: '^src/(witness|audit|transparency|ports|async)/' },
    },
    {
      name: 'history-stands-alone',
      comment: 'History is what the log says, without a projection and without proofs.',
      severity: 'error',
      from: { path: '^src/history/' },
      to: { path: '^src/(write|read|projector|audit)/' },
    },
    {
      name: 'adapters-implement-ports-only',
      comment: 'An adapter that knew its callers could not be replaced by another.',
      severity: 'error',
      from: { path: '^src/adapters/([^/]+)/' },
      to: { path: '^src/(?!plants/|ports/|transparency/|adapters/|files/|async/)' },
    },
    {
      name: 'transparency-imports-nothing',
      comment:
        'It is a library that strangers verify with, and browsers: nothing of ours, no package, no module of Node.',
      severity: 'error',
      from: { path: '^src/transparency/' },
      to: { pathNot: '^src/transparency/' },
    },
    {
      name: 'files-and-async-import-nothing',
      comment: 'They are what the file system and the event loop lack, for every room.',
      severity: 'error',
      from: { path: '^src/(files|async)/' },
      to: { path: '^src/', pathNot: '^src/$1/' },
    },
    {
      name: 'adapters-are-apart',
      comment: 'SQLite, EventStoreDB and Redis are chosen one by one.',
      severity: 'error',
      from: { path: '^src/adapters/([^/]+)/' },
      to: { path: '^src/adapters/([^/]+)/', pathNot: '^src/adapters/$1/' },
    },
    {
      name: 'http-knows-no-adapter',
      comment:
        'Only the wiring (service/start.ts, cli/) opens stores; HTTP speaks to the buses and the ports.',
      severity: 'error',
      from: { path: '^src/http/' },
      to: { path: '^src/(adapters|cli)/' },
    },
    {
      name: 'commands-know-no-adapter',
      comment:
        'A command does the same work on every log and every read model; cli/commands/ and these files open them.',
      severity: 'error',
      from: {
        path: '^src/cli/[^/]+$',
        pathNot: '^src/cli/(operations-here|with-operations|with-stores)\\.ts$',
      },
      to: { path: '^src/adapters/' },
    },
    {
      name: 'operations-knows-no-surface',
      comment: 'The command line, HTTP and metrics all show what operations knows.',
      severity: 'error',
      from: { path: '^src/operations/' },
      to: { path: '^src/(adapters|http|cli|service|metrics)/' },
    },
    {
      name: 'database-clients-in-adapters-only',
      comment: 'A database client that is used elsewhere cannot be replaced by choosing another URL.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/adapters/' },
      to: { path: 'node_modules/(@photostructure/sqlite|redis|@redis|@eventstore)|^(node:)?sqlite$' },
    },
    {
      name: 'opentelemetry-in-tracing-only',
      comment: 'Spans are made around the ports and the requests; the traced code is not changed for it.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/tracing/' },
      to: { path: 'node_modules/@opentelemetry' },
    },
    {
      name: 'tracing-is-loaded-when-wanted',
      comment: 'Tracing that is off costs nothing, so nothing of it may be loaded by an ordinary import.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/tracing/' },
      to: { path: '^src/tracing/', dynamic: false, dependencyTypesNot: ['type-only'] },
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
